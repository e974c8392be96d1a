package tool

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// A patchOp is the change of one file in a patch.
type patchOp struct {
	kind  byte   // 'A', 'M' or 'D'
	path  string // the old path; the new path for 'A'
	to    string // the new path of a moved file; "" if it is not moved
	add   []string
	noEOL bool // the added file has no newline at its end
	hunks []hunk
}

// A hunk replaces the lines old by new.
type hunk struct {
	anchor   string // a line before the hunk; may be ""
	line     int    // where old begins, from 1, by the patch; 0 is unknown
	old, new []string
	oldNoEOL bool
	newNoEOL bool
	atEnd    bool // the hunk is at the end of the file
}

const (
	patchBegin  = "*** Begin Patch"
	patchEnd    = "*** End Patch"
	patchAdd    = "*** Add File: "
	patchUpdate = "*** Update File: "
	patchDelete = "*** Delete File: "
	patchMove   = "*** Move to: "
	patchEOF    = "*** End of File"
)

// parsePatch parses a unified diff, or a patch between *** Begin Patch and *** End Patch.
func parsePatch(text string) ([]patchOp, error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	p := &patchParser{lines: lines}
	var ops []patchOp
	var err error
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == patchBegin }); i >= 0 {
		p.at = i + 1
		ops, err = p.parseMarked()
	} else {
		ops, err = p.parseUnified()
	}
	if err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, Errorf(fault.InvalidArgument, "patch: no file is changed; write a unified diff, or begin the patch with %q", patchBegin)
	}
	seen := map[string]bool{}
	for _, op := range ops {
		if seen[op.path] {
			return nil, Errorf(fault.InvalidArgument, "patch: %s appears twice; write one section per file", op.path)
		}
		seen[op.path] = true
	}
	return ops, nil
}

type patchParser struct {
	lines []string
	at    int
}

func (p *patchParser) errorf(format string, args ...any) error {
	return Errorf(fault.InvalidArgument, "patch: line %d: %s", p.at+1, fmt.Sprintf(format, args...))
}

// parseMarked parses the form with *** lines.
func (p *patchParser) parseMarked() ([]patchOp, error) {
	var ops []patchOp
	for p.at < len(p.lines) {
		line := p.lines[p.at]
		switch {
		case strings.TrimSpace(line) == patchEnd:
			return ops, nil
		case strings.HasPrefix(line, patchAdd):
			p.at++
			op := patchOp{kind: 'A', path: strings.TrimSpace(line[len(patchAdd):]), add: []string{}}
			for p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], "+") {
				op.add = append(op.add, p.lines[p.at][1:])
				p.at++
			}
			ops = append(ops, op)
		case strings.HasPrefix(line, patchDelete):
			p.at++
			ops = append(ops, patchOp{kind: 'D', path: strings.TrimSpace(line[len(patchDelete):])})
		case strings.HasPrefix(line, patchUpdate):
			op, err := p.parseUpdate(strings.TrimSpace(line[len(patchUpdate):]))
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		case strings.TrimSpace(line) == "":
			p.at++
		default:
			return nil, p.errorf("unexpected %q; allowed are %q, %q, %q and %q", line, strings.TrimSpace(patchAdd), strings.TrimSpace(patchUpdate), strings.TrimSpace(patchDelete), patchEnd)
		}
	}
	return nil, p.errorf("%q is missing", patchEnd)
}

// parseUpdate parses the hunks of one file.
func (p *patchParser) parseUpdate(path string) (patchOp, error) {
	op := patchOp{kind: 'M', path: path}
	p.at++
	if p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], patchMove) {
		op.to = strings.TrimSpace(p.lines[p.at][len(patchMove):])
		p.at++
	}
	var h *hunk
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		switch {
		case line == patchEOF && h != nil:
			h.atEnd = true
		case strings.HasPrefix(line, "*** "):
			return op, p.checkHunks(op)
		case strings.HasPrefix(line, "@@"):
			op.hunks = append(op.hunks, hunk{anchor: strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line[2:]), "@@"))})
			h = &op.hunks[len(op.hunks)-1]
		default:
			if h == nil {
				op.hunks = append(op.hunks, hunk{})
				h = &op.hunks[0]
			}
			if !h.addLine(line) {
				return op, p.errorf("a line of a hunk must begin with a blank, + or -")
			}
		}
	}
	return op, p.checkHunks(op)
}

func (p *patchParser) checkHunks(op patchOp) error {
	if len(op.hunks) == 0 && op.to == "" {
		return p.errorf("%s has no hunk", op.path)
	}
	for _, h := range op.hunks {
		if len(h.old)+len(h.new) == 0 {
			return p.errorf("%s has an empty hunk", op.path)
		}
	}
	return nil
}

// addLine adds a line to a hunk. An empty line is an empty line of context.
func (h *hunk) addLine(line string) bool {
	switch {
	case line == "":
		h.old, h.new = append(h.old, ""), append(h.new, "")
	case line[0] == ' ':
		h.old, h.new = append(h.old, line[1:]), append(h.new, line[1:])
	case line[0] == '-':
		h.old = append(h.old, line[1:])
	case line[0] == '+':
		h.new = append(h.new, line[1:])
	default:
		return false
	}
	return true
}

var hunkHeader = lazyregexp.New(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// parseUnified parses a unified diff, with or without Git's extended headers.
func (p *patchParser) parseUnified() ([]patchOp, error) {
	var ops []patchOp
	for p.at < len(p.lines) {
		if !strings.HasPrefix(p.lines[p.at], "--- ") || p.at+1 >= len(p.lines) || !strings.HasPrefix(p.lines[p.at+1], "+++ ") {
			p.at++ // Git's headers, and prose
			continue
		}
		from, to := diffName(p.lines[p.at][4:], "a/"), diffName(p.lines[p.at+1][4:], "b/")
		p.at += 2
		hunks, err := p.parseHunks()
		if err != nil {
			return nil, err
		}
		if len(hunks) == 0 {
			return nil, p.errorf("%s has no hunk", to)
		}
		op := patchOp{kind: 'M', path: from, hunks: hunks}
		switch {
		case from == "" && to == "":
			return nil, p.errorf("the file has no name")
		case from == "":
			op = patchOp{kind: 'A', path: to, add: hunks[0].new, noEOL: hunks[0].newNoEOL}
		case to == "":
			op.kind = 'D'
		case from != to:
			op.to = to
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// diffName returns the file name of a diff header, "" for /dev/null.
func diffName(s, prefix string) string {
	s, _, _ = strings.Cut(s, "\t")
	s = strings.TrimSpace(s)
	if s == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(s, prefix)
}

func (p *patchParser) parseHunks() ([]hunk, error) {
	var hunks []hunk
	for p.at < len(p.lines) {
		m := hunkHeader.FindStringSubmatch(p.lines[p.at])
		if m == nil {
			return hunks, nil
		}
		p.at++
		h := hunk{line: atoiOr(m[1], 0)}
		oldLeft, newLeft := atoiOr(m[2], 1), atoiOr(m[4], 1)
		if oldLeft == 0 {
			h.line++ // an insertion follows the named line
		}
		for oldLeft > 0 || newLeft > 0 || p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], `\ `) {
			if p.at >= len(p.lines) {
				return nil, p.errorf("the hunk ends early")
			}
			line := p.lines[p.at]
			p.at++
			if strings.HasPrefix(line, `\ `) {
				h.noNewline(p.lines[p.at-2])
				continue
			}
			if !h.addLine(line) {
				p.at--
				return nil, p.errorf("a line of a hunk must begin with a blank, + or -")
			}
			if line == "" || line[0] != '+' {
				oldLeft--
			}
			if line == "" || line[0] != '-' {
				newLeft--
			}
		}
		hunks = append(hunks, h)
	}
	return hunks, nil
}

// noNewline records that the previous line has no newline at its end.
func (h *hunk) noNewline(before string) {
	h.atEnd = true
	h.oldNoEOL = h.oldNoEOL || !strings.HasPrefix(before, "+")
	h.newNoEOL = h.newNoEOL || !strings.HasPrefix(before, "-")
}

func atoiOr(s string, otherwise int) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return otherwise
	}
	return n
}

// maxPatchLines bounds the lines of a file that can be patched.
const maxPatchLines = 2 << 20

// applyHunks applies hunks to a text, in order. Each must match exactly. Of several matches
// the one nearest to the line number is taken; without a line number a hunk must match
// once.
func applyHunks(ctx context.Context, name, text string, hunks []hunk) (string, error) {
	if n := strings.Count(text, "\n"); n > maxPatchLines {
		return "", Errorf(fault.ResourceExhausted, "patch: %s has %d lines; at most %d can be patched", name, n, maxPatchLines)
	}
	eol := "\n"
	if strings.Contains(text, "\r\n") {
		eol = "\r\n"
	}
	lines := strings.Split(text, eol)
	ended := lines[len(lines)-1] == ""
	if ended {
		lines = lines[:len(lines)-1]
	}
	from, moved := 0, 0
	for i, h := range hunks {
		if err := ctx.Err(); err != nil { // each hunk scans the whole file
			return "", fmt.Errorf("patch: %w", err)
		}
		at, err := h.findPosition(lines, from, moved)
		if err != nil {
			return "", Errorf(fault.Conflict, "patch: hunk %d of %s: %s", i+1, name, ErrorText(err))
		}
		lines = slices.Replace(lines, at, at+len(h.old), h.new...)
		from, moved = at+len(h.new), moved+len(h.new)-len(h.old)
		if h.newNoEOL != h.oldNoEOL {
			ended = !h.newNoEOL
		}
	}
	if text == "" {
		ended = true
	}
	out := strings.Join(lines, eol)
	if ended && len(lines) > 0 {
		out += eol
	}
	return out, nil
}

// findPosition returns the index of the line at which a hunk applies.
func (h hunk) findPosition(lines []string, from, moved int) (int, error) {
	if h.anchor != "" {
		i := slices.IndexFunc(lines[from:], func(l string) bool { return strings.TrimSpace(l) == h.anchor })
		if i < 0 {
			return 0, Errorf(fault.Conflict, "the line %q was not found", h.anchor)
		}
		from += i + 1
		if len(h.old) == 0 {
			return from, nil
		}
	}
	if len(h.old) == 0 {
		if h.line > 0 {
			return min(max(h.line-1+moved, from), len(lines)), nil
		}
		return len(lines), nil
	}
	var places []int
	for i := from; i+len(h.old) <= len(lines); i++ {
		if slices.Equal(lines[i:i+len(h.old)], h.old) {
			places = append(places, i)
		}
	}
	switch {
	case len(places) == 0:
		return 0, Errorf(fault.Conflict, "its lines were not found; the first is %q", h.old[0])
	case h.atEnd:
		return places[len(places)-1], nil
	case h.line > 0:
		want := h.line - 1 + moved
		return slices.MinFunc(places, func(a, b int) int { return abs(a-want) - abs(b-want) }), nil
	case len(places) > 1 && h.anchor == "":
		return 0, Errorf(fault.Conflict, "its lines match %d times; add context", len(places))
	}
	return places[0], nil
}

func abs(n int) int { return max(n, -n) }
