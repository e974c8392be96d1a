package secret

import (
	"bytes"
	"encoding/binary"
)

// A foldedSearch finds secrets that continue on another line: base64 and hexadecimal digits
// wrapped into lines of equal length, and hex dumps. It feeds the parts to the automaton,
// one after the other. Secrets within one line are found without it.
//
// Such texts are rare. So it tests at every 32nd byte whether the next sixteen bytes may
// belong to one: a line of at least minFold characters has sixteen in a row there. Shorter
// lines are found by their ends (searchShort).
type foldedSearch struct {
	s      *Scrubber
	p      []byte
	i      int   // next position
	floor  int   // everything before it was scanned
	digits bool  // only digits and blanks here
	at     int32 // state of the automaton
	pieces []piece
	spans  []redaction
}

// A piece is a part of a wrapped text.
type piece struct {
	start, end int
	tail       int // end of the character column of a dump line; 0 if absent
}

const (
	foldStride = 32
	foldLook   = 16
	minFold    = foldStride + foldLook - 1 // minimum length of a wrapped line
	minShort   = 4                         // minimum length of a line found by its end
	minFolded  = 8                         // minimum length of a text found across lines
	maxLine    = 4 << 10                   // maximum length of a line
	maxPieces  = 1 << 13                   // kept pieces
)

// searchUpTo searches texts that begin before end, from the last position on.
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

// seek advances by strides to the next candidate, and reports whether there is one.
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

// hasByteBelow sets a high bit if a byte of a word is below c, which is at most 128.
func hasByteBelow(x uint64, c byte) uint64 { return (x - uint64(c)*eachByte) &^ x }

// hasByteAbove sets a high bit if a byte of a word is above c, which is less than 128.
func hasByteAbove(x uint64, c byte) uint64 { return x + uint64(127-c)*eachByte | x }

// foldable are the characters of wrapped base64 and hexadecimal text.
var foldable = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") {
		is[c] = true
	}
	return is
}()

// scanLines scans the wrapped line at i and those that follow. It returns the next
// position, or 0 if there is no such line.
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
	return f.scanBoth(start, end, minFold)
}

// scanBoth is scanBlock, also for added lines of a diff.
func (f *foldedSearch) scanBoth(start, end, shortest int) int {
	next := f.scanBlock(start, end, shortest, false)
	if f.p[start] == '+' && f.opensLine(start) {
		f.scanBlock(start, end, shortest, true)
	}
	return next
}

// searchShort searches texts in lines of less than minFold characters.
func (f *foldedSearch) searchShort() {
	f.floor = 0
	for i := 0; i < len(f.p); {
		n := bytes.IndexAny(f.p[i:min(i+atOnce, len(f.p))], "\n\\")
		if n < 0 {
			i += atOnce
			continue
		}
		end := i + n
		if i = end + 1; f.p[end] == '\n' && end > 0 && f.p[end-1] == '\r' {
			end--
		}
		start := end
		for start > f.floor && end-start < minFold && foldable[f.p[start-1]] {
			start--
		}
		if n := end - start; n < minShort || n >= minFold || f.nextLine(end) < 0 {
			continue
		}
		f.floor = f.scanBoth(start, end, minShort)
		i = max(i, f.floor)
	}
}

// runEnd returns the end of the foldable characters from i on.
func (f *foldedSearch) runEnd(i int) int {
	for i < len(f.p) && foldable[f.p[i]] {
		i++
	}
	return i
}

func (f *foldedSearch) opensLine(i int) bool { return i == 0 || f.p[i-1] == '\n' }

// nextLine returns the start of the next line if a line ends at i, else -1. Escaped line
// ends within strings count.
func (f *foldedSearch) nextLine(i int) int {
	for _, end := range []string{"\n", "\r\n", `\n`, `\r\n`} {
		if len(f.p)-i >= len(end) && string(f.p[i:i+len(end)]) == end {
			return i + len(end)
		}
	}
	return -1
}

// scanBlock feeds the lines of a text to the automaton, beginning with the given one, and
// returns the end of the last line that is not shorter than shortest. With plus, each line
// begins with a plus sign.
func (f *foldedSearch) scanBlock(start, end, shortest int, plus bool) int {
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
		if end-start < shortest-1 {
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

// continuation returns the part of a line that continues a text. It may follow blanks, a
// number or a file name, and anything may follow the last one.
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
	if end > start { // either may be the continuation
		at, n := f.at, len(f.pieces)
		f.feedPiece(piece{start: start, end: end})
		f.at, f.pieces = at, f.pieces[:n]
	}
	return behind, last
}

// lineEnd returns the end of a line, at most most bytes after its start.
func (f *foldedSearch) lineEnd(line, most int) int {
	most = min(line+most, len(f.p))
	if n := bytes.IndexByte(f.p[line:most], '\n'); n >= 0 {
		return line + n
	}
	return most
}

// feedPiece feeds a piece to the automaton.
func (f *foldedSearch) feedPiece(next piece) {
	if len(f.pieces) == maxPieces {
		f.dropPieces()
	}
	f.pieces = append(f.pieces, next)
	f.at = f.s.find.scan(f.p[:next.end], next.start, f.at, f.addSpans)
}

// dropPieces drops the pieces that no partial match begins in.
func (f *foldedSearch) dropPieces() {
	need, keep := int(f.s.find.nodes[f.at].depth), len(f.pieces)
	for ; keep > 0 && need > 0; keep-- {
		need -= f.pieces[keep-1].end - f.pieces[keep-1].start
	}
	f.pieces = append(f.pieces[:0], f.pieces[keep:]...)
}

// addSpans records a text that ends in the last piece and begins in another one: a span for
// each line.
func (f *foldedSearch) addSpans(start, end int, owner int32) {
	k := len(f.pieces) - 1
	need := f.pieces[k].start - start // characters before the last piece
	if need <= 0 || end-start < minFolded {
		return
	}
	for need > 0 {
		k--
		need -= f.pieces[k].end - f.pieces[k].start
	}
	at, tail := redaction{f.pieces[k].start - need, 0, f.s.names[owner]}, 0
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
