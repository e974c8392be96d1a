package secret

import "encoding/binary"

// hashFour maps a word of four bytes to 16 bits.
func hashFour(w uint32) uint32 { return w * 0x9e3779b1 >> 16 }

// A filter is a Bloom-like filter for positions at which one of many texts may begin: the
// next four bytes are, but for collisions, the first four of a text. It tests only every
// second position with three-byte hashes, which is faster, and then checks candidates
// exactly.
type filter struct {
	fold  uint64       // foldCase to ignore case, else 0
	four  [1024]uint64 // a bit for the hash of the first four bytes of each text
	three [1024]uint64 // a bit for the hashes of three of these
}

// foldCase sets the bit that upper-case letters lack. It changes some other characters, too,
// such as the underscore.
const foldCase = 0x20 * eachByte

// add adds a text of four bytes or more.
func (f *filter) add(text []byte) {
	set := func(table *[1024]uint64, h uint32) { table[h>>6] |= 1 << (h & 63) }
	w := binary.LittleEndian.Uint32(text) | uint32(f.fold)
	set(&f.four, hashFour(w))
	set(&f.three, hashThree(w))
	set(&f.three, hashThree(w>>8))
}

// hashThree maps the three low bytes of a word to 16 bits.
func hashThree(w uint32) uint32 { return w << 8 * 0x9e3779b1 >> 16 }

// next returns the first index from i on at which a text may begin, or the first index less
// than four bytes before the end.
func (f *filter) next(p []byte, i int) int {
	from := i
	for ; i+8 <= len(p); i += 6 {
		w := binary.LittleEndian.Uint64(p[i:]) | f.fold
		// The hashes of three bytes at i, i+2 and i+4, as hashThree has them.
		a, b, c := uint32(w<<8)*0x9e3779b1, (uint32(w>>8)&^0xff)*0x9e3779b1, (uint32(w>>24)&^0xff)*0x9e3779b1
		if f.three[a>>22]>>(a>>16&63)&1|f.three[b>>22]>>(b>>16&63)&1|f.three[c>>22]>>(c>>16&63)&1 == 0 {
			continue
		}
		if at := f.findExact(p, max(i-1, from), i+5); at >= 0 {
			return at
		}
	}
	i = max(i-1, from)
	if at := f.findExact(p, i, len(p)-3); at >= 0 {
		return at
	}
	return max(i, len(p)-3)
}

// findExact returns the first index from i on, and before end, at which a text may begin,
// or -1.
func (f *filter) findExact(p []byte, i, end int) int {
	for ; i < end; i++ {
		if h := hashFour(binary.LittleEndian.Uint32(p[i:]) | uint32(f.fold)); f.four[h>>6]&(1<<(h&63)) != 0 {
			return i
		}
	}
	return -1
}
