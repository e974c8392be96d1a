package snapshot

import (
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// A Hunk is a part of a file that differs. Lines begin with a space, a minus or a
// plus, and keep their newline.
type Hunk struct {
	OldStart int      `json:"oldStart"` // 1-based; 0 where OldLines is 0 and it is before the first
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

// MarshalJSON adds linesB64 where lines are not UTF-8, which JSON can't hold.
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

// hunks puts edits together that are close to each other, with what is around them.
func hunks(a, b []string, edits []edit, context int) []Hunk {
	var out []Hunk
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*context {
			n++
		}
		out = append(out, hunk(a, b, edits[:n], context))
		edits = edits[n:]
	}
	return out
}

func hunk(a, b []string, edits []edit, context int) Hunk {
	first, last := edits[0], edits[len(edits)-1]
	lead := min(context, first.a0)
	tail := min(context, len(a)-last.a1)
	h := Hunk{OldStart: first.a0 - lead + 1, NewStart: first.b0 - lead + 1, OldLines: last.a1 - first.a0 + lead + tail, NewLines: last.b1 - first.b0 + lead + tail}
	if h.OldLines == 0 {
		h.OldStart--
	}
	if h.NewLines == 0 {
		h.NewStart--
	}
	at := first.a0 - lead
	put := func(sign string, lines []string) {
		for _, l := range lines {
			h.Lines = append(h.Lines, sign+l)
		}
	}
	for _, e := range edits {
		put(" ", a[at:e.a0])
		put("-", a[e.a0:e.a1])
		put("+", b[e.b0:e.b1])
		at = e.a1
	}
	put(" ", a[at:last.a1+tail])
	return h
}
