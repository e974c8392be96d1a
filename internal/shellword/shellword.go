// Package shellword quotes words for a POSIX shell.
package shellword

import "strings"

// Quote quotes a word.
func Quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// QuoteUnsafe quotes a word, unless it consists of letters, digits and the safe characters, which
// also people read better without quotation marks.
func QuoteUnsafe(word, safe string) string {
	isUnsafe := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(safe, r)
	}
	if word != "" && !strings.ContainsFunc(word, isUnsafe) {
		return word
	}
	return Quote(word)
}
