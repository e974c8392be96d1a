package suite

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/rangetable"
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

// unicodeTable finds a category, a script or a property, nil if it is not known.
func unicodeTable(name string) *unicode.RangeTable {
	if key, value, ok := strings.Cut(name, "="); ok {
		switch key {
		case "Script", "sc":
			return unicode.Scripts[value]
		case "General_Category", "gc":
			name = value
		default: // of script extensions there is no table
			return nil
		}
	}
	if long, ok := categoryNames[name]; ok {
		name = long
	}
	if t, ok := unicode.Categories[name]; ok {
		return t
	}
	return properties()[name]
}

// categoryNames are the long names of general categories.
var categoryNames = map[string]string{
	"Letter": "L", "Number": "N", "Punctuation": "P", "Symbol": "S", "Mark": "M", "Separator": "Z", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
	"Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Decimal_Number": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
}

// properties are the binary properties: Go's, and those that are made of others.
var properties = sync.OnceValue(func() map[string]*unicode.RangeTable {
	all := maps.Clone(unicode.Properties)
	all["Any"] = &unicode.RangeTable{R32: []unicode.Range32{{Lo: 0, Hi: unicode.MaxRune, Stride: 1}}}
	all["ASCII"] = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0, Hi: unicode.MaxASCII, Stride: 1}}}
	all["Alphabetic"] = rangetable.Merge(unicode.L, unicode.Nl, unicode.Other_Alphabetic)
	all["Uppercase"] = rangetable.Merge(unicode.Lu, unicode.Other_Uppercase)
	all["Lowercase"] = rangetable.Merge(unicode.Ll, unicode.Other_Lowercase)
	for name, text := range map[string]string{"Emoji": emoji, "Emoji_Presentation": emojiPresentation, "Extended_Pictographic": pictographic} {
		all[name] = parseTable(text)
	}
	return all
})

// parseTable reads ranges in hexadecimal.
func parseTable(text string) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for word := range strings.FieldsSeq(text) {
		from, to, ok := strings.Cut(word, "-")
		if !ok {
			to = from
		}
		lo, err := strconv.ParseUint(from, 16, 32)
		must(err)
		hi, err := strconv.ParseUint(to, 16, 32)
		must(err)
		t.R32 = append(t.R32, unicode.Range32{Lo: uint32(lo), Hi: uint32(hi), Stride: 1})
	}
	return t
}

// The properties of emoji, which Go lacks, of Unicode 17.
const (
	emoji = "23 2a 30-39 a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab 25b6 " +
		"25c0 25fb-25fe 2600-2604 260e 2611 2614-2615 2618 261d 2620 2622-2623 2626 262a 262e-262f 2638-263a 2640 2642 2648-2653 " +
		"265f-2660 2663 2665-2666 2668 267b 267e-267f 2692-2697 2699 269b-269c 26a0-26a1 26a7 26aa-26ab 26b0-26b1 26bd-26be " +
		"26c4-26c5 26c8 26ce-26cf 26d1 26d3-26d4 26e9-26ea 26f0-26f5 26f7-26fa 26fd 2702 2705 2708-270d 270f 2712 2714 2716 271d " +
		"2721 2728 2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2764 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c " +
		"2b50 2b55 3030 303d 3297 3299 1f004 1f0cf 1f170-1f171 1f17e-1f17f 1f18e 1f191-1f19a 1f1e6-1f1ff 1f201-1f202 1f21a 1f22f " +
		"1f232-1f23a 1f250-1f251 1f300-1f321 1f324-1f393 1f396-1f397 1f399-1f39b 1f39e-1f3f0 1f3f3-1f3f5 1f3f7-1f4fd 1f4ff-1f53d " +
		"1f549-1f54e 1f550-1f567 1f56f-1f570 1f573-1f57a 1f587 1f58a-1f58d 1f590 1f595-1f596 1f5a4-1f5a5 1f5a8 1f5b1-1f5b2 1f5bc " +
		"1f5c2-1f5c4 1f5d1-1f5d3 1f5dc-1f5de 1f5e1 1f5e3 1f5e8 1f5ef 1f5f3 1f5fa-1f64f 1f680-1f6c5 1f6cb-1f6d2 1f6d5-1f6d8 " +
		"1f6dc-1f6e5 1f6e9 1f6eb-1f6ec 1f6f0 1f6f3-1f6fc 1f7e0-1f7eb 1f7f0 1f90c-1f93a 1f93c-1f945 1f947-1f9ff 1fa70-1fa7c " +
		"1fa80-1fa8a 1fa8e-1fac6 1fac8 1facd-1fadc 1fadf-1faea 1faef-1faf8 "
	emojiPresentation = "231a-231b 23e9-23ec 23f0 23f3 25fd-25fe 2614-2615 2648-2653 267f 2693 26a1 26aa-26ab 26bd-26be 26c4-26c5 26ce 26d4 26ea " +
		"26f2-26f3 26f5 26fa 26fd 2705 270a-270b 2728 274c 274e 2753-2755 2757 2795-2797 27b0 27bf 2b1b-2b1c 2b50 2b55 1f004 " +
		"1f0cf 1f18e 1f191-1f19a 1f1e6-1f1ff 1f201 1f21a 1f22f 1f232-1f236 1f238-1f23a 1f250-1f251 1f300-1f320 1f32d-1f335 " +
		"1f337-1f37c 1f37e-1f393 1f3a0-1f3ca 1f3cf-1f3d3 1f3e0-1f3f0 1f3f4 1f3f8-1f43e 1f440 1f442-1f4fc 1f4ff-1f53d 1f54b-1f54e " +
		"1f550-1f567 1f57a 1f595-1f596 1f5a4 1f5fb-1f64f 1f680-1f6c5 1f6cc 1f6d0-1f6d2 1f6d5-1f6d8 1f6dc-1f6df 1f6eb-1f6ec " +
		"1f6f4-1f6fc 1f7e0-1f7eb 1f7f0 1f90c-1f93a 1f93c-1f945 1f947-1f9ff 1fa70-1fa7c 1fa80-1fa8a 1fa8e-1fac6 1fac8 1facd-1fadc " +
		"1fadf-1faea 1faef-1faf8 "
	pictographic = "a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab 25b6 25c0 25fb-25fe " +
		"2600-2604 260e 2611 2614-2615 2618 261d 2620 2622-2623 2626 262a 262e-262f 2638-263a 2640 2642 2648-2653 265f-2660 2663 " +
		"2665-2666 2668 267b 267e-267f 2692-2697 2699 269b-269c 26a0-26a1 26a7 26aa-26ab 26b0-26b1 26bd-26be 26c4-26c5 26c8 " +
		"26ce-26cf 26d1 26d3-26d4 26e9-26ea 26f0-26f5 26f7-26fa 26fd 2702 2705 2708-270d 270f 2712 2714 2716 271d 2721 2728 " +
		"2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2764 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 " +
		"3030 303d 3297 3299 1f004 1f02c-1f02f 1f094-1f09f 1f0af-1f0b0 1f0c0 1f0cf-1f0d0 1f0f6-1f0ff 1f170-1f171 1f17e-1f17f " +
		"1f18e 1f191-1f19a 1f1ae-1f1e5 1f201-1f20f 1f21a 1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f25f 1f266-1f321 1f324-1f393 " +
		"1f396-1f397 1f399-1f39b 1f39e-1f3f0 1f3f3-1f3f5 1f3f7-1f3fa 1f400-1f4fd 1f4ff-1f53d 1f549-1f54e 1f550-1f567 1f56f-1f570 " +
		"1f573-1f57a 1f587 1f58a-1f58d 1f590 1f595-1f596 1f5a4-1f5a5 1f5a8 1f5b1-1f5b2 1f5bc 1f5c2-1f5c4 1f5d1-1f5d3 1f5dc-1f5de " +
		"1f5e1 1f5e3 1f5e8 1f5ef 1f5f3 1f5fa-1f64f 1f680-1f6c5 1f6cb-1f6d2 1f6d5-1f6e5 1f6e9 1f6eb-1f6f0 1f6f3-1f6ff 1f7da-1f7ff " +
		"1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8af 1f8bc-1f8bf 1f8c2-1f8cf 1f8d9-1f8ff 1f90c-1f93a 1f93c-1f945 " +
		"1f947-1f9ff 1fa58-1fa5f 1fa6e-1faff 1fc00-1fffd "
)

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
