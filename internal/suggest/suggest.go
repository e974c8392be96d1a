// Package suggest finds the word that somebody may have meant. Who mistypes a name
// is told so, instead of being sent to look for it.
package suggest

// mostTypos is how many letters may be wrong, missing or too many, and half of them
// in a short word.
const mostTypos = 2

// Word returns the one of known that is nearest to word, "" if none is near.
func Word(word string, known []string) string {
	best, found := min(mostTypos, len(word)/2)+1, ""
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

// Hint is what to say of it, "" if none is near: "; did you mean web?"
func Hint(word string, known []string) string {
	if k := Word(word, known); k != "" {
		return "; did you mean " + k + "?"
	}
	return ""
}

// distance is how many letters have to be put in, left out, exchanged or swapped
// with their neighbour to make b from a; most where it is that or more.
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
