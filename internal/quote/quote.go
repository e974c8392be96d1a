// Package quote writes strings as JSON, and takes objects of JSON apart without
// decoding what is in them. It looks at eight bytes at a time, because what tools
// are given and answer are texts of which few bytes need an escape.
package quote

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns a word in which the high bit of each byte that a JSON string
// can't hold as it is, or that is not ASCII, is set. Bytes above the first such
// one may be marked wrongly.
func special(w uint64) uint64 {
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return (w | (w - ones*0x20) | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}

// plain returns how many bytes at the start of s a JSON string can hold as they
// are, eight at a time.
func plain(s []byte) int {
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		if m := special(binary.LittleEndian.Uint64(s[n:])); m != 0 {
			return n + bits.TrailingZeros64(m)/8
		}
	}
	for ; n < len(s); n++ {
		if c := s[n]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return n
}

// Append appends s as JSON. What is not UTF-8 becomes U+FFFD, as
// encoding/json has it; what is escaped for pages there stays.
func Append(buf []byte, s string) []byte {
	const hex = "0123456789abcdef"
	rest := unsafe.Slice(unsafe.StringData(s), len(s)) // it is only read
	buf = append(buf, '"')
	for len(rest) > 0 {
		n := plain(rest)
		buf = append(buf, rest[:n]...)
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
		size := 1
		switch c := rest[0]; {
		case c == '"' || c == '\\':
			buf = append(buf, '\\', c)
		case c == '\n':
			buf = append(buf, '\\', 'n')
		case c == '\t':
			buf = append(buf, '\\', 't')
		case c == '\r':
			buf = append(buf, '\\', 'r')
		case c < 0x20:
			buf = append(buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			var r rune
			if r, size = utf8.DecodeRune(rest); r == utf8.RuneError && size == 1 {
				buf = append(buf, `\ufffd`...)
			} else {
				buf = append(buf, rest[:size]...)
			}
		}
		rest = rest[size:]
	}
	return append(buf, '"')
}
