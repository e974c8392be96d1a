package textdiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Hunk is a changed part of a file. Lines begin with a space, a minus or a plus,
// and keep their newline.
type Hunk struct {
	OldStart int      `json:"oldStart"` // 1-based; 0 if OldLines is 0 and the hunk is before the first line
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

// MarshalJSON adds linesB64 if lines are not UTF-8, which JSON can't represent.
func (h Hunk) MarshalJSON() ([]byte, error) {
	type plain Hunk
	out := struct {
		plain
		LinesB64 [][]byte `json:"linesB64,omitempty"`
	}{plain: plain(h)}
	if slices.ContainsFunc(h.Lines, func(l string) bool { return !utf8.ValidString(l) }) {
		for _, l := range h.Lines {
			out.LinesB64 = append(out.LinesB64, []byte(l))
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (h *Hunk) UnmarshalJSON(data []byte) error {
	type plain Hunk
	in := struct {
		*plain
		LinesB64 [][]byte `json:"linesB64"`
	}{plain: (*plain)(h)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.LinesB64 != nil {
		h.Lines = nil
	}
	for _, l := range in.LinesB64 {
		h.Lines = append(h.Lines, string(l))
	}
	return nil
}

// Hunks groups nearby edits into hunks with the given number of context lines.
func Hunks(a, b []string, edits []Edit, context int) []Hunk {
	var out []Hunk
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].A0-edits[n-1].A1 <= 2*context {
			n++
		}
		out = append(out, newHunk(a, b, edits[:n], context))
		edits = edits[n:]
	}
	return out
}

func newHunk(a, b []string, edits []Edit, context int) Hunk {
	first, last := edits[0], edits[len(edits)-1]
	lead := min(context, first.A0)
	tail := min(context, len(a)-last.A1)
	h := Hunk{OldStart: first.A0 - lead + 1, NewStart: first.B0 - lead + 1, OldLines: last.A1 - first.A0 + lead + tail, NewLines: last.B1 - first.B0 + lead + tail}
	if h.OldLines == 0 {
		h.OldStart--
	}
	if h.NewLines == 0 {
		h.NewStart--
	}
	at := first.A0 - lead
	put := func(sign string, lines []string) {
		for _, l := range lines {
			h.Lines = append(h.Lines, sign+l)
		}
	}
	for _, e := range edits {
		put(" ", a[at:e.A0])
		put("-", a[e.A0:e.A1])
		put("+", b[e.B0:e.B1])
		at = e.A1
	}
	put(" ", a[at:last.A1+tail])
	return h
}

// String returns the hunk as a part of a unified diff.
func (h Hunk) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "@@ -%s +%s @@\n", formatRange(h.OldStart, h.OldLines), formatRange(h.NewStart, h.NewLines))
	for _, l := range h.Lines {
		b.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	return b.String()
}

func formatRange(start, lines int) string {
	if lines == 1 {
		return strconv.Itoa(start)
	}
	return fmt.Sprintf("%d,%d", start, lines)
}

// Unified returns the unified diff of a file; "" if nothing changed.
func Unified(name string, before, after []byte, context int) string {
	if bytes.Equal(before, after) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", name, name)
	old, now := Split(before), Split(after)
	for _, h := range Hunks(old, now, Lines(old, now), context) {
		b.WriteString(h.String())
	}
	return b.String()
}
