package secret

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"

	"github.com/croft-run/croft/fault"
)

// A Pattern describes one kind of secret.
type Pattern struct {
	Name string // in redaction marks

	// Heads are prefixes of three bytes or more; every such secret begins with one, in any
	// case. Without heads, the literal prefix of Form is used; a Form without one is
	// searched at every position, which is slow.
	Heads []string

	// Form is a regular expression. Its first group that matched is redacted, else the
	// whole match.
	Form string

	// Entropy is the minimum entropy of the redacted text, in bits per byte; examples in
	// documents have less. Zero disables the check.
	Entropy float64

	// MidWord permits a secret to begin within a word.
	MidWord bool

	whole   bool                    // the match ends at the end of a word
	longer  bool                    // the redaction goes on to the end of the word
	accept  func(value []byte) bool // judges the redacted text; nil accepts
	context bool                    // see headFinder
	known   bool                    // of the list of this package: compiled when first used
}

// Patterns finds secrets by form: by patterns, passwords in URLs, private keys in PEM,
// values assigned to names such as DB_PASSWORD or apiKey, and long random texts of certain
// lengths. It is immutable and safe for concurrent use.
type Patterns struct {
	first filter                  // of the first four bytes of each head
	heads map[uint32][]headFinder // by those four bytes, in lower case
	slow  []compiledPattern       // without a head
}

// headFinder checks a position with a head.
type headFinder struct {
	head    string
	context bool // it finds a secret by what is around it; its name is the less exact one
	find    func(p []byte, at int) []Span
}

type compiledPattern struct {
	Pattern
	re func() *regexp.Regexp
}

// NewPatterns returns a finder for patterns, such as Providers and those of the operator.
func NewPatterns(list []Pattern) (*Patterns, error) {
	f := &Patterns{first: filter{fold: foldCase}, heads: map[uint32][]headFinder{}}
	for _, p := range list {
		if p.Name == "" {
			return nil, fmt.Errorf("secret: pattern %q: %w: it has no name", p.Form, fault.InvalidArgument)
		}
		if err := f.addPattern(p); err != nil {
			return nil, err
		}
	}
	for _, c := range contexts {
		for _, head := range c.heads {
			f.add(headFinder{head, true, func(p []byte, at int) []Span { return c.find(p, at, len(head)) }})
		}
	}
	return f, nil
}

func (f *Patterns) addPattern(p Pattern) error {
	// Known patterns are compiled when first used: most never are.
	anchored := compiledPattern{p, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:` + p.Form + `)`) })}
	if !p.known {
		whole, err := regexp.Compile(p.Form)
		if err != nil {
			return fmt.Errorf("secret: pattern %s: %w: %w", p.Name, fault.InvalidArgument, err)
		}
		if head, _ := whole.LiteralPrefix(); len(p.Heads) == 0 && len(head) >= 3 {
			p.Heads = []string{head}
		} else if len(p.Heads) == 0 {
			f.slow = append(f.slow, compiledPattern{p, func() *regexp.Regexp { return whole }})
			return nil
		}
	}
	for _, head := range p.Heads {
		if len(head) < 3 {
			return fmt.Errorf("secret: pattern %s: %w: head %q is shorter than three bytes", p.Name, fault.InvalidArgument, head)
		}
		f.add(headFinder{head, p.context, anchored.matchAt})
	}
	return nil
}

// add adds a head. A head of three bytes is extended by every byte that tokens consist of.
func (f *Patterns) add(hf headFinder) {
	if head := hf.head; len(head) == 3 {
		for _, c := range "abcdefghijklmnopqrstuvwxyz0123456789_-" {
			hf.head = head + string(c)
			f.add(hf)
		}
		return
	}
	f.first.add([]byte(hf.head))
	key := firstFour([]byte(hf.head))
	f.heads[key] = append(f.heads[key], hf)
}

// maxForm bounds the length of a match.
const maxForm = 4 << 10

// Find returns the likely secrets in p.
func (f *Patterns) Find(p []byte) []Span {
	var spans, byContext []Span
	for i := f.first.next(p, 0); i+4 <= len(p); i = f.first.next(p, i+1) {
		for _, hf := range f.heads[firstFour(p[i:])] {
			switch {
			case !hasHead(p[i:], hf.head):
			case hf.context:
				byContext = append(byContext, hf.find(p, i)...)
			default:
				spans = append(spans, hf.find(p, i)...)
			}
		}
	}
	for _, sl := range f.slow {
		for _, m := range sl.re().FindAllSubmatchIndex(p, -1) {
			spans = append(spans, sl.toSpans(p, 0, m)...)
		}
	}
	return slices.Concat(spans, byContext, findRuns(p))
}

// hasHead reports whether p begins with a head, in any case.
func hasHead(p []byte, head string) bool {
	if len(p) < len(head) {
		return false
	}
	for i := range len(head) {
		if p[i]|0x20 != head[i]|0x20 {
			return false
		}
	}
	return true
}

// matchAt matches the form at one position.
func (f compiledPattern) matchAt(p []byte, at int) []Span {
	if !f.MidWord && inWord(p, at) {
		return nil
	}
	m := f.re().FindSubmatchIndex(p[at:min(len(p), at+maxForm)])
	if m == nil {
		return nil
	}
	return f.toSpans(p, at, m)
}

func (f compiledPattern) toSpans(p []byte, at int, m []int) []Span {
	start, end := at+m[0], at+m[1]
	for i := 2; i < len(m); i += 2 {
		if m[i] >= 0 && m[i] < m[i+1] {
			start, end = at+m[i], at+m[i+1]
			break
		}
	}
	if start == end || f.whole && end < len(p) && isWord(p[end]) {
		return nil
	}
	for f.longer && end < len(p) && (isWord(p[end]) || p[end] == '-') {
		end++
	}
	value := p[start:end]
	if entropy(value) < f.Entropy || f.accept != nil && !f.accept(value) || f.known && isExample(value) {
		return nil
	}
	return []Span{{start, end, f.Name}}
}

// inWord reports whether a position is within a word. The end of an escape such as \n is
// not part of a word.
func inWord(p []byte, at int) bool {
	if at == 0 || !isWord(p[at-1]) {
		return false
	}
	return at < 2 || p[at-2] != '\\' || !slices.Contains([]byte("nrt"), p[at-1])
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// entropy returns the Shannon entropy, in bits per byte.
func entropy(p []byte) float64 {
	var count [256]int
	for _, c := range p {
		count[c]++
	}
	sum := 0.0
	for _, n := range count {
		if n > 0 {
			q := float64(n) / float64(len(p))
			sum -= q * math.Log2(q)
		}
	}
	return sum
}

// firstFour returns the first four bytes, in lower case.
func firstFour(p []byte) uint32 { return binary.LittleEndian.Uint32(p) | uint32(foldCase&0xffffffff) }
