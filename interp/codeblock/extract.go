package codeblock

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/croft-run/croft/fault"
)

// A Block is a piece of code in a text.
type Block struct {
	Language string `json:"language"` // the first word of Info, in lower case; "" where there is none
	Info     string `json:"info,omitempty"`
	Code     string `json:"code"`
	Line     int    `json:"line"`          // 1-based, of the fence or mark that begins it
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
	var in list
	var open fence
	var code strings.Builder
	var b Block
	line := 0
	for l := range strings.Lines(text) {
		line++
		if open.mark != 0 {
			if f, ok := parseFence(l, 0); ok && f.closes(open) {
				b.Code = code.String()
				blocks = append(blocks, b)
				open = fence{}
			} else {
				code.WriteString(outdent(l, open.indent))
			}
			continue
		}
		at := in.enter(l)
		if f, ok := parseFence(l, at); ok && f.opens() {
			open, b = f, newBlock(f.info, line)
			code.Reset()
		}
	}
	if open.mark != 0 {
		b.Code, b.Cut = code.String(), true
		blocks = append(blocks, b)
	}
	return blocks
}

const tabStop = 4

// indented returns what follows the blanks of a line from a column on, and the column
// where that is.
func indented(line string, from int) (rest string, column int) {
	for i := range len(line) {
		switch {
		case line[i] == ' ':
			column++
		case line[i] == '\t':
			column += tabStop - column%tabStop
		case column >= from:
			return line[i:], column
		default: // the marker of an item
			column++
		}
	}
	return "", column
}

// maxDepth is how deeply items may be nested; a fence further in is not looked for.
const maxDepth = 100

// A list has the columns at which the items begin that a line may be in, the
// outermost first.
type list []int

// enter returns the column at which what may be a fence begins: behind the markers
// of items that begin on the line, and within those that go on.
func (in *list) enter(line string) int {
	line = strings.TrimRight(line, "\r\n")
	rest, column := indented(line, 0)
	if rest == "" {
		return 0 // an item goes on behind an empty line
	}
	for len(*in) > 0 && (*in)[len(*in)-1] > column {
		*in = (*in)[:len(*in)-1]
	}
	at := in.innermost()
	for column-at <= maxIndent && len(*in) < maxDepth {
		n := marker(rest)
		if n == 0 {
			break
		}
		at = column + n
		after, next := indented(line, at)
		switch {
		case after == "": // the item begins on the next line
			*in = append(*in, at+1)
			return at + 1
		case next-at <= tabStop:
			at = next
		default: // code by its indent, one blank behind the marker
			at++
		}
		*in = append(*in, at)
		rest, column = after, next
	}
	return at
}

func (in list) innermost() int {
	if len(in) == 0 {
		return 0
	}
	return in[len(in)-1]
}

// marker returns the length of the marker of an item at the start of a text: -, +, *,
// or a number with a dot or a parenthesis, and a blank or nothing behind it.
func marker(text string) int {
	const most = 9 // digits
	n := 0
	for n < len(text) && n < most && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	switch {
	case n == len(text):
		return 0
	case n == 0 && strings.IndexByte("-+*", text[0]) < 0, n > 0 && text[n] != '.' && text[n] != ')':
		return 0
	}
	n++
	if n < len(text) && text[n] != ' ' && text[n] != '\t' {
		return 0
	}
	return n
}

// A fence is a line that may begin or end a block.
type fence struct {
	mark   byte // '`' or '~'
	length int
	indent int // its column
	within int // the column at which the item begins that it is in
	info   string
}

const (
	minFence  = 3
	maxIndent = 3 // beyond, a line is code by its indent
)

// parseFence reads a line whose content begins at a column.
func parseFence(line string, at int) (fence, bool) {
	rest, column := indented(strings.TrimRight(line, "\r\n"), at)
	f := fence{indent: column, within: at}
	if rest == "" || rest[0] != '`' && rest[0] != '~' {
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
func (f fence) opens() bool {
	return f.indent-f.within <= maxIndent && (f.mark != '`' || !strings.Contains(f.info, "`"))
}

func (f fence) closes(open fence) bool {
	return f.mark == open.mark && f.length >= open.length && f.info == "" && f.indent <= open.within+maxIndent
}

// outdent drops as much of a line's indent as the fence had. Of a tab that goes
// beyond, the rest stays as blanks.
func outdent(line string, n int) string {
	column := 0
	for column < n && line != "" && (line[0] == ' ' || line[0] == '\t') {
		if line[0] == ' ' {
			column++
		} else {
			column += tabStop - column%tabStop
		}
		line = line[1:]
	}
	return strings.Repeat(" ", max(column-n, 0)) + line
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
		b := newBlock(strings.TrimSpace(info), line)
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
	word := strings.TrimLeft(info, "{ \t")
	if i := strings.IndexFunc(word, unicode.IsSpace); i >= 0 {
		word = word[:i]
	}
	word = strings.TrimPrefix(strings.ToLower(strings.TrimRight(word, "},")), ".")
	if i := strings.IndexAny(word, ",:{="); i >= 0 { // python,linenos or python:file.py
		word = word[:i]
	}
	return Block{Language: word, Info: info, Line: line}
}
