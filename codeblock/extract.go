package codeblock

import (
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A Block is a piece of code in a text.
type Block struct {
	Language string `json:"language"` // the first word of Info, in lower case; "" where there is none
	Info     string `json:"info,omitempty"`
	Code     string `json:"code"`
	Line     int    `json:"line"`          // 1-based, of the first line of Code
	Cut      bool   `json:"cut,omitempty"` // it has no end
}

// A Delimiter is a pair of marks around code. Start is followed by the info
// string, up to the end of that line.
type Delimiter struct{ Start, End string }

// ExtractOptions are the options of Extract.
type ExtractOptions struct {
	// Delimiters are used instead of fences. They may be anywhere in a line.
	Delimiters []Delimiter
}

// Extract lists the blocks of a text, in order.
func Extract(text string, opts *ExtractOptions) ([]Block, error) {
	if opts == nil || len(opts.Delimiters) == 0 {
		return fenced(text), nil
	}
	for _, d := range opts.Delimiters {
		if d.Start == "" || d.End == "" {
			return nil, fmt.Errorf("codeblock: delimiter %q, %q: %w: neither may be empty", d.Start, d.End, fault.InvalidArgument)
		}
	}
	return delimited(text, opts.Delimiters), nil
}

// fenced finds the blocks between fences.
func fenced(text string) []Block {
	var blocks []Block
	var open fence
	var code strings.Builder
	var b Block
	line := 0
	for l := range strings.Lines(text) {
		line++
		f, ok := parseFence(l)
		switch {
		case open.mark == 0 && ok && f.opens():
			open, b = f, newBlock(f.info, line+1)
			code.Reset()
		case open.mark == 0:
		case ok && f.closes(open):
			b.Code = code.String()
			blocks = append(blocks, b)
			open = fence{}
		default:
			code.WriteString(outdent(l, open.indent))
		}
	}
	if open.mark != 0 {
		b.Code, b.Cut = code.String(), true
		blocks = append(blocks, b)
	}
	return blocks
}

// A fence is a line that may begin or end a block.
type fence struct {
	mark   byte // '`' or '~'
	length int
	indent int
	info   string
}

const (
	minFence  = 3
	maxIndent = 3 // beyond, a line is code by its indent
)

func parseFence(line string) (fence, bool) {
	line = strings.TrimRight(line, "\r\n")
	rest := strings.TrimLeft(line, " ")
	f := fence{indent: len(line) - len(rest)}
	if f.indent > maxIndent || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return f, false
	}
	f.mark = rest[0]
	after := strings.TrimLeft(rest, string(f.mark))
	f.length = len(rest) - len(after)
	f.info = strings.TrimSpace(after)
	return f, f.length >= minFence
}

// opens reports whether a block may begin with it: what follows backticks has
// none, or they are ticks within a line.
func (f fence) opens() bool { return f.mark != '`' || !strings.Contains(f.info, "`") }

func (f fence) closes(open fence) bool {
	return f.mark == open.mark && f.length >= open.length && f.info == ""
}

// outdent drops as much of a line's indent as the fence had.
func outdent(line string, n int) string {
	for n > 0 && strings.HasPrefix(line, " ") {
		line, n = line[1:], n-1
	}
	return line
}

// delimited finds the blocks between marks of the caller's.
func delimited(text string, marks []Delimiter) []Block {
	var blocks []Block
	line := 1
	for {
		at, d := first(text, marks)
		if at < 0 {
			return blocks
		}
		head := text[at+len(d.Start):]
		line += strings.Count(text[:at+len(d.Start)], "\n")
		info, body, ok := strings.Cut(head, "\n")
		if end := strings.Index(info, d.End); !ok || end >= 0 {
			if end < 0 { // the text ends within the first line
				return append(blocks, cut(newBlock("", line), head))
			}
			b := newBlock("", line)
			b.Code = info[:end]
			blocks, text = append(blocks, b), head[end+len(d.End):]
			continue
		}
		b := newBlock(strings.TrimSpace(info), line+1)
		code, rest, ok := strings.Cut(body, d.End)
		if !ok {
			return append(blocks, cut(b, body))
		}
		b.Code = code
		blocks, text = append(blocks, b), rest
		line += 1 + strings.Count(code, "\n") + strings.Count(d.End, "\n")
	}
}

func cut(b Block, code string) Block {
	b.Code, b.Cut = code, true
	return b
}

// first finds the mark that comes first.
func first(text string, marks []Delimiter) (at int, d Delimiter) {
	at = -1
	for _, m := range marks {
		if i := strings.Index(text, m.Start); i >= 0 && (at < 0 || i < at) {
			at, d = i, m
		}
	}
	return at, d
}

// NewBlock returns the block of some code, whose language is in the info string.
func NewBlock(info, code string) Block {
	b := newBlock(strings.TrimSpace(info), 1)
	b.Code = code
	return b
}

func newBlock(info string, line int) Block {
	word, _, _ := strings.Cut(strings.TrimLeft(info, "{ "), " ")
	word = strings.TrimPrefix(strings.ToLower(strings.TrimRight(word, "},")), ".")
	if i := strings.IndexAny(word, ",:{="); i >= 0 { // python,linenos or python:file.py
		word = word[:i]
	}
	return Block{Language: word, Info: info, Line: line}
}
