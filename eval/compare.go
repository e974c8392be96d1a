package eval

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/croft-run/croft/internal/answer"
)

// What a Comparison consists of.
//
//nolint:revive // one comment for all
type (
	RunnerComparison = answer.EvalRunnerComparison
	Measure          = answer.EvalMeasure
	Interval         = answer.EvalInterval
	CaseChange       = answer.EvalCaseChange
)

// A Comparison is two runs side by side: B against A.
type Comparison struct{ answer.EvalComparison }

// Compare compares two runs by the executions that both have. Intervals are over
// sessions, so that repetitions narrow them.
func Compare(a, b *Result) *Comparison {
	c := &Comparison{answer.EvalComparison{A: a.ArtifactDir, B: b.ArtifactDir, Runners: []RunnerComparison{}, Changed: changedCases(a, b)}}
	wholeA, wholeB := a.countExecutions(), b.countExecutions()
	a, b = a.sharedWith(b), b.sharedWith(a)
	c.Common = b.countExecutions()
	c.OnlyA, c.OnlyB = wholeA-c.Common, wholeB-c.Common
	seenA, seenB := collectObservations(a), collectObservations(b)
	for _, s := range b.Runners {
		id := s.Runner.ID
		if seenA[id] == nil || seenB[id] == nil {
			continue
		}
		c.Runners = append(c.Runners, RunnerComparison{Runner: id, Measures: compareRunner(seenA[id], seenB[id])})
	}
	return c
}

// countExecutions returns the number of results.
func (r *Result) countExecutions() (n int) {
	for _, c := range r.Cases {
		n += len(c.RunnerResults)
	}
	return n
}

// An executionKey names an execution in any run.
type executionKey struct{ caseID, runnerID string }

// byExecution returns the results by execution, and the keys in their order.
func (r *Result) byExecution() (all map[executionKey]*ExecutionResult, order []executionKey) {
	all = map[executionKey]*ExecutionResult{}
	for _, c := range r.Cases {
		for _, e := range c.RunnerResults {
			k := executionKey{c.CaseID, e.Runner.ID}
			all[k] = e
			order = append(order, k)
		}
	}
	return all, order
}

// sharedWith is the result without the executions that are not in other.
func (r *Result) sharedWith(other *Result) *Result {
	there, _ := other.byExecution()
	shared := *r
	shared.Cases = slices.Clone(r.Cases)
	for i, c := range shared.Cases {
		shared.Cases[i].RunnerResults = slices.DeleteFunc(slices.Clone(c.RunnerResults), func(e *ExecutionResult) bool {
			return there[executionKey{c.CaseID, e.Runner.ID}] == nil
		})
	}
	return &shared
}

// Measured says what was compared, if that is not all of both runs.
func (c *Comparison) Measured() string {
	switch {
	case c.Common == 0:
		return "The runs have no execution in common."
	case c.OnlyA+c.OnlyB == 0:
		return ""
	}
	return fmt.Sprintf("Measured by the executions that both runs have: %d. Only in A are %d, only in B %d.", c.Common, c.OnlyA, c.OnlyB)
}

// excludesOne reports whether the interval of a ratio excludes 1 by more than rounding.
// One observation has no interval.
func excludesOne(ratio Interval) bool {
	const rounding = 1e-9
	return ratio.N > 1 && (ratio.Low > 1+rounding || ratio.High < 1-rounding)
}

func compareRunner(a, b *observations) []Measure {
	rate := Measure{Name: "pass rate", A: Wilson(a.passed, a.n), B: Wilson(b.passed, b.n)}
	rate.Diff = Newcombe(rate.A, rate.B)
	rate.Significant, rate.Better = rate.Diff.Low > 0 || rate.Diff.High < 0, rate.Diff.Low > 0
	setTexts(&rate, percentText, func(x float64) string { return fmt.Sprintf("%+.0f points", 100*x) })
	list := []Measure{rate}
	for _, m := range measures {
		as, bs := m.values(a), m.values(b)
		if len(as) == 0 || len(bs) == 0 {
			continue
		}
		x := Measure{Name: m.name, A: Bootstrap(as), B: Bootstrap(bs), Diff: BootstrapRatio(as, bs)}
		x.Significant, x.Better = excludesOne(x.Diff), x.Diff.High < 1
		setTexts(&x, m.show, func(r float64) string { return fmt.Sprintf("%+.1f %%", math.Round(1000*(r-1))/10+0) }) // + 0 turns -0 into 0, which would print as -0.0 %
		list = append(list, x)
	}
	return list
}

// setTexts sets the texts for reports: AText, BText, DiffText and Word.
func setTexts(m *Measure, show, diff func(float64) string) {
	text := func(i Interval) string {
		return fmt.Sprintf("%s (%s to %s, n=%d)", show(i.Value), show(i.Low), show(i.High), i.N)
	}
	m.AText, m.BText = text(m.A), text(m.B)
	m.DiffText = fmt.Sprintf("%s (%s to %s)", diff(m.Diff.Value), diff(m.Diff.Low), diff(m.Diff.High))
	switch {
	case !m.Significant:
		m.Word = "no clear difference"
	case m.Better:
		m.Word = "better"
	default:
		m.Word = "worse"
	}
}

// changedCases lists the executions that came out differently.
func changedCases(a, b *Result) []CaseChange {
	as, orderA := a.byExecution()
	bs, orderB := b.byExecution()
	list := []CaseChange{}
	for _, k := range orderB {
		was, is := as[k], bs[k]
		ch := CaseChange{Case: k.caseID, Runner: k.runnerID, B: statusText(is)}
		switch {
		case was == nil:
			ch.Word = "added"
		case was.Passed && !is.Passed:
			ch.A, ch.Word = statusText(was), "newly failing"
		case !was.Passed && is.Passed:
			ch.A, ch.Word = statusText(was), "newly passing"
		case was.Status != is.Status || !is.Passed && statusText(was) != statusText(is):
			ch.A, ch.Word = statusText(was), "differs"
		default:
			continue
		}
		list = append(list, ch)
	}
	for _, k := range orderA {
		if bs[k] == nil {
			list = append(list, CaseChange{Case: k.caseID, Runner: k.runnerID, A: statusText(as[k]), Word: "removed"})
		}
	}
	return list
}

func statusText(e *ExecutionResult) string {
	text := string(e.Status)
	if e.RepeatTarget > 1 && e.SuccessfulRepetitions != nil {
		text += fmt.Sprintf(" (%d of %d)", *e.SuccessfulRepetitions, e.RepeatTarget)
	}
	if !e.Passed && e.FailureClass != nil {
		text += " [" + e.FailureClass.ID + "]"
	}
	return text
}

// Write writes the comparison for people.
func (c *Comparison) Write(out io.Writer) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "A\t%s\nB\t%s\n", c.A, c.B)
	if text := c.Measured(); text != "" {
		fmt.Fprintf(w, "\n%s\n", text)
	}
	for _, r := range c.Runners {
		fmt.Fprintf(w, "\nRunner: %s\n\tA\tB\tB against A, 95 %% interval\t\n", r.Runner)
		for _, m := range r.Measures {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Name, m.AText, m.BText, m.DiffText, m.Word)
		}
	}
	if len(c.Changed) > 0 {
		fmt.Fprint(w, "\nExecutions that differ\n")
	}
	for _, ch := range c.Changed {
		fmt.Fprintf(w, "%s\t%s > %s\t%s -> %s\n", ch.Word, oneLine(ch.Case), ch.Runner, orDash(ch.A), orDash(ch.B))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, PlainText(b.String()))
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ComparisonPage is a comparison as a page of HTML, with plots.
func ComparisonPage(a, b *Result) ([]byte, error) {
	return renderPage("diff", nil, map[string]any{"A": a, "B": b, "Comparison": Compare(a, b), "Plots": comparisonCharts(a, b)})
}

func comparisonCharts(a, b *Result) []template.HTML {
	a, b = a.sharedWith(b), b.sharedWith(a)
	seenA, seenB := collectObservations(a), collectObservations(b)
	return drawCharts("", "", func(of func(*observations) Interval) (bars []bar) {
		for _, s := range b.Runners {
			id := s.Runner.ID
			if seenA[id] != nil && seenB[id] != nil {
				bars = append(bars, bar{id + " A", of(seenA[id]), "--a"}, bar{id + " B", of(seenB[id]), "--b"})
			}
		}
		return bars
	})
}
