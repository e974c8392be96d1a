package secret

// An automaton is an Aho-Corasick automaton: it finds many texts in one pass. Its nodes are
// the prefixes of the texts. Transitions are not stored as tables, because most nodes have
// one child and a long secret has thousands of nodes; instead a hash of the next four bytes
// skips positions at which no text begins.
type automaton struct {
	nodes []trieNode
	root  [256]int32 // the children of node 0
	heads filter
}

type trieNode struct {
	child, sibling int32 // 0 if absent
	fail           int32 // the node of the longest proper suffix
	depth          int32
	length         int32 // of the longest text that ends here, 0 if none does
	owner          int32 // index of the secret
	b              byte
}

// add adds a text of at least MinLength bytes. The first owner of a text is kept.
func (a *automaton) add(text string, owner int) {
	if len(a.nodes) == 0 {
		a.nodes = make([]trieNode, 1, 1024)
	}
	a.heads.add([]byte(text[:MinLength]))
	at := int32(0)
	for i := range len(text) {
		next := a.childOf(at, text[i])
		if next == 0 {
			next = int32(len(a.nodes))
			a.nodes = append(a.nodes, trieNode{sibling: a.nodes[at].child, depth: int32(i + 1), b: text[i]})
			a.nodes[at].child = next
			if at == 0 {
				a.root[text[i]] = next
			}
		}
		at = next
	}
	if a.nodes[at].length == 0 {
		a.nodes[at].length, a.nodes[at].owner = int32(len(text)), int32(owner)
	}
}

// setFailLinks sets the fail links, breadth first, after all texts were added.
func (a *automaton) setFailLinks() {
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
				a.nodes[c].length, a.nodes[c].owner = a.nodes[f].length, a.nodes[f].owner
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

// scan processes p from index i in state at, calls found for every text that ends there,
// and returns the final state.
func (a *automaton) scan(p []byte, i int, at int32, found func(start, end int, owner int32)) int32 {
	if len(a.nodes) == 0 {
		return 0
	}
	for i < len(p) {
		if at == 0 {
			if i = a.nextCandidate(p, i); i == len(p) {
				return 0
			}
		}
		at = a.next(at, p[i])
		i++
		if n := &a.nodes[at]; n.length > 0 {
			found(i-int(n.length), i, n.owner)
		}
	}
	return at
}

// nextCandidate returns the first index from i on at which a text may begin.
func (a *automaton) nextCandidate(p []byte, i int) int {
	if i = a.heads.next(p, i); i+MinLength <= len(p) {
		return i
	}
	for i < len(p) && a.root[p[i]] == 0 {
		i++
	}
	return i
}
