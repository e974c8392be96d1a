package secret

import (
	"cmp"
	"math/bits"
	"slices"
)

// groups tell for a block of places at once which of many texts may begin there.
// The texts are parted into eight groups. A group knows of each of its first four
// bytes which halves of a byte, the lower and the upper four bits, its texts have
// there. So a place is one of a group where all halves of the next four bytes are
// known to it: two looks into tables of sixteen for each byte, which a processor
// with vectors takes at all places of a block together. (What is known as Teddy,
// of Hyperscan.)
//
// A processor that can look into tables of 128 takes whole bytes instead, of which
// far fewer are known to a group. The uppermost bit does not count there.
type groups struct {
	whole  [4][128]byte // the first byte, the second, ...; a bit for each group
	tables [8][16]byte  // the lower halves of the first byte, the upper ones, those of the second, ...; a bit for each group
}

// How many bytes it takes to ask at the 32 places of a block, and at the 64 of a wide
// one.
const (
	blockReach = 32 + 3
	wideReach  = 64 + 3
)

// wideWorth is the size of a text that is worth wide blocks: a processor takes some
// time to wake its widest registers.
const wideWorth = 32 << 10

// maxChance is how likely a place of an ordinary text may be one of a group, before
// it is quicker to ask otherwise.
const maxChance = 0.15

// newGroups returns the groups of texts, which are the first four bytes of each;
// nil where they would be found everywhere.
func newGroups(texts [][4]byte) *groups {
	var weights [256]int
	for c := range weights {
		weights[c] = weight(byte(c))
	}
	// Those that are most like ordinary texts choose first.
	alone := map[[4]byte]float64{}
	for _, text := range texts {
		var h halves
		h.add(text, &weights)
		alone[text] = h.chance
	}
	slices.SortStableFunc(texts, func(a, b [4]byte) int { return cmp.Compare(alone[b], alone[a]) })
	var sets [8]halves
	g := new(groups)
	total := 0.0
	for _, text := range texts {
		best, least := 0, 2.0
		var grown halves
		for i, s := range sets {
			with := s
			with.add(text, &weights)
			if with.chance-s.chance < least {
				best, least, grown = i, with.chance-s.chance, with
			}
		}
		sets[best] = grown
		for at, c := range text {
			g.whole[at][c&127] |= 1 << best
		}
		total += least
	}
	if total > maxChance {
		return nil
	}
	for i, s := range sets {
		for at := range s.low {
			for half := range 16 {
				g.tables[2*at][half] |= byte(s.low[at]>>half&1) << i
				g.tables[2*at+1][half] |= byte(s.high[at]>>half&1) << i
			}
		}
	}
	return g
}

// halves are those of the first four bytes of the texts of a group, as bits.
type halves struct {
	low, high [4]uint16
	chance    float64 // that four bytes of an ordinary text are made of these
}

func (h *halves) add(text [4]byte, weights *[256]int) {
	h.chance = 1
	for i, c := range text {
		h.low[i] |= 1 << (c & 15)
		h.high[i] |= 1 << (c >> 4)
		h.chance *= share(h.low[i], h.high[i], weights)
	}
}

// share is how much of an ordinary text are bytes that are made of these halves.
func share(low, high uint16, weights *[256]int) float64 {
	sum := 0
	for ; high != 0; high &= high - 1 {
		of := weights[16*bits.TrailingZeros16(high):]
		for down := low; down != 0; down &= down - 1 {
			sum += of[bits.TrailingZeros16(down)]
		}
	}
	return float64(sum) / 1000
}

// weight is how many of a thousand bytes of source code and of what is written
// about it are so, more or less.
func weight(c byte) int {
	const letters = "\x3c\x09\x1e\x16\x55\x0e\x0c\x10\x2f\x02\x06\x20\x12\x35\x2c\x16\x01\x37\x31\x40\x14\x07\x06\x06\x09\x01" // of a to z
	switch {
	case c == ' ':
		return 140
	case c == '\n' || c == '\t':
		return 30
	case c >= 'a' && c <= 'z':
		return int(letters[c-'a'])
	case c >= 0x80 || c < ' ':
		return 0
	}
	return 4
}
