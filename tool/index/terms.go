package index

import (
	"unicode"
	"unicode/utf8"
)

// stopwords are too common to tell anything; who counts terms leaves them out.
var stopwords = map[string]bool{
	"a": true, "an": true, "and": true, "the": true, "of": true, "to": true, "in": true, "is": true, "for": true,
	"or": true, "with": true, "it": true, "this": true,
}

// maxTerm is the longest term, in bytes; what is longer is cut.
const maxTerm = 64

// terms calls emit with each term of text, in lower case: every word, and the
// parts of words that are built of several (camelCase, snake_case, digits). The
// bytes are valid during the call.
func terms(text string, buf *[]byte, emit func(term []byte)) {
	for i := 0; i < len(text); {
		r, size := decode(text[i:])
		if !wordRune(r) {
			i += size
			continue
		}
		start := i
		for i < len(text) {
			r, size := decode(text[i:])
			if !wordRune(r) {
				break
			}
			i += size
		}
		word(text[start:i], buf, emit)
	}
}

func decode(s string) (rune, int) {
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

// word emits a word and its parts.
func word(w string, buf *[]byte, emit func([]byte)) {
	parts := 0
	start := 0
	var last rune
	for i := 0; i < len(w); {
		r, size := decode(w[i:])
		if i > start && breaks(last, r, w[i+size:]) {
			parts += part(w[start:i], len(w), buf, emit)
			start = i
		}
		last = r
		i += size
	}
	if start > 0 || w[0] == '_' || w[len(w)-1] == '_' {
		parts += part(w[start:], len(w), buf, emit)
	}
	if parts != 1 || start == 0 {
		lower(w, buf)
		if t := trimmed(*buf); len(t) > 0 {
			emit(t)
		}
	}
}

// part emits one part, without the underscores around it.
func part(p string, whole int, buf *[]byte, emit func([]byte)) int {
	lower(p, buf)
	t := trimmed(*buf)
	if len(t) == 0 || len(t) == whole {
		return 0
	}
	emit(t)
	return 1
}

func trimmed(b []byte) []byte {
	for len(b) > 0 && b[0] == '_' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == '_' {
		b = b[:len(b)-1]
	}
	return b
}

// breaks reports whether a part of a word ends between two characters, given what
// follows the second: fooBar, HTTPServer, v2, a_b.
func breaks(a, b rune, after string) bool {
	switch {
	case a == '_' || b == '_':
		return true
	case digit(a) != digit(b):
		return true
	case unicode.IsLower(a) && unicode.IsUpper(b):
		return true
	case unicode.IsUpper(a) && unicode.IsUpper(b) && after != "":
		next, _ := decode(after)
		return unicode.IsLower(next)
	}
	return false
}

func digit(r rune) bool { return '0' <= r && r <= '9' }

// lower writes s in lower case to buf, cut to maxTerm.
func lower(s string, buf *[]byte) {
	b := (*buf)[:0]
	for i := 0; i < len(s) && len(b) < maxTerm; {
		r, size := decode(s[i:])
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
