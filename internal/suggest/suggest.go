// Package suggest finds the known word nearest to a misspelt one, for "did you mean".
package suggest

// mostTypos is the maximum edit distance; in a word of fewer than six letters it is 1, so that
// another word, such as info for undo, is not taken for a misspelt one.
const mostTypos = 2

// Word returns the known word nearest to word, "" if none is near.
func Word(word string, known []string) string {
	typos := min(mostTypos, len(word)/2)
	if len(word) < 6 {
		typos = min(typos, 1)
	}
	best, found := typos+1, ""
	for _, k := range known {
		if k == word {
			continue
		}
		if d := distance(word, k, best); d < best {
			best, found = d, k
		}
	}
	return found
}

// Hint is the suggestion for an error text, "; did you mean web?", or "" if none is near.
func Hint(word string, known []string) string {
	if k := Word(word, known); k != "" {
		return "; did you mean " + k + "?"
	}
	return ""
}

// distance is the Damerau-Levenshtein distance (optimal string alignment) of a and b, at
// most most.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], most)
}
