package index

import "strings"

// suffixes are removed by stem, the longest first. Words for what does a thing (parser,
// iterator) get the stem of what is done.
var suffixes = []string{"ations", "ation", "ators", "ator", "ating", "ated", "ate", "ions", "ion", "ings", "ing", "ers", "er", "ors", "or", "ed", "ly"}

// Lengths of a stem: of long suffixes, and of all.
const (
	minStem     = 3
	minLongStem = 4
)

// stem returns the common part of the forms of an English word: parse, parses, parsed,
// parsing, parser. It need not be a word.
func stem(word string) string {
	if len(word) <= minStem || strings.Contains(word, "_") {
		return word
	}
	word = singular(word)
	for _, suffix := range suffixes {
		rest, ok := strings.CutSuffix(word, suffix)
		if !ok || len(rest) < minStem || suffix[0] == 'a' && len(rest) < minLongStem || suffix == "ed" && strings.HasSuffix(rest, "e") {
			continue
		}
		word = rest
		if n := len(word); n > minStem && word[n-1] == word[n-2] && strings.IndexByte("bdfglmnprt", word[n-1]) >= 0 {
			word = word[:n-1] // logging, stopped
		}
		break
	}
	if len(word) > minStem {
		word = strings.TrimSuffix(word, "e")
	}
	return word
}

// singular returns the singular of a plural, and other words as they are.
func singular(word string) string {
	switch n := len(word); {
	case strings.HasSuffix(word, "ies") && n > minLongStem:
		return word[:n-3] + "y"
	case strings.HasSuffix(word, "sses"), strings.HasSuffix(word, "xes"), strings.HasSuffix(word, "ches"), strings.HasSuffix(word, "shes"):
		return word[:n-2]
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "us"), strings.HasSuffix(word, "is"):
		return word
	}
	return strings.TrimSuffix(word, "s")
}
