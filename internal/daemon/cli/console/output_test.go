package console

import (
	"strings"
	"testing"
)

// TestTablesQuoteEscapeSequences: a label or a name can't send a command to the terminal
// that a table is printed on.
func TestTablesQuoteEscapeSequences(t *testing.T) {
	var b strings.Builder
	row := []string{"demo", LabelText(map[string]string{"team": "\x1b]0;owned\a", "x": "1"}), "two\nlines", "caf\u00e9"}
	if err := WriteTable(&b, [][]string{row}); err != nil {
		t.Fatal(err)
	}
	const want = `demo  "team=\x1b]0;owned\a,x=1"  "two\nlines"  café` + "\n"
	if b.String() != want {
		t.Errorf("the table is %q, want %q", b.String(), want)
	}
	if got, want := PrintableText("no \x1b[31mfile\n\tcaf\u00e9"), "no \\x1b[31mfile\n\tcaf\u00e9"; got != want {
		t.Errorf("an error is printed as %q, want %q", got, want)
	}
}
