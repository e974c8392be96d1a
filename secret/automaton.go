package secret

import "encoding/binary"

// An automaton finds many texts in one pass (Aho and Corasick). Its nodes are
// the prefixes of the texts. The transitions are not spelt out, because most
// nodes have one child and a long secret has thousands of nodes; instead the
// bytes at which nothing can begin are skipped by a hash of the next four.
type automaton struct {
	nodes []node
	root  [256]int32 // the children of node 0
	heads filter
}

type node struct {
	child, sibling int32 // 0 is none
	fail           int32 // the node of the longest proper suffix
	depth          int32
	length         int32 // of the longest text that ends here, 0 if none does
	who            int32 // whose text that is
	b              byte
}

// add enters a text of at least MinLength bytes. The first owner of a text keeps it.
func (a *automaton) add(text string, who int) {
	if len(a.nodes) == 0 {
		a.nodes = make([]node, 1, 1024)
	}
	a.heads.add([]byte(text[:MinLength]))
	at := int32(0)
	for i := range len(text) {
		next := a.childOf(at, text[i])
		if next == 0 {
			next = int32(len(a.nodes))
			a.nodes = append(a.nodes, node{sibling: a.nodes[at].child, depth: int32(i + 1), b: text[i]})
			a.nodes[at].child = next
			if at == 0 {
				a.root[text[i]] = next
			}
		}
		at = next
	}
	if a.nodes[at].length == 0 {
		a.nodes[at].length, a.nodes[at].who = int32(len(text)), int32(who)
	}
}

// link sets the fail links, breadth first, once all texts are in.
func (a *automaton) link() {
	if len(a.nodes) == 0 {
		return
	}
	queue := make([]int32, 0, len(a.nodes))
	for c := a.nodes[0].child; c != 0; c = a.nodes[c].sibling {
		queue = append(queue, c)
	}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		for c := a.nodes[at].child; c != 0; c = a.nodes[c].sibling {
			f := a.next(a.nodes[at].fail, a.nodes[c].b)
			a.nodes[c].fail = f
			if a.nodes[c].length == 0 {
				a.nodes[c].length, a.nodes[c].who = a.nodes[f].length, a.nodes[f].who
			}
			queue = append(queue, c)
		}
	}
}

func (a *automaton) childOf(at int32, b byte) int32 {
	if at == 0 {
		return a.root[b]
	}
	for c := a.nodes[at].child; c != 0; c = a.nodes[c].sibling {
		if a.nodes[c].b == b {
			return c
		}
	}
	return 0
}

func (a *automaton) next(at int32, b byte) int32 {
	for at != 0 {
		if c := a.childOf(at, b); c != 0 {
			return c
		}
		at = a.nodes[at].fail
	}
	return a.root[b]
}

// scan reads p from index i in state at, tells found of every text that ends
// there, and returns the state at the end of p.
func (a *automaton) scan(p []byte, i int, at int32, found func(start, end int, who int32)) int32 {
	if len(a.nodes) == 0 {
		return 0
	}
	for i < len(p) {
		if at == 0 {
			if i = a.skip(p, i); i == len(p) {
				return 0
			}
		}
		at = a.next(at, p[i])
		i++
		if n := &a.nodes[at]; n.length > 0 {
			found(i-int(n.length), i, n.who)
		}
	}
	return at
}

// hash maps four bytes to 16 bits.
func hash(p []byte) uint32 { return binary.LittleEndian.Uint32(p) * 0x9e3779b1 >> 16 }

// A filter finds the places at which one of many texts may begin: those whose
// next four bytes are, but for collisions, the first four of a text. It asks at
// every second place for the first three of these bytes or the last three, which
// is quicker than to ask everywhere, and then looks closer.
type filter struct {
	four  [1024]uint64 // a bit for the hash of the first four bytes of each text
	three [1024]uint64 // a bit for the hashes of three of these
}

// add enters a text of four bytes or more.
func (f *filter) add(text []byte) {
	set := func(table *[1024]uint64, h uint32) { table[h>>6] |= 1 << (h & 63) }
	set(&f.four, hash(text))
	w := binary.LittleEndian.Uint32(text)
	set(&f.three, hashThree(w))
	set(&f.three, hashThree(w>>8))
}

// hashThree maps the three low bytes of a word to 16 bits.
func hashThree(w uint32) uint32 { return w << 8 * 0x9e3779b1 >> 16 }

// next returns the first index from i on at which a text may begin, or the first
// that is closer than four bytes to the end.
func (f *filter) next(p []byte, i int) int {
	from := i
	for ; i+8 <= len(p); i += 6 {
		w := binary.LittleEndian.Uint64(p[i:])
		// The hashes of three bytes at i, i+2 and i+4, as hashThree has them.
		a, b, c := uint32(w<<8)*0x9e3779b1, (uint32(w>>8)&^0xff)*0x9e3779b1, (uint32(w>>24)&^0xff)*0x9e3779b1
		if f.three[a>>22]>>(a>>16&63)&1|f.three[b>>22]>>(b>>16&63)&1|f.three[c>>22]>>(c>>16&63)&1 == 0 {
			continue
		}
		if at := f.closer(p, max(i-1, from), i+5); at >= 0 {
			return at
		}
	}
	i = max(i-1, from)
	if at := f.closer(p, i, len(p)-3); at >= 0 {
		return at
	}
	return max(i, len(p)-3)
}

// closer returns the first index from i on, and before end, at which a text may
// begin, or -1.
func (f *filter) closer(p []byte, i, end int) int {
	for ; i < end; i++ {
		if h := hash(p[i:]); f.four[h>>6]&(1<<(h&63)) != 0 {
			return i
		}
	}
	return -1
}

// skip returns the first index from i on at which a text may begin.
func (a *automaton) skip(p []byte, i int) int {
	if i = a.heads.next(p, i); i+MinLength <= len(p) {
		return i
	}
	for i < len(p) && a.root[p[i]] == 0 {
		i++
	}
	return i
}
