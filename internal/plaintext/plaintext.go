// Package plaintext removes terminal control sequences from the output of programs.
package plaintext

import (
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// sequences are control sequences of terminals (ECMA-48): CSI; the strings OSC, DCS, SOS, PM
// and APC; other escapes, such as the choice of a character set; control characters other
// than tab, line feed and carriage return.
var sequences = lazyregexp.New(`\x1b\[[0-?]*[ -/]*[@-~]?` +
	`|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?` +
	`|\x1b[ -/]*[0-~]?` +
	`|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\x{80}-\x{9f}]`)

// Clean returns the text without control sequences. A carriage return, which moves a
// terminal back to the start of the line, becomes a line feed. A sequence that the end of
// the text interrupts is removed, too.
func Clean(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' || r >= 0x7f && r <= 0x9f }) {
		return s
	}
	s = sequences.ReplaceAllString(s, "")
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}
