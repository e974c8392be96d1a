// Package outputs collects the outputs of executed code in order, within a size limit, and
// calls a callback for each.
package outputs

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/croft-run/croft/workspace/driver"
)

// A Collector collects the outputs of a result. It is not safe for concurrent use.
type Collector struct {
	Limit    int64                     // bytes of all kept outputs
	OnOutput func(driver.Output) error // called with each kept output; may be nil

	out     []driver.Output
	text    strings.Builder // of the last output, if it is text
	size    int64
	dropped int64
	errs    []string
}

const (
	maxErrors  = 16     // kept errors of the callback
	maxOutputs = 10_000 // kept outputs, of any size
)

// Text adds text of a stream; text beyond the limit is only counted.
func (c *Collector) Text(kind driver.OutputKind, text string) {
	if text == "" {
		return
	}
	if room := c.Limit - c.size; int64(len(text)) > room {
		kept := truncateText(text, int(max(room, 0)))
		c.dropped += int64(len(text) - len(kept))
		if text = kept; text == "" {
			return
		}
	}
	if n := len(c.out); n == 0 || c.out[n-1].Kind != kind || c.out[n-1].Data != nil {
		if n >= maxOutputs {
			c.dropped += int64(len(text))
			return
		}
		c.endText()
		c.out = append(c.out, driver.Output{Kind: kind})
	}
	c.size += int64(len(text))
	c.text.WriteString(text)
	c.callOnOutput(driver.Output{Kind: kind, Text: text})
}

// endText sets the text of the last output.
func (c *Collector) endText() {
	if c.text.Len() > 0 {
		c.out[len(c.out)-1].Text = c.text.String()
		c.text = strings.Builder{}
	}
}

// Data adds a value in its MIME forms. It is kept whole or not at all.
func (c *Collector) Data(kind driver.OutputKind, data map[string][]byte) {
	var size int64
	for mime, body := range data {
		size += int64(len(mime) + len(body))
	}
	if size > c.Limit-c.size || len(c.out) >= maxOutputs {
		c.dropped += size
		return
	}
	c.endText()
	c.size += size
	o := driver.Output{Kind: kind, Data: maps.Clone(data)}
	c.callOnOutput(o)
	c.out = append(c.out, o)
}

// Drop counts bytes that the caller left out.
func (c *Collector) Drop(n int64) { c.dropped += n }

func (c *Collector) callOnOutput(o driver.Output) {
	if c.OnOutput == nil {
		return
	}
	if err := c.OnOutput(o); err != nil && len(c.errs) < maxErrors {
		c.errs = append(c.errs, err.Error())
	}
}

const (
	maxName  = 256
	maxValue = 16 << 10
	maxTrace = 64 << 10
)

// Error returns an exception of the code, with bounded texts: of a trace the end is kept,
// which has the failing code.
func (c *Collector) Error(name, value string, trace []string) *driver.CodeError {
	e := &driver.CodeError{Name: c.truncateCounted(name, maxName), Value: c.truncateCounted(value, maxValue)}
	room := maxTrace
	for _, line := range slices.Backward(trace) {
		if room > 0 {
			e.Traceback = append(e.Traceback, c.truncateCounted(line, min(room, maxValue)))
		} else {
			c.dropped += int64(len(line))
		}
		room -= len(line) + 1 // with the end of the line
	}
	slices.Reverse(e.Traceback)
	return e
}

func (c *Collector) truncateCounted(text string, n int) string {
	kept := truncateText(text, n)
	c.dropped += int64(len(text) - len(kept))
	return kept
}

// AddTo stores the collected outputs in a result.
func (c *Collector) AddTo(res *driver.CodeResult) {
	c.endText()
	if c.out == nil {
		c.out = []driver.Output{} // encoded as a list, not null
	}
	res.Outputs, res.Dropped, res.CallbackErrors = c.out, c.dropped, c.errs
}

// truncateText returns at most n bytes of text, ending at a character boundary.
func truncateText(text string, n int) string {
	if n >= len(text) {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
