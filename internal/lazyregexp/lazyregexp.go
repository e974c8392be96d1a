// Package lazyregexp has regular expressions that are compiled at their first use, so that
// package variables cost a program nothing that it does not use. Go's own package of this
// name is not for other modules.
package lazyregexp

import (
	"regexp"
	"sync"
)

// A Regexp is a regexp.Regexp that is compiled at its first use.
type Regexp struct{ compile func() *regexp.Regexp }

// New returns a Regexp. An expression that can't be compiled panics at its first use.
func New(expr string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// Match is that of regexp.Regexp.
func (r *Regexp) Match(p []byte) bool { return r.compile().Match(p) }

// MatchString is that of regexp.Regexp.
func (r *Regexp) MatchString(s string) bool { return r.compile().MatchString(s) }

// FindIndex is that of regexp.Regexp.
func (r *Regexp) FindIndex(p []byte) []int { return r.compile().FindIndex(p) }

// FindString is that of regexp.Regexp.
func (r *Regexp) FindString(s string) string { return r.compile().FindString(s) }

// FindSubmatch is that of regexp.Regexp.
func (r *Regexp) FindSubmatch(p []byte) [][]byte { return r.compile().FindSubmatch(p) }

// FindSubmatchIndex is that of regexp.Regexp.
func (r *Regexp) FindSubmatchIndex(p []byte) []int { return r.compile().FindSubmatchIndex(p) }

// FindStringSubmatch is that of regexp.Regexp.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compile().FindStringSubmatch(s) }

// FindStringSubmatchIndex is that of regexp.Regexp.
func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compile().FindStringSubmatchIndex(s)
}

// FindAllStringSubmatch is that of regexp.Regexp.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compile().FindAllStringSubmatch(s, n)
}

// FindAllStringSubmatchIndex is that of regexp.Regexp.
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compile().FindAllStringSubmatchIndex(s, n)
}

// FindAllSubmatchIndex is that of regexp.Regexp.
func (r *Regexp) FindAllSubmatchIndex(p []byte, n int) [][]int {
	return r.compile().FindAllSubmatchIndex(p, n)
}

// ReplaceAll is that of regexp.Regexp.
func (r *Regexp) ReplaceAll(src, repl []byte) []byte { return r.compile().ReplaceAll(src, repl) }

// ReplaceAllString is that of regexp.Regexp.
func (r *Regexp) ReplaceAllString(src, repl string) string {
	return r.compile().ReplaceAllString(src, repl)
}

// ReplaceAllStringFunc is that of regexp.Regexp.
func (r *Regexp) ReplaceAllStringFunc(src string, repl func(string) string) string {
	return r.compile().ReplaceAllStringFunc(src, repl)
}

// SubexpNames is that of regexp.Regexp.
func (r *Regexp) SubexpNames() []string { return r.compile().SubexpNames() }

// Split is that of regexp.Regexp.
func (r *Regexp) Split(s string, n int) []string { return r.compile().Split(s, n) }

// FindStringIndex is that of regexp.Regexp.
func (r *Regexp) FindStringIndex(s string) []int { return r.compile().FindStringIndex(s) }

// FindAllStringIndex is that of regexp.Regexp.
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compile().FindAllStringIndex(s, n)
}

// FindAllSubmatch is that of regexp.Regexp.
func (r *Regexp) FindAllSubmatch(p []byte, n int) [][][]byte {
	return r.compile().FindAllSubmatch(p, n)
}
