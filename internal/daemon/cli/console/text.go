package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/croft-run/croft/internal/shellword"
	croft "github.com/croft-run/croft/internal/version"
)

// OneLine returns s with each run of white space as one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// ShellQuote quotes a word for a shell if necessary.
func ShellQuote(s string) string {
	return shellword.QuoteUnsafe(s, "/._-+:@%")
}

// ShellText writes words as a shell reads them.
func ShellText(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = ShellQuote(word)
	}
	return strings.Join(quoted, " ")
}

// WriteLines prints each path on a line.
func WriteLines(w io.Writer, paths []string) error {
	for _, p := range paths {
		if _, err := fmt.Fprintln(w, Printable(p)); err != nil {
			return err
		}
	}
	return nil
}

// Version returns the version that the program was built from.
func Version() string { return croft.Get().Version }
