package index

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"strings"
)

// A Unit is one declaration.
type Unit struct {
	Path      string `json:"path"`
	Line      int    `json:"line"` // 1-based
	Symbol    string `json:"symbol"`
	Kind      string `json:"kind"` // func, method, type, class, ...
	Signature string `json:"signature"`
	Doc       string `json:"doc,omitempty"`
}

// BM25's constants, and the weight of a word in the name relative to one in the names of
// what encloses the declaration, the signature, comment or path.
const (
	k1         = 1.5
	b          = 0.75
	nameWeight = 3
)

// A posting counts a term in a unit.
type posting struct {
	unitID uint32
	count  uint16
}

// A store is the inverted index. Units of changed files stay as dead entries until there
// are enough to compact.
type store struct {
	ids   map[string]uint32 // term -> index of lists
	lists [][]posting       // in order of units
	live  []uint32          // per term: units that are not dead
	units []Unit
	sizes []uint16            // per unit: terms, counted with their weight; 0 is dead
	ranks []rank              // per unit
	files map[string][]uint32 // units by file
	dead  int
	total int // sum of the sizes of live units

	generation int // incremented when term numbers change
}

func newStore() *store {
	return &store{ids: map[string]uint32{}, files: map[string][]uint32{}, generation: 1}
}

// A counted unit has the terms of a unit, counted by a worker without the lock. The terms
// are valid until the counter is reset.
type counted struct {
	Unit
	terms []termCount
	size  uint16
}

type termCount struct {
	term  uint32 // of the counter
	count uint16
}

// A counter counts the terms of units for one worker. It has its own term numbers; they are
// mapped to those of a store when units are added.
type counter struct {
	buf        []byte
	words      map[string]uint32 // word -> term
	ids        map[string]uint32 // stem -> term
	names      []string
	stop       []bool
	unitSerial uint32   // serial number of the present unit
	seen       []uint32 // per term: the last unit that has it
	slabIndex  []int    // and its index in slab
	slab       []termCount
	global     []uint32 // per term: number in the store, +1; 0 is not known
	generation int      // of the store that global is valid for
}

func newCounter() *counter {
	return &counter{words: map[string]uint32{}, ids: map[string]uint32{}, unitSerial: 1}
}

// reset frees the term lists of counted units.
func (c *counter) reset() { c.slab = c.slab[:0] }

func (c *counter) termID(term []byte) uint32 {
	if id, ok := c.words[string(term)]; ok {
		return id
	}
	word := string(term)
	name := stem(word)
	id, ok := c.ids[name]
	if !ok {
		id = uint32(len(c.names))
		c.ids[name] = id
	}
	c.words[word] = id
	if ok {
		return id
	}
	c.names, c.stop = append(c.names, name), append(c.stop, stopwords[name])
	c.seen, c.slabIndex, c.global = append(c.seen, 0), append(c.slabIndex, 0), append(c.global, 0)
	return id
}

func (c *counter) countTerms(u Unit) counted {
	start, size := len(c.slab), 0
	c.unitSerial++
	var weight uint16
	emit := func(t []byte) {
		id := c.termID(t)
		switch {
		case c.stop[id]:
			return
		case c.seen[id] != c.unitSerial:
			c.seen[id], c.slabIndex[id] = c.unitSerial, len(c.slab)
			c.slab = append(c.slab, termCount{id, weight})
		case c.slab[c.slabIndex[id]].count < math.MaxUint16-weight:
			c.slab[c.slabIndex[id]].count += weight
		}
		size += int(weight)
	}
	name := strings.LastIndexByte(u.Symbol, '.') + 1
	weight = nameWeight
	eachTerm(u.Symbol[name:], &c.buf, emit)
	weight = 1
	eachTerm(u.Symbol[:name], &c.buf, emit)
	eachTerm(u.Signature, &c.buf, emit)
	eachTerm(u.Doc, &c.buf, emit)
	eachTerm(u.Path, &c.buf, emit)
	return counted{Unit: u, size: uint16(min(size, math.MaxUint16)), terms: c.slab[start:len(c.slab):len(c.slab)]}
}

// termID returns the store's number of a counter's term.
func (s *store) termID(c *counter, id uint32) uint32 {
	if c.generation != s.generation {
		clear(c.global)
		c.generation = s.generation
	}
	if n := c.global[id]; n > 0 {
		return n - 1
	}
	n, ok := s.ids[c.names[id]]
	if !ok {
		n = uint32(len(s.lists))
		s.ids[c.names[id]] = n
		s.lists = append(s.lists, nil)
		s.live = append(s.live, 0)
	}
	c.global[id] = n + 1
	return n
}

// add replaces the units of a file.
func (s *store) add(path string, units []counted, c *counter) {
	s.remove(path)
	ids := make([]uint32, 0, len(units))
	for i := range units {
		u := &units[i]
		if u.size == 0 || len(s.units) >= MaxUnits {
			continue
		}
		id := uint32(len(s.units))
		s.units = append(s.units, u.Unit)
		s.sizes = append(s.sizes, u.size)
		s.ranks = append(s.ranks, rankOf(u.Unit))
		s.total += int(u.size)
		ids = append(ids, id)
		for _, t := range u.terms {
			n := s.termID(c, t.term)
			s.lists[n] = append(s.lists[n], posting{id, t.count})
			s.live[n]++
		}
	}
	s.files[path] = ids
}

// remove removes the units of a file.
func (s *store) remove(path string) {
	ids := s.files[path]
	delete(s.files, path)
	if len(ids) == 0 {
		return
	}
	c := newCounter()
	for _, id := range ids {
		for _, t := range c.countTerms(s.units[id]).terms {
			s.live[s.termID(c, t.term)]--
		}
		s.total -= int(s.sizes[id])
		s.sizes[id], s.units[id] = 0, Unit{}
		s.dead++
	}
	if s.dead > 1000 && s.dead > len(s.units)/2 {
		s.compact()
	}
}

// compact drops dead units and unused terms.
func (s *store) compact() {
	moved := make([]uint32, len(s.units))
	var units []Unit
	var sizes []uint16
	var ranks []rank
	for id, size := range s.sizes {
		if size > 0 {
			moved[id] = uint32(len(units))
			units, sizes, ranks = append(units, s.units[id]), append(sizes, size), append(ranks, s.ranks[id])
		}
	}
	ids, lists, live := map[string]uint32{}, [][]posting(nil), []uint32(nil)
	for term, n := range s.ids {
		if s.live[n] == 0 {
			continue
		}
		list := make([]posting, 0, s.live[n])
		for _, p := range s.lists[n] {
			if s.sizes[p.unitID] > 0 {
				list = append(list, posting{moved[p.unitID], p.count})
			}
		}
		ids[term] = uint32(len(lists))
		lists, live = append(lists, list), append(live, s.live[n])
	}
	for path, old := range s.files {
		for i, id := range old {
			s.files[path][i] = moved[id]
		}
	}
	s.ids, s.lists, s.live, s.units, s.sizes, s.ranks, s.dead = ids, lists, live, units, sizes, ranks, 0
	s.generation++
}

// A Hit is a unit found by a query.
type Hit struct {
	Unit
	Score float64 `json:"score"`
}

// search returns the best units for a query.
func (s *store) search(query string, limit int) []Hit {
	alive := len(s.units) - s.dead
	if alive == 0 {
		return nil
	}
	average := float64(s.total) / float64(alive)
	scores := make([]float32, len(s.units))
	terms, tests := s.queryTerms(query)
	for n, weight := range terms {
		have := float64(s.live[n])
		idf := weight * math.Log(1+(float64(alive)-have+0.5)/(have+0.5))
		for _, p := range s.lists[n] {
			if size := s.sizes[p.unitID]; size > 0 {
				tf := float64(p.count)
				scores[p.unitID] += float32(s.ranks[p.unitID].factor(tests) * idf * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(size)/average)))
			}
		}
	}
	return s.topHits(scores, limit)
}

// topHits returns the units with the highest scores; equal scores are ordered by path and
// line.
func (s *store) topHits(scores []float32, limit int) []Hit {
	top := &ranking{store: s, scores: scores}
	for id, score := range scores {
		if score <= 0 {
			continue
		}
		if len(top.ids) < limit {
			heap.Push(top, uint32(id))
		} else if top.isWorse(top.ids[0], uint32(id)) {
			top.ids[0] = uint32(id)
			heap.Fix(top, 0)
		}
	}
	slices.SortFunc(top.ids, func(a, b uint32) int {
		if top.isWorse(b, a) {
			return -1
		}
		return 1
	})
	hits := make([]Hit, len(top.ids))
	for i, id := range top.ids {
		hits[i] = Hit{s.units[id], float64(scores[id])}
	}
	return hits
}

// A ranking is a heap of units, the worst first.
type ranking struct {
	store  *store
	scores []float32
	ids    []uint32
}

func (r *ranking) isWorse(a, b uint32) bool {
	if c := cmp.Compare(r.scores[a], r.scores[b]); c != 0 {
		return c < 0
	}
	x, y := &r.store.units[a], &r.store.units[b]
	if c := cmp.Compare(x.Path, y.Path); c != 0 {
		return c > 0
	}
	return x.Line > y.Line
}

func (r *ranking) Len() int           { return len(r.ids) }
func (r *ranking) Less(i, j int) bool { return r.isWorse(r.ids[i], r.ids[j]) }
func (r *ranking) Swap(i, j int)      { r.ids[i], r.ids[j] = r.ids[j], r.ids[i] }
func (r *ranking) Push(x any)         { r.ids = append(r.ids, x.(uint32)) }
func (r *ranking) Pop() any {
	last := r.ids[len(r.ids)-1]
	r.ids = r.ids[:len(r.ids)-1]
	return last
}
