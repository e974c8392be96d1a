package snapshot

import (
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/textdiff"
)

// Markers are the names of the sides in conflict markers.
type Markers struct{ Ours, Theirs string }

// MergeText is a three-way merge (diff3) of a text. A conflict is written with
// git's markers; without markers ours is kept.
func MergeText(base, ours, theirs []byte, markers *Markers) ([]byte, []TextConflict) {
	m := &textMerge{base: textdiff.Split(base), ours: textdiff.Split(ours), theirs: textdiff.Split(theirs), markers: markers}
	m.run(textdiff.Lines(m.base, m.ours), textdiff.Lines(m.base, m.theirs))
	return []byte(m.out.String()), m.conflicts
}

type textMerge struct {
	base, ours, theirs []string
	markers            *Markers
	out                strings.Builder
	conflicts          []TextConflict
}

// run walks the edits of both sides in the order of the base. Edits that overlap or
// touch form one chunk.
func (m *textMerge) run(ours, theirs []textdiff.Edit) {
	at := 0                // in base
	shiftO, shiftT := 0, 0 // line offsets of ours and theirs against base
	for len(ours) > 0 || len(theirs) > 0 {
		start, end := len(m.base)+1, -1
		var o, t []textdiff.Edit
		for grew := true; grew; {
			grew = false
			if len(ours) > 0 && inChunk(ours[0], theirs, start, end) {
				start, end = min(start, ours[0].A0), max(end, ours[0].A1)
				o, ours, grew = append(o, ours[0]), ours[1:], true
			}
			if len(theirs) > 0 && inChunk(theirs[0], ours, start, end) {
				start, end = min(start, theirs[0].A0), max(end, theirs[0].A1)
				t, theirs, grew = append(t, theirs[0]), theirs[1:], true
			}
		}
		m.writeLines(m.base[at:start])
		m.writeChunk(start, end, m.ours[start+shiftO:end+shiftO+lineDelta(o)], m.theirs[start+shiftT:end+shiftT+lineDelta(t)], len(o) > 0, len(t) > 0, start+shiftO)
		shiftO, shiftT = shiftO+lineDelta(o), shiftT+lineDelta(t)
		at = end
	}
	m.writeLines(m.base[at:])
}

// inChunk reports whether an edit belongs to the chunk from start to end or, if
// that is empty, comes first on both sides.
func inChunk(e textdiff.Edit, others []textdiff.Edit, start, end int) bool {
	if end >= 0 {
		return e.A0 <= end
	}
	return len(others) == 0 || e.A0 <= others[0].A0
}

// lineDelta is the number of lines that edits add.
func lineDelta(edits []textdiff.Edit) int {
	n := 0
	for _, e := range edits {
		n += (e.B1 - e.B0) - (e.A1 - e.A0)
	}
	return n
}

func (m *textMerge) writeLines(lines []string) {
	for _, l := range lines {
		m.out.WriteString(l)
	}
}

func (m *textMerge) writeChunk(start, end int, ours, theirs []string, byUs, byThem bool, line int) {
	switch {
	case !byThem || slices.Equal(ours, theirs):
		m.writeLines(ours)
	case !byUs:
		m.writeLines(theirs)
	default:
		m.conflicts = append(m.conflicts, TextConflict{Line: line + 1, Base: m.base[start:end], Ours: ours, Theirs: theirs})
		if m.markers == nil {
			m.writeLines(ours)
			return
		}
		m.writeMarker("<<<<<<< "+m.markers.Ours+"\n", ours)
		m.writeMarker("=======\n", theirs)
		m.writeMarker(">>>>>>> "+m.markers.Theirs+"\n", nil)
	}
}

// writeMarker writes a conflict marker on its own line, then lines.
func (m *textMerge) writeMarker(marker string, lines []string) {
	if s := m.out.String(); s != "" && !strings.HasSuffix(s, "\n") {
		m.out.WriteByte('\n')
	}
	m.out.WriteString(marker)
	m.writeLines(lines)
}

// pickHunks returns base with the chosen hunks toward theirs applied, and the
// number of hunks. Hunks are counted from 1, as textdiff.Hunks forms them with the
// same context.
func pickHunks(base, theirs []byte, context int, chosen []int) ([]byte, int) {
	a, b := textdiff.Split(base), textdiff.Split(theirs)
	edits := textdiff.Lines(a, b)
	var out strings.Builder
	at, number := 0, 0
	for i, e := range edits {
		if i == 0 || e.A0-edits[i-1].A1 > 2*context {
			number++
		}
		for _, l := range a[at:e.A0] {
			out.WriteString(l)
		}
		lines := a[e.A0:e.A1]
		if slices.Contains(chosen, number) {
			lines = b[e.B0:e.B1]
		}
		for _, l := range lines {
			out.WriteString(l)
		}
		at = e.A1
	}
	for _, l := range a[at:] {
		out.WriteString(l)
	}
	return []byte(out.String()), number
}
