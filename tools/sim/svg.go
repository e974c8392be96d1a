package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// A chart is a diagram of lines, with logarithmic axes; with percent, y is linear from 0 to 100.
type chart struct {
	title, x, y string
	percent     bool
	maxY        float64 // larger values are drawn as this; 0 is none
	lines       []line
}

// A line has points; one of theory, or a bound, is dashed.
type line struct {
	name   string
	dashed bool
	points [][2]float64
}

// Places in the drawing.
const width, height, left, right, top, bottom = 720, 400, 70, 490, 40, 345

var colors = []string{"#0b62a4", "#c4452d", "#3a8a3a", "#8a5fb0", "#b8860b", "#555555"}

// svg returns the chart as an SVG document.
func (c chart) svg() string {
	x, y := axis{math.Inf(1), 0, left, right, false}, axis{math.Inf(1), 0, bottom, top, c.percent}
	for _, l := range c.lines {
		for _, p := range l.points {
			x.low, x.high = min(x.low, p[0]), max(x.high, p[0])
			y.low, y.high = min(y.low, p[1]), max(y.high, p[1])
		}
	}
	if c.percent {
		y.low, y.high = 0, 100
	} else if c.maxY > 0 {
		y.high = c.maxY
	}
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	text := func(x, y float64, more, s string) {
		put(`<text x="%.1f" y="%.1f" %s>%s</text>`, x, y, more, html.EscapeString(s))
	}
	const middle, end = `text-anchor="middle"`, `text-anchor="end"`
	put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, width, height)
	put(`<rect width="%d" height="%d" fill="#fff"/>`, width, height)
	text(left, 22, `font-size="15"`, c.title)
	for _, v := range x.ticks() {
		put(`<path d="M%.1f %dV%d" stroke="#ddd"/>`, x.at(v), top, bottom)
		text(x.at(v), bottom+18, middle, number(v))
	}
	for _, v := range y.ticks() {
		put(`<path d="M%d %.1fH%d" stroke="#ddd"/>`, left, y.at(v), right)
		text(left-8, y.at(v)+4, end, number(v))
	}
	text((left+right)/2, height-14, middle, c.x)
	text(0, 0, middle+fmt.Sprintf(` transform="translate(16 %d) rotate(-90)"`, (top+bottom)/2), c.y)
	for i, l := range c.lines {
		style := fmt.Sprintf(`fill="none" stroke-width="1.5" stroke="%s"`, colors[i%len(colors)])
		if l.dashed {
			style += ` stroke-dasharray="5 4"`
		}
		var points strings.Builder
		for _, p := range l.points {
			fmt.Fprintf(&points, "%.1f,%.1f ", x.at(p[0]), y.at(p[1]))
			if !l.dashed {
				put(`<circle cx="%.1f" cy="%.1f" r="2" %s/>`, x.at(p[0]), y.at(p[1]), style)
			}
		}
		put(`<polyline points="%s" %s/>`, points.String(), style)
		put(`<path d="M%d %dh24" %s/>`, right+15, top+10+20*i, style)
		text(right+45, float64(top+14+20*i), "", l.name)
	}
	return b.String() + "</svg>\n"
}

// An axis maps values to places between from and to.
type axis struct {
	low, high, from, to float64
	linear              bool
}

func (a axis) at(v float64) float64 {
	v = min(max(v, a.low), a.high)
	part := (v - a.low) / (a.high - a.low)
	if !a.linear {
		part = math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return a.from + part*(a.to-a.from)
}

func (a axis) ticks() (ts []float64) {
	if a.linear {
		return []float64{0, 20, 40, 60, 80, 100}
	}
	for e := math.Floor(math.Log10(a.low)); e <= math.Log10(a.high); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= a.low*0.999 && v <= a.high*1.001 {
				ts = append(ts, v)
			}
		}
	}
	return ts
}

// number returns a short text of a number.
func number(v float64) string {
	if v >= 10000 {
		return fmt.Sprintf("%.3gk", v/1000)
	}
	return fmt.Sprintf("%.4g", v)
}
