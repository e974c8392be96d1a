package suite

import (
	"fmt"
	"strings"
	"unicode"
)

// unicodeClasses writes the \p{...} of a regular expression as ranges, because the
// engine does not know them. What it does not know either is left as it is.
func unicodeClasses(pattern string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+2 < len(pattern) && (pattern[i+1] == 'p' || pattern[i+1] == 'P') && pattern[i+2] == '{':
			end := strings.IndexByte(pattern[i:], '}')
			if end < 0 {
				b.WriteString(pattern[i:])
				return b.String()
			}
			name := pattern[i+3 : i+end]
			if table := unicodeTable(name); table != nil {
				writeTable(&b, table, pattern[i+1] == 'P', inClass)
			} else {
				b.WriteString(pattern[i : i+end+1])
			}
			i += end
			continue
		case c == '\\' && i+1 < len(pattern):
			b.WriteByte(c)
			i++
			c = pattern[i]
		case c == '[':
			inClass = true
		case c == ']':
			inClass = false
		}
		b.WriteByte(c)
	}
	return b.String()
}

// unicodeTable finds a category, a script or a property.
func unicodeTable(name string) *unicode.RangeTable {
	if _, value, ok := strings.Cut(name, "="); ok {
		name = value
	}
	if long, ok := map[string]string{"Letter": "L", "Number": "N", "Punctuation": "P", "Symbol": "S", "Uppercase_Letter": "Lu",
		"Lowercase_Letter": "Ll", "Alphabetic": "L", "Uppercase": "Lu", "Lowercase": "Ll", "Decimal_Number": "Nd", "Mark": "M", "Separator": "Z",
		"Emoji_Presentation": "Emoji", "Extended_Pictographic": "Emoji"}[name]; ok {
		name = long
	}
	if name == "Emoji" {
		return emoji
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Scripts, unicode.Properties} {
		if t, ok := tables[name]; ok {
			return t
		}
	}
	return nil
}

// emoji is what is drawn as one, roughly.
var emoji = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x203c, Hi: 0x203c, Stride: 1}, {Lo: 0x2049, Hi: 0x2049, Stride: 1}, {Lo: 0x2139, Hi: 0x2139, Stride: 1},
		{Lo: 0x2194, Hi: 0x21aa, Stride: 1}, {Lo: 0x231a, Hi: 0x23ff, Stride: 1}, {Lo: 0x25aa, Hi: 0x27bf, Stride: 1}, {Lo: 0x2934, Hi: 0x2935, Stride: 1},
		{Lo: 0x2b05, Hi: 0x2b55, Stride: 1}, {Lo: 0x3030, Hi: 0x303d, Stride: 1}, {Lo: 0x3297, Hi: 0x3299, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x1f000, Hi: 0x1faff, Stride: 1}},
}

// writeTable writes the ranges of a table, as a class of its own or within one.
func writeTable(b *strings.Builder, t *unicode.RangeTable, not, inClass bool) {
	var ranges [][2]rune
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			ranges = append(ranges, [2]rune{lo, hi})
			return
		}
		for c := lo; c <= hi; c += stride {
			ranges = append(ranges, [2]rune{c, c})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	if not && inClass {
		ranges = complementRanges(ranges)
		not = false
	}
	if !inClass {
		b.WriteByte('[')
		if not {
			b.WriteByte('^')
		}
	}
	for _, r := range ranges {
		fmt.Fprintf(b, `\u{%x}-\u{%x}`, r[0], r[1])
	}
	if !inClass {
		b.WriteByte(']')
	}
}

func complementRanges(ranges [][2]rune) [][2]rune {
	var out [][2]rune
	next := rune(0)
	for _, r := range ranges {
		if r[0] > next {
			out = append(out, [2]rune{next, r[0] - 1})
		}
		next = max(next, r[1]+1)
	}
	if next <= unicode.MaxRune {
		out = append(out, [2]rune{next, unicode.MaxRune})
	}
	return out
}
