package suite

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// frameLine matches a line of a goja stack trace, which ends in the program counter.
var frameLine = lazyregexp.New(`^\s*at (.*):(\d+):(\d+)\(\d+\)(\)?)$`)

// A stackFrame is one line of a stack trace.
type stackFrame struct {
	fn   string
	file string
	line int
	col  int
}

// parseStack returns the frames of the suite, without built-in modules and native frames.
func parseStack(text string) []stackFrame {
	var frames []stackFrame
	for line := range strings.Lines(text) {
		m := frameLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		fn, file := "", m[1]
		if m[4] != "" { // fn (file...)
			fn, file, _ = strings.Cut(m[1], " (")
		}
		if strings.HasPrefix(file, internalPrefix) || strings.Contains(file, "/"+internalPrefix) {
			continue
		}
		row, _ := strconv.Atoi(m[2])
		col, _ := strconv.Atoi(m[3])
		frames = append(frames, stackFrame{fn, file, row, col})
	}
	return frames
}

// mappedFrames are the frames of a stack, with the positions that V8 would report.
func (v *vm) mappedFrames(stack string) []stackFrame {
	frames := parseStack(stack)
	for i := range frames {
		v.sources.alignFrame(&frames[i])
	}
	return frames
}

// nodeStack returns a stack in Node's format: the headline, then a line for each frame
// with the URL of the file.
func (v *vm) nodeStack(headline, stack string) string {
	var b strings.Builder
	b.WriteString(headline)
	for _, f := range v.mappedFrames(stack) {
		b.WriteString("\n    at ")
		at := fileURL(f.file) + ":" + strconv.Itoa(f.line) + ":" + strconv.Itoa(f.col)
		if f.fn == "" || f.fn == "<anonymous>" {
			b.WriteString(at)
		} else {
			b.WriteString(f.fn + " (" + at + ")")
		}
	}
	return b.String()
}

// userFrame returns the innermost frame outside node_modules.
func (v *vm) userFrame(stack string) goja.Value {
	for _, f := range v.mappedFrames(stack) {
		if strings.Contains(f.file, "/node_modules/") {
			continue
		}
		o := v.rt.NewObject()
		must(o.Set("file", f.file))
		must(o.Set("url", fileURL(f.file)))
		must(o.Set("line", f.line))
		must(o.Set("column", f.col))
		return o
	}
	return goja.Undefined()
}

// fileURL is the URL of an absolute path.
func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }
