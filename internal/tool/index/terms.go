package index

import (
	"unicode"
	"unicode/utf8"
)

// stopwords are not indexed.
var stopwords = map[string]bool{
	"a": true, "an": true, "and": true, "the": true, "of": true, "to": true, "in": true, "is": true, "for": true,
	"or": true, "with": true, "it": true, "this": true,
}

// maxTerm bounds a term, in bytes; a longer one is truncated.
const maxTerm = 64

// eachTerm calls emit with each term of text, in lower case: every word, and the parts of
// compound words (camelCase, snake_case, digits). The bytes are valid during the call.
func eachTerm(text string, buf *[]byte, emit func(term []byte)) {
	for i := 0; i < len(text); {
		r, size := decodeRune(text[i:])
		if !wordRune(r) {
			i += size
			continue
		}
		start := i
		for i < len(text) {
			r, size := decodeRune(text[i:])
			if !wordRune(r) {
				break
			}
			i += size
		}
		emitWord(text[start:i], buf, emit)
	}
}

func decodeRune(s string) (rune, int) {
	if c := s[0]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s)
}

func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// emitWord emits a word and its parts.
func emitWord(w string, buf *[]byte, emit func([]byte)) {
	parts := 0
	start := 0
	var last rune
	for i := 0; i < len(w); {
		r, size := decodeRune(w[i:])
		if i > start && isWordBreak(last, r, w[i+size:]) {
			parts += emitPart(w[start:i], len(w), buf, emit)
			start = i
		}
		last = r
		i += size
	}
	if start > 0 || w[0] == '_' || w[len(w)-1] == '_' {
		parts += emitPart(w[start:], len(w), buf, emit)
	}
	if parts != 1 || start == 0 {
		lowerInto(w, buf)
		if t := trimUnderscores(*buf); len(t) > 0 {
			emit(t)
		}
	}
}

// emitPart emits one part, without surrounding underscores.
func emitPart(p string, whole int, buf *[]byte, emit func([]byte)) int {
	lowerInto(p, buf)
	t := trimUnderscores(*buf)
	if len(t) == 0 || len(t) == whole {
		return 0
	}
	emit(t)
	return 1
}

func trimUnderscores(b []byte) []byte {
	for len(b) > 0 && b[0] == '_' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == '_' {
		b = b[:len(b)-1]
	}
	return b
}

// isWordBreak reports whether a part of a word ends between a and b, given the text after
// b: fooBar, HTTPServer, v2, a_b.
func isWordBreak(a, b rune, after string) bool {
	switch {
	case a == '_' || b == '_':
		return true
	case isDigit(a) != isDigit(b):
		return true
	case unicode.IsLower(a) && unicode.IsUpper(b):
		return true
	case unicode.IsUpper(a) && unicode.IsUpper(b) && after != "":
		next, _ := decodeRune(after)
		return unicode.IsLower(next)
	}
	return false
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// lowerInto writes s in lower case to buf, truncated to maxTerm.
func lowerInto(s string, buf *[]byte) {
	b := (*buf)[:0]
	for i := 0; i < len(s) && len(b) < maxTerm; {
		r, size := decodeRune(s[i:])
		if r < utf8.RuneSelf {
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			b = append(b, byte(r))
		} else {
			b = utf8.AppendRune(b, unicode.ToLower(r))
		}
		i += size
	}
	*buf = b
}
