package lsp

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
)

// lineOf returns a line of a text, counted from 0, without its ending, and its byte offset;
// false if there is no such line.
func lineOf(text []byte, line int) (content []byte, start int, ok bool) {
	for ; line > 0; line-- {
		i := bytes.IndexByte(text[start:], '\n')
		if i < 0 {
			return nil, 0, false
		}
		start += i + 1
	}
	content = text[start:]
	if i := bytes.IndexByte(content, '\n'); i >= 0 {
		content = content[:i]
	}
	return bytes.TrimSuffix(content, []byte{'\r'}), start, line == 0
}

func utf16Units(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}

// toWire converts a line and a column in characters, both from 1, to a protocol position.
func toWire(text []byte, line, col int) (wirePosition, error) {
	content, _, ok := lineOf(text, line-1)
	if !ok {
		return wirePosition{}, fmt.Errorf("line %d is beyond the end of the file: %w", line, fault.InvalidArgument)
	}
	n, at := 0, 0
	for ; n < col-1; n++ {
		if at >= len(content) {
			return wirePosition{}, fmt.Errorf("column %d is beyond the end of line %d: %w", col, line, fault.InvalidArgument)
		}
		_, size := utf8.DecodeRune(content[at:])
		at += size
	}
	return wirePosition{line - 1, wireUnits(content[:at])}, nil
}

// wireUnits returns the length of a text as the protocol counts it.
func wireUnits(text []byte) int {
	n := 0
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		n += utf16Units(r)
		text = text[size:]
	}
	return n
}

// fromWire converts a protocol position to a line and a column in characters, both from 1.
// A position after the end of its line is the end, by the protocol.
func fromWire(text []byte, p wirePosition) (line, col int) {
	content, _, ok := lineOf(text, p.Line)
	if !ok {
		return p.Line + 1, 1
	}
	col = 1
	for n := 0; n < p.Character && len(content) > 0; col++ {
		r, size := utf8.DecodeRune(content)
		n += utf16Units(r)
		content = content[size:]
	}
	return p.Line + 1, col
}

// byteOffset converts a protocol position to a byte offset.
func byteOffset(text []byte, p wirePosition) (int, error) {
	content, start, ok := lineOf(text, p.Line)
	if !ok {
		if p.Character == 0 && p.Line == bytes.Count(text, []byte{'\n'})+1 {
			return len(text), nil
		}
		return 0, fmt.Errorf("line %d is beyond the end of the file: %w", p.Line+1, fault.Conflict)
	}
	at := 0
	for n := 0; n < p.Character && at < len(content); {
		r, size := utf8.DecodeRune(content[at:])
		n += utf16Units(r)
		at += size
	}
	return start + at, nil
}

// applyEdits applies the edits of a server to a text. All positions refer to the text
// before; a replacement that is there twice is made once; insertions at one position keep their order.
func applyEdits(text []byte, edits []textEdit) ([]byte, error) {
	type splice struct {
		start, end, order int
		text              string
	}
	list := make([]splice, len(edits))
	for i, e := range edits {
		start, err := byteOffset(text, e.Range.Start)
		if err != nil {
			return nil, err
		}
		end, err := byteOffset(text, e.Range.End)
		if err != nil {
			return nil, err
		}
		if end < start {
			return nil, fmt.Errorf("an edit that ends before it begins: %w", fault.InvalidArgument)
		}
		list[i] = splice{start, end, i, e.NewText}
	}
	slices.SortFunc(list, func(a, b splice) int {
		if a.start != b.start {
			return a.start - b.start
		}
		if a.end != b.end {
			return a.end - b.end
		}
		return a.order - b.order
	})
	var out []byte
	last := 0
	for i, s := range list {
		if before := list[max(0, i-1)]; i > 0 && s.end > s.start && s.start == before.start && s.end == before.end && s.text == before.text {
			continue // the TypeScript server lists some places twice
		}
		if s.start < last {
			return nil, fmt.Errorf("edits that overlap: %w", fault.InvalidArgument)
		}
		out = append(append(out, text[last:s.start]...), s.text...)
		last = s.end
	}
	return append(out, text[last:]...), nil
}
