package secret

import (
	"bytes"
	"html"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// An escape is a way in which programs write some characters of a text in other ones. Which
// ones differs by program, so such texts are decoded rather than searched for in each form.
type escape struct {
	// next returns the index of the next escape in p, or -1.
	next func(p []byte) int
	// decode appends the text of the escape at the beginning of p to dst, and returns its
	// length in p; 0 if there is no escape.
	decode func(dst, p []byte) ([]byte, int)
}

var escapes = []escape{
	{func(p []byte) int { return bytes.IndexByte(p, esc) }, func(dst, _ []byte) ([]byte, int) { return dst, 0 }}, // only controls
	{func(p []byte) int { return bytes.IndexByte(p, '%') }, decodePercent},
	{func(p []byte) int { return bytes.IndexByte(p, '&') }, decodeEntity},
	{nextBackslash, decodeBackslash},
	{func(p []byte) int { return bytes.IndexByte(p, '\b') }, decodeBackspace},
	{func(p []byte) int { return bytes.Index(p, []byte("0x")) }, decodeArray},
	{nextCell, decodeCell},
}

const (
	esc           = 0x1b
	maxControl    = 4 << 10 // of a control sequence, in bytes
	closedByQuote = `'"'"'` // a quote within single quotes, as Python's shlex writes it
)

// controlLength returns the length of the terminal control sequence that p begins with, such
// as a colour; 0 if there is none.
func controlLength(p []byte) int {
	if len(p) < 2 || p[0] != esc {
		return 0
	}
	switch i := 2; p[1] {
	case '[':
		for i < len(p) && p[i] >= 0x20 && p[i] < 0x40 {
			i++
		}
		return min(i+1, len(p))
	case ']': // with a text, such as a link
		for ; i < min(len(p), maxControl); i++ {
			if p[i] == '\a' {
				return i + 1
			}
			if p[i] == esc && i+1 < len(p) && p[i+1] == '\\' {
				return i + 2
			}
		}
		return 2
	}
	i := 1
	for i < len(p) && p[i] >= 0x20 && p[i] < 0x30 {
		i++
	}
	return min(i+1, len(p))
}

// decodePercent decodes an octet of a URL.
func decodePercent(dst, p []byte) ([]byte, int) {
	if len(p) < 3 || p[0] != '%' || !isHex(p[1]) || !isHex(p[2]) {
		return dst, 0
	}
	return append(dst, hexByte(p[1:3])), 3
}

func hexByte(p []byte) byte {
	n, _ := strconv.ParseUint(string(p), 16, 8) // the caller checked the digits
	return byte(n)
}

// decodeEntity decodes a character reference of HTML.
func decodeEntity(dst, p []byte) ([]byte, int) {
	if p[0] != '&' {
		return dst, 0
	}
	n := bytes.IndexByte(p[:min(len(p), 12)], ';')
	if n < 2 {
		return dst, 0
	}
	ref := string(p[:n+1])
	text := html.UnescapeString(ref)
	if text == ref {
		return dst, 0
	}
	return append(dst, text...), n + 1
}

func nextBackslash(p []byte) int {
	i := bytes.IndexByte(p, '\\')
	if i >= 0 {
		p = p[:i]
	}
	if j := bytes.Index(p, []byte(closedByQuote)); j >= 0 {
		return j
	}
	return i
}

// decodeBackslash decodes an escape of JSON, a shell, C or Python.
func decodeBackslash(dst, p []byte) ([]byte, int) {
	if bytes.HasPrefix(p, []byte(closedByQuote)) {
		return append(dst, '\''), len(closedByQuote)
	}
	if bytes.HasPrefix(p, []byte(`'\''`)) {
		return append(dst, '\''), len(`'\''`)
	}
	if len(p) < 2 || p[0] != '\\' {
		return dst, 0
	}
	switch c := p[1]; {
	case c == '\n':
		return dst, 2 // the line goes on
	case c == 'u' && len(p) >= 6 && allHex(p[2:6]):
		return decodeUTF16(dst, p)
	case c == 'x' && len(p) >= 4 && allHex(p[2:4]):
		return append(dst, hexByte(p[2:4])), 4
	case c >= '0' && c <= '7':
		n := 2
		for n < min(len(p), 4) && p[n] >= '0' && p[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(string(p[1:n]), 8, 16) // the digits were checked
		return append(dst, byte(v)), n
	default:
		if i := bytes.IndexByte([]byte("abtnvfreE"), c); i >= 0 {
			return append(dst, "\a\b\t\n\v\f\r\x1b\x1b"[i]), 2
		}
		return append(dst, c), 2
	}
}

func allHex(p []byte) bool { return !slices.ContainsFunc(p, func(c byte) bool { return !isHex(c) }) }

// decodeUTF16 decodes \uXXXX, or two of them.
func decodeUTF16(dst, p []byte) ([]byte, int) {
	unit := func(p []byte) rune { return rune(hexByte(p[2:4]))<<8 | rune(hexByte(p[4:6])) }
	r := unit(p)
	if utf16.IsSurrogate(r) && len(p) >= 12 && p[6] == '\\' && p[7] == 'u' && allHex(p[8:12]) {
		return utf8.AppendRune(dst, utf16.DecodeRune(r, unit(p[6:]))), 12
	}
	return utf8.AppendRune(dst, r), 6
}

// decodeBackspace removes the character that a terminal would write over.
func decodeBackspace(dst, p []byte) ([]byte, int) {
	if p[0] != '\b' {
		return dst, 0
	}
	return dst[:max(len(dst)-1, 0)], 1
}

// decodeArray decodes a byte of an array in source code, as xxd -i writes it: 0x2f, with what
// separates it from the next one.
func decodeArray(dst, p []byte) ([]byte, int) {
	if len(p) < 4 || p[0] != '0' || p[1] != 'x' || !allHex(p[2:4]) || len(p) > 4 && isHex(p[4]) {
		return dst, 0
	}
	n := 4
	if rest := bytes.TrimLeft(p[n:], ", \t\r\n"); bytes.HasPrefix(rest, []byte("0x")) {
		n = len(p) - len(rest)
	}
	return append(dst, hexByte(p[2:4])), n
}

// cellWidth is the width of the column that od -c writes a byte into, aligned to the right.
const cellWidth = 4

// nextCell returns the index of the next single character in a column, or -1.
func nextCell(p []byte) int {
	for i := 0; ; {
		n := bytes.Index(p[i:], []byte("   "))
		if n < 0 {
			return -1
		}
		for i += n + cellWidth - 1; i < len(p) && p[i] == ' '; i++ {
		}
		if i+1 >= len(p) || p[i+1] == ' ' || p[i+1] == '\n' {
			return i - cellWidth + 1
		}
	}
}

// cellLine is the end of a line of od -c with the offset of the next one, after which the
// columns begin; line numbers may precede the offset.
var cellLine = lazyregexp.New(`^\r?\n(?: *[0-9]+\t)?(?:[0-7]{7,})? `)

// decodeCell decodes one column of od -c: a character, an escape such as \n, or octal digits.
func decodeCell(dst, p []byte) ([]byte, int) {
	if p[0] == '\n' || p[0] == '\r' {
		if m := cellLine.FindIndex(p); m != nil {
			return dst, m[1] - 1
		}
		return dst, 0
	}
	if len(p) < cellWidth || p[0] != ' ' || len(p) > cellWidth && p[cellWidth] != ' ' && p[cellWidth] != '\n' && p[cellWidth] != '\r' {
		return dst, 0
	}
	cell := bytes.TrimLeft(p[:cellWidth], " ")
	switch {
	case len(cell) == 0:
		return append(dst, ' '), cellWidth
	case len(cell) == 2 && cell[0] == '\\', len(cell) == 3 && allHex(cell):
		text, n := decodeBackslash(dst, append([]byte(`\`), bytes.TrimLeft(cell, `\`)...))
		if n == 0 {
			return dst, 0
		}
		return text, cellWidth
	case len(cell) == 1:
		return append(dst, cell[0]), cellWidth
	}
	return dst, 0
}

// A decoded text knows where its bytes come from.
type decoded struct {
	text       []byte
	start, end []int // of each byte, in the original text
}

// read decodes one character at index i of p, without control sequences, and returns the
// next index, and whether the character was escaped.
func (d *decoded) read(p []byte, i int, e escape) (next int, escaped bool) {
	if n := controlLength(p[i:]); n > 0 {
		return i + n, true
	}
	was := len(d.text)
	var n int
	if d.text, n = e.decode(d.text, p[i:]); n == 0 {
		d.text, n = append(d.text, p[i]), 1
	} else {
		escaped = true
	}
	for range len(d.text) - was {
		d.start, d.end = append(d.start, i), append(d.end, i+n)
	}
	d.start, d.end = d.start[:len(d.text)], d.end[:len(d.text)] // a character may be removed
	return i + n, escaped
}

func (d *decoded) reset() { d.text, d.start, d.end = d.text[:0], d.start[:0], d.end[:0] }

// searchEscaped finds values of which some characters are escaped. Only the surroundings of
// escapes are decoded: as many bytes as the longest value has.
func (st *stream) searchEscaped(p []byte) []redaction {
	var found []redaction
	var d decoded
	for _, e := range escapes {
		floor := 0 // everything before it was searched
		for at := 0; at < len(p); {
			next := e.next(p[at:])
			if next < 0 {
				break
			}
			at += next
			if _, n := e.decode(d.text[:0], p[at:]); n == 0 && p[at] != esc {
				at++ // not an escape
				continue
			}
			d.reset()
			i := max(floor, at-st.s.longest)
			for last := at; i < len(p) && i <= last+st.s.longest; {
				next, escaped := d.read(p, i, e)
				if i = next; escaped {
					last = next
				}
			}
			st.s.find.scan(d.text, 0, 0, func(start, end int, owner int32) {
				found = appendLines(found, p, redaction{d.start[start], d.end[end-1], st.s.names[owner]})
			})
			at, floor = i, i
		}
	}
	return found
}

// appendLines appends a redaction of each line of one, so that lines stay lines.
func appendLines(dst []redaction, p []byte, one redaction) []redaction {
	for {
		n := bytes.IndexByte(p[one.start:one.end], '\n')
		if n < 0 {
			return append(dst, one)
		}
		dst = append(dst, redaction{one.start, one.start + n, one.name})
		if one.start += n + 1; one.start == one.end {
			return dst
		}
	}
}

// findDecoded finds secrets by form in a text with control sequences, or with what tools write
// before each line.
func findDecoded(f Finder, p []byte) []Span {
	var d decoded
	if bytes.IndexByte(p, esc) < 0 {
		return slices.Concat(f.Find(p), findUnprefixed(f, p))
	}
	for i := 0; i < len(p); {
		i, _ = d.read(p, i, escapes[0])
	}
	return d.toOriginal(slices.Concat(f.Find(d.text), findUnprefixed(f, d.text)))
}

// toOriginal converts spans of the decoded text to spans of the original one.
func (d *decoded) toOriginal(spans []Span) []Span {
	for i, sp := range spans {
		spans[i].Start, spans[i].End = d.start[sp.Start], d.end[sp.End-1]
	}
	return spans
}
