package suggest_test

import (
	"testing"

	"github.com/croft-run/croft/internal/suggest"
)

func TestWord(t *testing.T) {
	known := []string{"demo", "web", "web-2", "sandbox", "memory"}
	for word, want := range map[string]string{
		"dmeo": "demo", "demoo": "demo", "sanbox": "sandbox", "sandobx": "sandbox", "mem": "", "wbe": "web", "x": "", "": "", "elsewhere": "",
		"demo": "", "webb2": "web-2", "deno": "demo", "lens": "", "weeb3": "", "memorry": "memory", "mmeorry": "memory",
	} {
		if got := suggest.Word(word, known); got != want {
			t.Errorf("%q is taken for %q, want %q", word, got, want)
		}
	}
	if got := suggest.Hint("sanbox", known); got != "; did you mean sandbox?" {
		t.Errorf("the hint is %q", got)
	}
}

func FuzzWord(f *testing.F) {
	f.Add("demo", "dmeo")
	f.Fuzz(func(t *testing.T, a, b string) {
		if got := suggest.Word(a, []string{b}); got != "" && got != b {
			t.Errorf("%q gives %q", a, got)
		}
		if suggest.Word(a, []string{a}) != "" {
			t.Errorf("%q is near to itself", a)
		}
	})
}
