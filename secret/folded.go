package secret

import (
	"bytes"
	"encoding/binary"
)

// A foldedSearch finds the texts of secrets where they go on in another line: base64 and
// hexadecimal digits in lines of equal length, as programs fold them, and dumps of
// bytes. It hands the parts that belong together to the automaton, one after the
// other. What lies within one part is found without it.
//
// Such texts are rare. So it asks at every 32nd place whether the next sixteen bytes
// may be of one: a line of at least minFold characters has sixteen in a row there.
type foldedSearch struct {
	s      *Scrubber
	p      []byte
	i      int   // where to look next
	floor  int   // before which all is known
	digits bool  // there may be digits and blanks alone
	at     int32 // state of the automaton
	pieces []piece
	spans  []redaction
}

// A piece is a part of a text that was folded.
type piece struct {
	start, end int
	tail       int // the end of what the line says again in other words; 0 is nothing
}

const (
	foldStride = 32
	foldLook   = 16
	minFold    = foldStride + foldLook - 1 // the length of the shortest line of a text that was folded
	minFolded  = 8                         // the length of the shortest text that is looked for across lines
	maxLine    = 4 << 10                   // the length of the longest line whose end is looked for
	maxPieces  = 1 << 13                   // that are remembered
)

// searchUpTo looks for texts that begin before a place, from where it was before on.
func (f *foldedSearch) searchUpTo(end int) {
	for f.seek(end) {
		next := f.scanLines(f.i)
		if next == 0 {
			next = f.scanDump(f.i)
		}
		if f.i += foldStride; next > 0 {
			f.i, f.floor = next, next
		}
	}
}

// seek goes on by whole strides to the next place at which such a text may be, and
// reports whether there is one.
func (f *foldedSearch) seek(end int) bool {
	i, p := f.i, f.p[:min(end+foldLook, len(f.p))]
	for ; i+foldLook <= len(p); i += foldStride {
		w := (*[foldLook]byte)(p[i:])
		x, y := binary.LittleEndian.Uint64(w[:]), binary.LittleEndian.Uint64(w[8:])
		fold, dump := hasByteBelow(x, '+')|hasByteBelow(y, '+'), hasByteAbove(x, 'f')|hasByteAbove(y, 'f')
		if fold&highBits == 0 || dump&highBits == 0 && x != eightBlanks {
			f.i, f.digits = i, dump&highBits == 0
			return true
		}
	}
	f.i = i
	return false
}

const (
	eachByte    = 0x0101010101010101
	highBits    = 0x80 * eachByte
	eightBlanks = ' ' * eachByte
)

// hasByteBelow has a high bit if a byte of a word is below c, which is at most 128.
func hasByteBelow(x uint64, c byte) uint64 { return (x - uint64(c)*eachByte) &^ x }

// hasByteAbove has a high bit if a byte of a word is above c, which is less than 128.
func hasByteAbove(x uint64, c byte) uint64 { return x + uint64(127-c)*eachByte | x }

// foldable are the characters of base64, as it is folded, and hexadecimal digits.
var foldable = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") {
		is[c] = true
	}
	return is
}()

// scanLines looks at the line that is folded at i, and at those that follow. It returns where to go on, or 0 where there is no such line.
func (f *foldedSearch) scanLines(i int) int {
	if !foldable[f.p[i]] {
		return 0
	}
	start := i
	for start > f.floor && foldable[f.p[start-1]] {
		start--
	}
	end := f.runEnd(i)
	if end-start < minFold {
		return 0
	}
	if f.nextLine(end) < 0 {
		return end
	}
	next := f.scanBlock(start, end, false)
	if f.p[start] == '+' && f.opensLine(start) { // it may be a line that a difference adds
		f.scanBlock(start, end, true)
	}
	return next
}

// runEnd returns the end of the characters from i on that may be folded.
func (f *foldedSearch) runEnd(i int) int {
	for i < len(f.p) && foldable[f.p[i]] {
		i++
	}
	return i
}

func (f *foldedSearch) opensLine(i int) bool { return i == 0 || f.p[i-1] == '\n' }

// nextLine returns where the next line begins if one ends at i, and else -1. Within
// strings an end is often written out.
func (f *foldedSearch) nextLine(i int) int {
	for _, end := range []string{"\n", "\r\n", `\n`, `\r\n`} {
		if len(f.p)-i >= len(end) && string(f.p[i:i+len(end)]) == end {
			return i + len(end)
		}
	}
	return -1
}

// scanBlock hands the lines of a text to the automaton, of which the first is given. It
// returns the end of the last long one. A plus is at the beginning of each line
// where that is said.
func (f *foldedSearch) scanBlock(start, end int, plus bool) int {
	f.at, f.pieces = 0, f.pieces[:0]
	long := end
	for {
		if plus {
			if !f.opensLine(start) || f.p[start] != '+' {
				return long
			}
			start++
		}
		f.feedPiece(piece{start: start, end: end})
		if end-start < minFold-1 {
			return long
		}
		long = end
		line := f.nextLine(end)
		if line < 0 {
			return long
		}
		if start, end = f.continuation(line); start == end {
			return long
		}
	}
}

// continuation returns the part of a line that a text goes on with. It may be behind blanks,
// a number or the name of a file, and the last one may have anything behind it.
func (f *foldedSearch) continuation(line int) (start, end int) {
	start = line
	for start < len(f.p) && (f.p[start] == ' ' || f.p[start] == '\t') {
		start++
	}
	number := start
	for number < len(f.p) && f.p[number] >= '0' && f.p[number] <= '9' {
		number++
	}
	if number > start && number < len(f.p) && f.p[number] == '\t' {
		start = number + 1
	}
	end = f.runEnd(start)
	if end == len(f.p) || f.nextLine(end) >= 0 {
		return start, end
	}
	last := f.lineEnd(line, maxLine)
	if last > line && f.p[last-1] == '\r' {
		last--
	}
	behind := last
	for behind > end && foldable[f.p[behind-1]] {
		behind--
	}
	if behind == last {
		return start, end
	}
	if end > start { // either may be it
		at, n := f.at, len(f.pieces)
		f.feedPiece(piece{start: start, end: end})
		f.at, f.pieces = at, f.pieces[:n]
	}
	return behind, last
}

// lineEnd returns the end of a line, or where it has had most bytes.
func (f *foldedSearch) lineEnd(line, most int) int {
	most = min(line+most, len(f.p))
	if n := bytes.IndexByte(f.p[line:most], '\n'); n >= 0 {
		return line + n
	}
	return most
}

// feedPiece hands a piece to the automaton.
func (f *foldedSearch) feedPiece(next piece) {
	if len(f.pieces) == maxPieces {
		f.dropPieces()
	}
	f.pieces = append(f.pieces, next)
	f.at = f.s.find.scan(f.p[:next.end], next.start, f.at, f.addSpans)
}

// dropPieces drops the pieces that no secret which is under way has begun in.
func (f *foldedSearch) dropPieces() {
	need, keep := int(f.s.find.nodes[f.at].depth), len(f.pieces)
	for ; keep > 0 && need > 0; keep-- {
		need -= f.pieces[keep-1].end - f.pieces[keep-1].start
	}
	f.pieces = append(f.pieces[:0], f.pieces[keep:]...)
}

// addSpans takes note of a text that ends in the last piece, if it begins in another
// one: a span for each line that it is in.
func (f *foldedSearch) addSpans(start, end int, who int32) {
	k := len(f.pieces) - 1
	need := f.pieces[k].start - start // characters before the last piece
	if need <= 0 || end-start < minFolded {
		return
	}
	for need > 0 {
		k--
		need -= f.pieces[k].end - f.pieces[k].start
	}
	at, tail := redaction{f.pieces[k].start - need, 0, f.s.names[who]}, 0
	for ; k < len(f.pieces); k++ {
		one := f.pieces[k]
		if at.end > 0 && bytes.IndexByte(f.p[at.end:one.start], '\n') >= 0 {
			at.end = max(at.end, tail)
			f.spans = append(f.spans, at)
			at.start = one.start
		}
		if at.end, tail = one.end, one.tail; k == len(f.pieces)-1 {
			at.end = end
		}
	}
	at.end = max(at.end, tail)
	f.spans = append(f.spans, at)
}
