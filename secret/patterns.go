package secret

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/croft-run/croft/fault"
)

// A Pattern describes one kind of secret.
type Pattern struct {
	Name string // in redaction marks

	// Heads are prefixes of three bytes or more; every such secret begins with one. Without
	// heads, the literal prefix of Form is used; a Form without one is searched at every
	// position, which is slow.
	Heads []string

	// Form is a regular expression. Its first group is redacted, else the whole match.
	Form string

	// Entropy is the minimum entropy of the redacted text, in bits per byte; examples in
	// documents have less. Zero disables the check.
	Entropy float64

	// MidWord permits a secret to begin within a word.
	MidWord bool
}

// Patterns finds secrets by form: by patterns, passwords in URLs, private keys in PEM, and
// values assigned to variables such as DB_PASSWORD or AWS_SECRET_ACCESS_KEY. It is
// immutable and safe for concurrent use.
type Patterns struct {
	first filter                  // of the first four bytes of each head
	heads map[uint32][]headFinder // by those four bytes
	slow  []compiledPattern       // without a head
}

// headFinder checks a position with a head.
type headFinder struct {
	head string
	find func(p []byte, at int) []Span
}

type compiledPattern struct {
	Pattern
	re *regexp.Regexp
}

// NewPatterns returns a finder for patterns, such as Providers and those of the operator.
func NewPatterns(list []Pattern) (*Patterns, error) {
	f := &Patterns{heads: map[uint32][]headFinder{}}
	for _, p := range list {
		if p.Name == "" {
			return nil, fmt.Errorf("secret: pattern %q: %w: it has no name", p.Form, fault.InvalidArgument)
		}
		if err := f.addPattern(p); err != nil {
			return nil, err
		}
	}
	for _, head := range []string{"5://", "b://", "d://", "e://", "h://", "j://", "l://", "p://", "s://", "t://", "v://"} {
		f.add(head, urlPassword)
	}
	f.add("BEGIN ", privateKey)
	for _, word := range secretWords {
		f.add(word, func(p []byte, at int) []Span { return assignedValue(p, at, len(word)) })
	}
	return f, nil
}

func (f *Patterns) addPattern(p Pattern) error {
	whole, err := regexp.Compile(p.Form)
	if err != nil {
		return fmt.Errorf("secret: pattern %s: %w: %w", p.Name, fault.InvalidArgument, err)
	}
	if len(p.Heads) == 0 {
		if head, _ := whole.LiteralPrefix(); len(head) >= 3 {
			p.Heads = []string{head}
		} else {
			f.slow = append(f.slow, compiledPattern{p, whole})
			return nil
		}
	}
	anchored := compiledPattern{p, regexp.MustCompile(`^(?:` + p.Form + `)`)} // compiles, since Form does
	for _, head := range p.Heads {
		if len(head) < 3 {
			return fmt.Errorf("secret: pattern %s: %w: head %q is shorter than three bytes", p.Name, fault.InvalidArgument, head)
		}
		f.add(head, anchored.matchAt)
	}
	return nil
}

// add adds a head. A head of three bytes is extended by every byte that tokens consist of.
func (f *Patterns) add(head string, find func(p []byte, at int) []Span) {
	if len(head) == 3 {
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-" {
			f.add(head+string(c), find)
		}
		return
	}
	f.first.add([]byte(head))
	key := firstFour([]byte(head))
	f.heads[key] = append(f.heads[key], headFinder{head, find})
}

// maxForm bounds the length of a match.
const maxForm = 4 << 10

// Find returns the likely secrets in p.
func (f *Patterns) Find(p []byte) []Span {
	var spans []Span
	for i := f.first.next(p, 0); i+4 <= len(p); i = f.first.next(p, i+1) {
		for _, hf := range f.heads[firstFour(p[i:])] {
			if bytes.HasPrefix(p[i:], []byte(hf.head)) {
				spans = append(spans, hf.find(p, i)...)
			}
		}
	}
	for _, sl := range f.slow {
		for _, m := range sl.re.FindAllSubmatchIndex(p, -1) {
			spans = append(spans, sl.toSpans(p, 0, m)...)
		}
	}
	return spans
}

// matchAt matches the form at one position.
func (f compiledPattern) matchAt(p []byte, at int) []Span {
	if !f.MidWord && inWord(p, at) {
		return nil
	}
	m := f.re.FindSubmatchIndex(p[at:min(len(p), at+maxForm)])
	if m == nil {
		return nil
	}
	return f.toSpans(p, at, m)
}

func (f compiledPattern) toSpans(p []byte, at int, m []int) []Span {
	start, end := m[0], m[1]
	if len(m) > 2 && m[2] >= 0 {
		start, end = m[2], m[3]
	}
	if start == end || entropy(p[at+start:at+end]) < f.Entropy {
		return nil
	}
	return []Span{{at + start, at + end, f.Name}}
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

func firstFour(p []byte) uint32 {
	return uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
}
