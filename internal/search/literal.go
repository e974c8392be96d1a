package search

import (
	"bytes"
	"regexp/syntax"
	"unicode/utf8"
)

// A literal is a text that every match contains.
type literal struct {
	text  string // in lower case if fold
	fold  bool   // in any case
	whole bool   // the match is exactly this text
}

// maxNeedles is the maximum number of alternatives that are searched for; with
// more, the search costs more than it saves.
const maxNeedles = 8

// requiredLiterals returns literals of which every match of re contains at least
// one; nil if unknown.
func requiredLiterals(re *syntax.Regexp) []literal {
	switch re.Op {
	case syntax.OpLiteral:
		if l, ok := literalOf(re); ok {
			return []literal{l}
		}
	case syntax.OpCapture:
		return requiredLiterals(re.Sub[0])
	case syntax.OpPlus:
		return markPartial(requiredLiterals(re.Sub[0]))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return markPartial(requiredLiterals(re.Sub[0]))
		}
	case syntax.OpConcat:
		var best []literal
		for _, sub := range re.Sub {
			if lits := requiredLiterals(sub); isFasterToFind(lits, best) {
				best = lits
			}
		}
		return markPartial(best)
	case syntax.OpAlternate:
		var all []literal
		for _, sub := range re.Sub {
			lits := requiredLiterals(sub)
			if lits == nil || len(all)+len(lits) > maxNeedles {
				return nil
			}
			all = append(all, lits...)
		}
		return markPartial(all)
	}
	return nil
}

// markPartial marks literals as a part of the match.
func markPartial(lits []literal) []literal {
	for i := range lits {
		lits[i].whole = false
	}
	return lits
}

// isFasterToFind reports whether searching for a is faster than for b: its shortest
// text is longer, or there are fewer.
func isFasterToFind(a, b []literal) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) > 0
	}
	if x, y := shortestLen(a), shortestLen(b); x != y {
		return x > y
	}
	return len(a) < len(b)
}

func shortestLen(lits []literal) int {
	n := len(lits[0].text)
	for _, l := range lits {
		n = min(n, len(l.text))
	}
	return n
}

// literalOf returns the text of a literal, or its longest part that can be searched
// for bytewise.
func literalOf(re *syntax.Regexp) (literal, bool) {
	if re.Flags&syntax.FoldCase != 0 {
		return foldedLiteral(re.Rune)
	}
	for _, r := range re.Rune {
		if r == utf8.RuneError { // it also matches bytes that are not UTF-8
			return literal{}, false
		}
	}
	return literal{text: string(re.Rune), whole: true}, len(re.Rune) > 0
}

// foldedLiteral returns the longest run of characters whose case variants are all
// ASCII. K and S have others: the Kelvin sign and the long s.
func foldedLiteral(runes []rune) (literal, bool) {
	var best, run []byte
	for _, r := range runes {
		if r >= utf8.RuneSelf || r|0x20 == 'k' || r|0x20 == 's' {
			run = nil
			continue
		}
		run = append(run, lower[byte(r)])
		if len(run) > len(best) {
			best = run
		}
	}
	return literal{text: string(best), fold: true, whole: len(best) == len(runes)}, len(best) > 0
}

// lower maps ASCII letters to lower case, and other bytes to themselves.
var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

// common lists bytes by their frequency in text and programs, descending.
const common = " etaoinsrlcdupm\nhgfby.,_()\"w=v-\tk/0;x:1'*2{}>[]<jqz&34#$68597+|!ESTACIRNPODLMFBUGHV"

// rank is the frequency rank of a byte; 0 is the rarest.
var rank = func() (t [256]int) {
	for i := range len(common) {
		t[common[i]] = len(common) - i
	}
	return t
}()

// A needle is a literal prepared for a search by its rarest byte.
type needle struct {
	text   []byte
	fold   bool
	rare   int  // offset of the rarest byte
	lo, up byte // the rarest byte in both cases
}

func newNeedle(text string, fold bool) needle {
	n := needle{text: []byte(text), fold: fold}
	least := 1 << 30
	for i, c := range n.text {
		r := rank[c]
		if fold && upper(c) != c {
			r += rank[upper(c)] + 1
		}
		if r < least {
			least, n.rare = r, i
		}
	}
	n.lo = n.text[n.rare]
	n.up = n.lo
	if fold {
		n.up = upper(n.lo)
	}
	return n
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - ('a' - 'A')
	}
	return c
}

// A cursor iterates over the occurrences of a needle in data.
type cursor struct {
	needle *needle
	data   []byte
	los    int // next offset of needle.lo, plus one; 0 is unknown
	ups    int

	stop func() bool // may be nil; once it returns true there is no next occurrence
	work int         // bytes compared since the last check of stop
}

// shouldStop checks stop after some work.
func (c *cursor) shouldStop() bool {
	if c.work += len(c.needle.text); c.work < 1<<20 {
		return false
	}
	c.work = 0
	return c.stop != nil && c.stop()
}

// nextMatch returns the first occurrence at or after from, or -1. from never
// decreases between two calls.
func (c *cursor) nextMatch(from int) int {
	if c.needle.lo != c.needle.up {
		return c.nextFold(from)
	}
	n := c.needle
	end := len(c.data) - len(n.text) // the last possible offset
	for at, misses := from, 0; at <= end; misses++ {
		i := bytes.IndexByte(c.data[at+n.rare:end+n.rare+1], n.lo)
		if i < 0 {
			return -1
		}
		at += i
		if n.isPrefixOf(c.data[at:]) {
			return at
		}
		if at++; c.shouldStop() {
			return -1
		}
		if !n.fold && misses > 16+(at-from)/16 {
			// The rarest byte is frequent here; bytes.Index is faster.
			if i = bytes.Index(c.data[at:], n.text); i < 0 {
				return -1
			}
			return at + i
		}
	}
	return -1
}

// nextFold searches for both cases of the rarest byte. The offsets of both are
// cached, so that the rarer one is not searched for repeatedly.
func (c *cursor) nextFold(from int) int {
	n := c.needle
	for end := len(c.data) - len(n.text); from <= end; {
		c.los = nextByte(c.data, c.los, from+n.rare, n.lo)
		c.ups = nextByte(c.data, c.ups, from+n.rare, n.up)
		at := min(c.los, c.ups) - 1 - n.rare
		if at > end {
			return -1
		}
		if n.isPrefixOf(c.data[at:]) {
			return at
		}
		if from = at + 1; c.shouldStop() {
			return -1
		}
	}
	return -1
}

// nextByte returns the offset of b at or after from, plus one, or a value beyond
// the end; known is its previous result.
func nextByte(data []byte, known, from int, b byte) int {
	if known > from {
		return known
	}
	i := bytes.IndexByte(data[from:], b)
	if i < 0 {
		return len(data) + 1<<30
	}
	return from + i + 1
}

// isPrefixOf reports whether data begins with the needle.
func (n *needle) isPrefixOf(data []byte) bool {
	if !n.fold {
		return string(data[:len(n.text)]) == string(n.text)
	}
	for i, c := range n.text {
		if lower[data[i]] != c {
			return false
		}
	}
	return true
}
