package codeblock

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/croft-run/croft/fault"
)

// A Block is a piece of code in a text.
type Block struct {
	Language string `json:"language"` // the first word of Info, in lower case; may be ""
	Info     string `json:"info,omitempty"`
	Code     string `json:"code"`
	Line     int    `json:"line"`          // 1-based line of the opening fence or mark
	Cut      bool   `json:"cut,omitempty"` // it has no closing fence or mark
}

// A Delimiter is a pair of marks around code. The info string follows Start, up to
// the end of the line.
type Delimiter struct{ Start, End string }

// ExtractOptions are the options of Extract.
type ExtractOptions struct {
	// Delimiters are used instead of fences. They may be anywhere in a line.
	Delimiters []Delimiter
}

// Extract lists the blocks of a text, in order.
func Extract(text string, opts *ExtractOptions) ([]Block, error) {
	if opts == nil || len(opts.Delimiters) == 0 {
		return fencedBlocks(text), nil
	}
	for _, d := range opts.Delimiters {
		if d.Start == "" || d.End == "" {
			return nil, fmt.Errorf("codeblock: delimiter %q, %q: %w: neither may be empty", d.Start, d.End, fault.InvalidArgument)
		}
	}
	return delimitedBlocks(text, opts.Delimiters), nil
}

// fencedBlocks finds the blocks between code fences.
func fencedBlocks(text string) []Block {
	var blocks []Block
	var in itemColumns
	var open fence
	var code strings.Builder
	var b Block
	line := 0
	for l := range strings.Lines(text) {
		line++
		if open.mark != 0 {
			if f, ok := parseFence(l, 0); ok && f.canClose(open) {
				b.Code = code.String()
				blocks = append(blocks, b)
				open = fence{}
			} else {
				code.WriteString(removeIndent(l, open.indent))
			}
			continue
		}
		at := in.fenceColumn(l)
		if f, ok := parseFence(l, at); ok && f.canOpen() {
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

// skipIndent skips the blanks of a line from a column on. It returns the rest and its
// column.
func skipIndent(line string, from int) (rest string, column int) {
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

// maxDepth bounds the nesting of list items; deeper fences are not found.
const maxDepth = 100

// A itemColumns has the columns of the list items that may contain a line, the outermost
// first.
type itemColumns []int

// fenceColumn returns the column at which a fence may begin: after the markers of items
// that begin on the line, and within items that continue.
func (in *itemColumns) fenceColumn(line string) int {
	line = strings.TrimRight(line, "\r\n")
	rest, column := skipIndent(line, 0)
	if rest == "" {
		return 0 // an item continues after an empty line
	}
	for len(*in) > 0 && (*in)[len(*in)-1] > column {
		*in = (*in)[:len(*in)-1]
	}
	at := in.innermostColumn()
	for column-at <= maxIndent && len(*in) < maxDepth {
		n := markerLength(rest)
		if n == 0 {
			break
		}
		at = column + n
		after, next := skipIndent(line, at)
		switch {
		case after == "": // the item begins on the next line
			*in = append(*in, at+1)
			return at + 1
		case next-at <= tabStop:
			at = next
		default: // indented code, one blank after the marker
			at++
		}
		*in = append(*in, at)
		rest, column = after, next
	}
	return at
}

func (in itemColumns) innermostColumn() int {
	if len(in) == 0 {
		return 0
	}
	return in[len(in)-1]
}

// markerLength returns the length of the list marker at the start of a text: -, +, *, or a
// number with a dot or a parenthesis, followed by a blank or nothing.
func markerLength(text string) int {
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

// A fence is a line that may open or close a block.
type fence struct {
	mark   byte // '`' or '~'
	length int
	indent int // its column
	within int // column of the list item that contains it
	info   string
}

const (
	minFence  = 3
	maxIndent = 3 // a line with more is indented code
)

// parseFence parses a line whose content begins at a column.
func parseFence(line string, at int) (fence, bool) {
	rest, column := skipIndent(strings.TrimRight(line, "\r\n"), at)
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

// canOpen reports whether the fence can open a block: an info string after backticks
// has no backtick, otherwise it is inline code.
func (f fence) canOpen() bool {
	return f.indent-f.within <= maxIndent && (f.mark != '`' || !strings.Contains(f.info, "`"))
}

func (f fence) canClose(open fence) bool {
	return f.mark == open.mark && f.length >= open.length && f.info == "" && f.indent <= open.within+maxIndent
}

// removeIndent removes the indent of the fence from a line. The rest of a partly removed
// tab stays as blanks.
func removeIndent(line string, n int) string {
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

// delimitedBlocks finds the blocks between the delimiters of the caller.
func delimitedBlocks(text string, marks []Delimiter) []Block {
	var blocks []Block
	line := 1
	for {
		at, d := firstDelimiter(text, marks)
		if at < 0 {
			return blocks
		}
		head := text[at+len(d.Start):]
		line += strings.Count(text[:at+len(d.Start)], "\n")
		info, body, ok := strings.Cut(head, "\n")
		if end := strings.Index(info, d.End); !ok || end >= 0 {
			if end < 0 { // the text ends within the first line
				return append(blocks, cutBlock(newBlock("", line), head))
			}
			b := newBlock("", line)
			b.Code = info[:end]
			blocks, text = append(blocks, b), head[end+len(d.End):]
			continue
		}
		b := newBlock(strings.TrimSpace(info), line)
		code, rest, ok := strings.Cut(body, d.End)
		if !ok {
			return append(blocks, cutBlock(b, body))
		}
		b.Code = code
		blocks, text = append(blocks, b), rest
		line += 1 + strings.Count(code, "\n") + strings.Count(d.End, "\n")
	}
}

func cutBlock(b Block, code string) Block {
	b.Code, b.Cut = code, true
	return b
}

// firstDelimiter finds the first start mark.
func firstDelimiter(text string, marks []Delimiter) (at int, d Delimiter) {
	at = -1
	for _, m := range marks {
		if i := strings.Index(text, m.Start); i >= 0 && (at < 0 || i < at) {
			at, d = i, m
		}
	}
	return at, d
}

// NewBlock returns a block of code; the info string has its language.
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
