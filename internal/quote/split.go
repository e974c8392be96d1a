package quote

import (
	"bytes"
	"unicode/utf8"
)

// A Member is one of an object: its key, and its value as it was written.
type Member struct {
	Key   string
	Value []byte // of the data that it was found in
}

// Members appends the members of the object that data is to list, in their order;
// a key that is there twice comes twice. It looks at every byte once and decodes
// nothing. false is that data is no object, or one that only a decoder can tell of:
// keys that have escapes or are no UTF-8, and what is nested deeply.
func Members(list []Member, data []byte) ([]Member, bool) {
	s := splitter{data: data}
	s.space()
	if !s.take('{') {
		return list, false
	}
	list, ok := s.members(list)
	s.space()
	return list, ok && s.at == len(data)
}

// String returns the string that a value is, if it is one without escapes.
func String(value []byte) (string, bool) {
	n := len(value)
	if n < 2 || value[0] != '"' || value[n-1] != '"' {
		return "", false
	}
	if text := value[1 : n-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return string(text), true
	}
	return "", false
}

// maxDepth is how deeply values may be nested.
const maxDepth = 64

// A splitter reads JSON. Its methods report whether what they read is valid.
type splitter struct {
	data  []byte
	at    int
	depth int
}

func (s *splitter) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// take takes one byte, if it is the next.
func (s *splitter) take(c byte) bool {
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// members reads the rest of an object, after its brace, and appends its members to
// list, where that is not nil.
func (s *splitter) members(list []Member) ([]Member, bool) {
	s.space()
	if s.take('}') {
		return list, true
	}
	for {
		s.space()
		from := s.at
		if !s.text() {
			return list, false
		}
		key := s.data[from:s.at]
		s.space()
		if !s.take(':') {
			return list, false
		}
		s.space()
		from = s.at
		if !s.value() {
			return list, false
		}
		if s.depth == 0 {
			name, ok := String(key)
			if !ok {
				return list, false
			}
			list = append(list, Member{name, s.data[from:s.at]})
		}
		s.space()
		if s.take('}') {
			return list, true
		}
		if !s.take(',') {
			return list, false
		}
	}
}

// items reads the rest of an array, after its bracket.
func (s *splitter) items() bool {
	s.space()
	if s.take(']') {
		return true
	}
	for {
		s.space()
		if !s.value() {
			return false
		}
		s.space()
		if s.take(']') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

// value reads a value.
func (s *splitter) value() bool {
	if s.at == len(s.data) {
		return false
	}
	switch c := s.data[s.at]; {
	case c == '"':
		return s.text()
	case c == '{' || c == '[':
		s.at++
		if s.depth++; s.depth > maxDepth {
			return false
		}
		ok := false
		if c == '[' {
			ok = s.items()
		} else {
			_, ok = s.members(nil)
		}
		s.depth--
		return ok
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.at:], []byte(word)) {
			s.at += len(word)
			return true
		}
	}
	return false
}

// text reads a string.
func (s *splitter) text() bool {
	if !s.take('"') {
		return false
	}
	for {
		s.at += plain(s.data[s.at:])
		if s.at == len(s.data) {
			return false
		}
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < 0x20:
			return false
		default: // not ASCII
			s.at++
		}
	}
}

// escape reads an escape within a string.
func (s *splitter) escape() bool {
	rest := s.data[s.at+1:]
	if len(rest) == 0 {
		return false
	}
	if rest[0] != 'u' {
		s.at += 2
		return bytes.IndexByte([]byte(`"\/bfnrt`), rest[0]) >= 0
	}
	if len(rest) < 5 {
		return false
	}
	for _, c := range rest[1:5] {
		if digit, letter := c >= '0' && c <= '9', c|0x20 >= 'a' && c|0x20 <= 'f'; !digit && !letter {
			return false
		}
	}
	s.at += 6
	return true
}

// number reads a number.
func (s *splitter) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('-') {
			s.take('+')
		}
		return s.digits()
	}
	return true
}

// digits reads one digit or more.
func (s *splitter) digits() bool {
	from := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at > from
}
