// Package outputs collects what code puts out, for those who run code: in order,
// within a bound, and with the callback of whoever listens.
package outputs

import (
	"maps"
	"unicode/utf8"

	"github.com/croft-run/croft/workspace/driver"
)

// A Collector fills the outputs of a result. It is not safe for concurrent use.
type Collector struct {
	Limit    int64                     // bytes of all outputs that are kept
	OnOutput func(driver.Output) error // called with each output that is kept; may be nil

	out     []driver.Output
	size    int64
	dropped int64
	errs    []string
}

// maxErrors bounds how many errors of the callback are kept.
const maxErrors = 16

// Text takes text of a stream; what goes beyond the limit is counted only.
func (c *Collector) Text(kind driver.OutputKind, text string) {
	if text == "" {
		return
	}
	if room := c.Limit - c.size; int64(len(text)) > room {
		kept := cut(text, int(max(room, 0)))
		c.dropped += int64(len(text) - len(kept))
		if text = kept; text == "" {
			return
		}
	}
	c.size += int64(len(text))
	c.tell(driver.Output{Kind: kind, Text: text})
	if n := len(c.out); n > 0 && c.out[n-1].Kind == kind && c.out[n-1].Data == nil {
		c.out[n-1].Text += text
		return
	}
	c.out = append(c.out, driver.Output{Kind: kind, Text: text})
}

// Data takes a value in its forms. It is kept whole or not at all.
func (c *Collector) Data(kind driver.OutputKind, data map[string][]byte) {
	var size int64
	for mime, body := range data {
		size += int64(len(mime) + len(body))
	}
	if size > c.Limit-c.size {
		c.dropped += size
		return
	}
	c.size += size
	o := driver.Output{Kind: kind, Data: maps.Clone(data)}
	c.tell(o)
	c.out = append(c.out, o)
}

// Drop counts bytes that someone else left out.
func (c *Collector) Drop(n int64) { c.dropped += n }

func (c *Collector) tell(o driver.Output) {
	if c.OnOutput == nil {
		return
	}
	if err := c.OnOutput(o); err != nil && len(c.errs) < maxErrors {
		c.errs = append(c.errs, err.Error())
	}
}

// Fill puts what was collected into a result.
func (c *Collector) Fill(res *driver.CodeResult) {
	if c.out == nil {
		c.out = []driver.Output{} // on the wire it is a list
	}
	res.Outputs, res.Dropped, res.CallbackErrors = c.out, c.dropped, c.errs
}

// cut returns at most n bytes of text, ending between two characters.
func cut(text string, n int) string {
	if n >= len(text) {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
