package eval

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// A bar is one number of a chart, with its confidence interval.
type bar struct {
	label string
	Interval
	color string // a variable of the page
}

// drawChart draws horizontal bars with their intervals as SVG, which scales and loads
// nothing. A bar without observations says so.
func drawChart(title string, bars []bar, show func(float64) string) template.HTML {
	const width, left, right, row, top = 420, 130, 84, 24, 28
	most := 0.0
	for _, b := range bars {
		most = math.Max(most, math.Max(b.High, b.Value))
	}
	if most == 0 {
		most = 1
	}
	x := func(v float64) float64 { return left + v/most*(width-left-right) }
	var s strings.Builder
	fmt.Fprintf(&s, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s"><text x="0" y="14" font-weight="600">%[3]s</text>`,
		width, top+row*len(bars), template.HTMLEscapeString(title))
	for i, b := range bars {
		y := top + row*i
		fmt.Fprintf(&s, `<text x="0" y="%d">%s</text>`, y+13, template.HTMLEscapeString(truncate(b.label, 22)))
		if b.N == 0 {
			fmt.Fprintf(&s, `<text x="%d" y="%d">not known</text>`, left, y+13)
			continue
		}
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="14" fill="var(%s)"/>`, left, y+2, x(b.Value)-left, b.color)
		if b.High > b.Low {
			fmt.Fprintf(&s, `<path d="M%.1f %dH%.1fM%.1f %dv8M%.1f %dv8" stroke="currentColor" fill="none"/>`, x(b.Low), y+9, x(b.High), x(b.Low), y+5, x(b.High), y+5)
		}
		fmt.Fprintf(&s, `<text x="%.1f" y="%d">%s</text>`, math.Max(x(b.High), x(b.Value))+6, y+13, template.HTMLEscapeString(show(b.Value)))
	}
	s.WriteString("</svg>")
	return template.HTML(s.String()) // every text in it is escaped
}

// A measure is a quantity that runs are compared by.
type measure struct {
	name   string
	show   func(float64) string
	values func(o *observations) []float64
}

var measures = []measure{
	{"tokens", func(x float64) string { return fmt.Sprintf("%.0f", x) }, func(o *observations) []float64 { return o.tokens }},
	{"time", func(x float64) string { return formatDuration(x) }, func(o *observations) []float64 { return o.time }},
	{"cost", func(x float64) string { return fmt.Sprintf("%.4f USD", x) }, func(o *observations) []float64 { return o.cost }},
}

// observations are the measured values of a runner's sessions.
type observations struct {
	passed, n          int
	tokens, time, cost []float64
}

// collectObservations collects the sessions of each runner. Each repetition and each
// retry counts.
func collectObservations(r *Result) map[string]*observations {
	all := map[string]*observations{}
	for _, c := range r.Cases {
		for _, e := range c.RunnerResults {
			o := all[e.Runner.ID]
			if o == nil {
				o = &observations{}
				all[e.Runner.ID] = o
			}
			sessions := e.allSessions()
			if len(sessions) == 0 {
				sessions = []*ExecutionResult{e}
			}
			for _, s := range sessions {
				o.add(s)
			}
		}
	}
	return all
}

func (o *observations) add(s *ExecutionResult) {
	o.n++
	if s.Passed {
		o.passed++
	}
	if s.FailureOrigin == OriginWorkspace || s.FailureOrigin == OriginBootstrap || s.FailureOrigin == OriginModelRejected {
		return // no agent ran
	}
	o.time = append(o.time, s.DurationMs)
	if s.Report == nil {
		return
	}
	if t := s.Report.Usage.TotalTokens; t != nil {
		o.tokens = append(o.tokens, *t)
	}
	if s.Report.Cost != nil {
		o.cost = append(o.cost, s.Report.Cost.USD)
	}
}

func percentText(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// runCharts draws a run: pass rate, tokens, time and cost by runner.
func runCharts(r *Result) []template.HTML {
	seen := collectObservations(r)
	return drawCharts(", by session", ", mean of a session", func(of func(*observations) Interval) (bars []bar) {
		for _, s := range r.Runners {
			if o := seen[s.Runner.ID]; o != nil {
				bars = append(bars, bar{s.Runner.ID, of(o), "--a"})
			}
		}
		return bars
	})
}

// drawCharts draws the pass rate and all measures. Their titles end in rate and mean.
func drawCharts(rate, mean string, bars func(of func(*observations) Interval) []bar) []template.HTML {
	list := []template.HTML{drawChart("pass rate"+rate, bars(func(o *observations) Interval { return Wilson(o.passed, o.n) }), percentText)}
	for _, m := range measures {
		list = append(list, drawChart(m.name+mean, bars(func(o *observations) Interval { return Bootstrap(m.values(o)) }), m.show))
	}
	return list
}
