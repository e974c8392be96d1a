package index

import (
	"path"
	"strings"
)

// Factors of a score.
const (
	testFactor   = 0.5  // declarations of tests and examples, unless the query asks for tests
	valueFactor  = 0.7  // constants, variables, macros and prototypes
	commonFactor = 0.25 // words of a query such as where, is and not
	shortFactor  = 0.4  // terms that abbreviate a word of the query, as dict does dictionary
)

// minShort is the least length of an abbreviation.
const minShort = 3

// commonWords say little in a query. Names have them too: is_empty, from_string.
var commonWords = wordSet(`about all any are as at be been but by can could did do does each every from get has have how i if into its me my no not
	on our out should so some such than that their them then there these they those under up use used using was we were what when whenever where whether which
	while who why will without would you your`)

// queryTerms returns the terms that a query asks for with their weights, and whether it
// asks for tests.
func (s *store) queryTerms(query string) (terms map[uint32]float64, tests bool) {
	terms = map[uint32]float64{}
	ask := func(term string, weight float64) {
		if n, ok := s.ids[term]; ok {
			terms[n] = max(terms[n], weight)
		}
	}
	var buf []byte
	eachTerm(query, &buf, func(t []byte) {
		word := string(t)
		term := stem(word)
		if stopwords[word] || stopwords[term] {
			return
		}
		tests = tests || term == "test"
		if commonWords[word] {
			ask(term, commonFactor)
			return
		}
		ask(term, 1)
		for n := minShort; n < len(term); n++ {
			ask(term[:n], shortFactor)
		}
	})
	return terms, tests
}

// A rank says what a unit's scores are multiplied by.
type rank struct{ test, value bool }

func rankOf(u Unit) rank {
	return rank{isTest(u), u.Kind == "const" || u.Kind == "var" || u.Kind == "macro" || u.Kind == "prototype"}
}

// factor returns the factor for a query that asks for tests, or not.
func (r rank) factor(tests bool) float64 {
	f := 1.0
	if r.test && !tests {
		f = testFactor
	}
	if r.value {
		f *= valueFactor
	}
	return f
}

var testDirs = wordSet("test tests __tests__ testdata testing spec specs example examples _examples")

// isTest reports whether a declaration is one of a test or an example, by the conventions
// for names of files, and of modules in Rust.
func isTest(u Unit) bool {
	dir, base := path.Split(u.Path)
	for part := range strings.SplitSeq(dir, "/") {
		if testDirs[part] {
			return true
		}
	}
	name := strings.TrimSuffix(base, path.Ext(base))
	for _, end := range []string{"_test", ".test", "_spec", ".spec", "Test", "Tests"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return strings.HasPrefix(name, "test_") || name == "conftest" || strings.HasPrefix(u.Symbol, "tests.") && strings.HasSuffix(base, ".rs")
}
