// Package quote writes strings as JSON, and takes objects of JSON apart without
// decoding what is in them. It looks at many bytes at a time, because what tools
// are given and answer are texts of which few bytes need an escape.
package quote

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// blockSize is how many bytes a processor with vectors looks at together.
const blockSize = 32

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
// are.
func plain(s []byte) int {
	n := 0
	if hasBlocks && len(s) >= blockSize {
		var found bool
		if n, found = plainBlocks(&s[0], len(s)); found {
			return n
		}
	}
	for ; len(s)-n >= 32; n += 32 {
		next := s[n : n+32]
		a, b := binary.LittleEndian.Uint64(next), binary.LittleEndian.Uint64(next[8:])
		c, d := binary.LittleEndian.Uint64(next[16:]), binary.LittleEndian.Uint64(next[24:])
		if special(a)|special(b)|special(c)|special(d) != 0 {
			break
		}
	}
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

// appendPlain appends the bytes at the start of text that a JSON string can hold as
// they are, and returns how many these are. Where buf has room they are copied as
// they are looked at.
func appendPlain(buf, text []byte) (_ []byte, n int) {
	at := len(buf)
	if room := min(len(text), cap(buf)-at); hasBlocks && room >= blockSize {
		var found bool
		n, found = copyBlocks(&buf[:at+1][at], &text[0], room)
		if buf = buf[:at+n]; found {
			return buf, n
		}
	}
	rest := plain(text[n:])
	return append(buf, text[n:n+rest]...), n + rest
}

// Append appends s as JSON. What is not UTF-8 becomes U+FFFD, as
// encoding/json has it; what is escaped for pages there stays.
func Append(buf []byte, s string) []byte {
	buf = append(buf, '"')
	buf = Body(buf, unsafe.Slice(unsafe.StringData(s), len(s))) // it is only read
	return append(buf, '"')
}

// Body appends text as Append does, without the quotes around it.
func Body(buf, text []byte) []byte {
	for len(text) > 0 {
		var n int
		buf, n = appendPlain(buf, text)
		if text = text[n:]; len(text) > 0 {
			buf, n = escape(buf, text)
			text = text[n:]
		}
	}
	return buf
}

// line appends the first line of text, without its end and what comes before at,
// as Body does. It returns how many bytes of text the line has, with its end: all of
// text where that has no end of a line. A line ends with a line feed, and with a
// carriage return before that.
func line(buf, text []byte, at int) (_ []byte, length int) {
	for n := 0; ; {
		buf, n = appendPlain(buf, text[at:])
		if at += n; at == len(text) {
			return buf, at
		}
		rest := text[at:]
		if rest[0] == '\n' {
			return buf, at + 1
		}
		if rest[0] == '\r' && len(rest) > 1 && rest[1] == '\n' {
			return buf, at + 2
		}
		buf, n = escape(buf, rest)
		at += n
	}
}

// escape appends what stands for the first character of text, which can't be as it
// is, and returns its size.
func escape(buf, text []byte) (_ []byte, size int) {
	const hex = "0123456789abcdef"
	switch c := text[0]; {
	case c == '"' || c == '\\':
		return append(buf, '\\', c), 1
	case c == '\n':
		return append(buf, '\\', 'n'), 1
	case c == '\t':
		return append(buf, '\\', 't'), 1
	case c == '\r':
		return append(buf, '\\', 'r'), 1
	case c < 0x20:
		return append(buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&15]), 1
	}
	r, size := utf8.DecodeRune(text)
	if r == utf8.RuneError && size == 1 {
		return append(buf, `\ufffd`...), 1
	}
	return append(buf, text[:size]...), size
}
