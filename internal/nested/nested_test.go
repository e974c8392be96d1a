package nested

import (
	"strings"
	"testing"
)

func TestTooDeep(t *testing.T) {
	steps := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.Repeat(" ", i) + "-\n")
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"empty":                 {"", 0},
		"a file":                {"version: 1\nfiles:\n - target: a\n   content: \"{[\"\n", 0},
		"a long list":           {strings.Repeat("- {a: [1]}\n", 100_000), 0},
		"brackets":              {"a: 1\nfiles: " + strings.Repeat("[", 900_000), 2},
		"brackets of two kinds": {strings.Repeat("{[", Most/2) + "[", 1},
		"as deep as may be":     {strings.Repeat("[", Most), 0},
		"brackets over lines":   {strings.Repeat("[\n", Most+1), Most + 1},
		"dashes":                {strings.Repeat("- ", Most+1), 1},
		"keys":                  {strings.Repeat("? ", Most+1), 1},
		"steps":                 {steps(Most + 10), Most + 2},
		"more ends than begins": {strings.Repeat("]", 5000) + "[", 0},
	} {
		if got := TooDeep(tt.text); got != tt.want {
			t.Errorf("%s: line %d, want %d", name, got, tt.want)
		}
	}
}
