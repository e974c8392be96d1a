package shellword

import (
	"os/exec"
	"testing"
)

func TestQuote(t *testing.T) {
	for _, word := range []string{"", "a", "it's", `a"b\c`, "$(x) `y`\n", "''", "é"} {
		for _, quoted := range []string{Quote(word), QuoteUnsafe(word, "/._-")} {
			if out, err := exec.Command("sh", "-c", "printf %s "+quoted).Output(); err != nil || string(out) != word {
				t.Errorf("%q as %s: a shell reads %q, %v", word, quoted, out, err)
			}
		}
	}
	if got := QuoteUnsafe("a/b.c", "/."); got != "a/b.c" {
		t.Errorf("a safe word is quoted: %s", got)
	}
}
