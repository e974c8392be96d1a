// Package nested looks at text in YAML before a parser does. A parser of YAML takes
// memory and time that grow with the square of how deeply a text is nested, so that
// less than a megabyte from somebody else's repository could take a whole machine.
package nested

import "strings"

// Most is how deeply a text may be nested that a person wrote, whatever is quoted in
// it: brackets are counted without a look at what they stand in.
const Most = 2000

// TooDeep returns the first line at which a text is nested more than Most deep, or 0.
func TooDeep(text string) (line int) {
	depth, n := 0, 0
	for l := range strings.Lines(text) {
		n++
		indent := len(l) - len(strings.TrimLeft(l, " "))
		for i := range len(l) {
			switch l[i] {
			case '[', '{':
				if depth++; depth > Most {
					return n
				}
			case ']', '}':
				depth = max(0, depth-1)
			}
		}
		if indent > Most || strings.Count(l, "- ") > Most || strings.Count(l, "? ") > Most {
			return n
		}
	}
	return 0
}
