package quote

import (
	"encoding/binary"
	"strconv"
)

// Lines appends up to count lines of text as Body does, each with its number, the
// first of which is first, and a tab before it, and a line feed after it. It returns
// how many lines these were and how many bytes of text they had. The last one ends
// as the others do where text does not end with a line feed.
func Lines(buf, text []byte, first, count int) (_ []byte, lines, length int) {
	mark := markOf(first)
	for ; lines < count && length < len(text); lines++ {
		buf = mark.append(buf)
		mark.next()
		rest := text[length:]
		n, at := 0, len(buf)
		if room := min(len(rest), cap(buf)-at); hasBlocks && room >= blockSize {
			var found bool
			n, found = copyBlocks(&buf[:at+1][at], &rest[0], room)
			if buf = buf[:at+n]; found && rest[n] == '\n' { // most lines are plain
				buf = append(buf, '\\', 'n')
				length += n + 1
				continue
			}
		}
		buf, n = line(buf, rest, n)
		buf = append(buf, '\\', 'n')
		length += n
	}
	return buf, lines, length
}

// A mark is what stands before a line. That of a number of few digits is a word,
// which is written at once.
type mark struct {
	word   uint64 // its bytes, the first of them the lowest; if it has at most 8
	digits int
	number int
}

func markOf(number int) mark {
	var room [32]byte
	text := append(strconv.AppendInt(room[:0], int64(number), 10), '\\', 't')
	return mark{binary.LittleEndian.Uint64(room[:]), len(text) - 2, number}
}

// next counts on.
func (m *mark) next() {
	m.number++
	last := 8 * (m.digits - 1)
	if m.digits > 6 || byte(m.word>>last) == '9' {
		*m = markOf(m.number)
		return
	}
	m.word += 1 << last
}

func (m *mark) append(buf []byte) []byte {
	if at := len(buf); m.digits <= 6 && cap(buf)-at >= 8 {
		binary.LittleEndian.PutUint64(buf[at:at+8], m.word)
		return buf[:at+m.digits+2]
	}
	return append(strconv.AppendInt(buf, int64(m.number), 10), '\\', 't')
}
