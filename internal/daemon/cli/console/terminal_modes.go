package console

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// terminalModes are the modes of a terminal that a program has changed, such as the
// alternate screen, the mouse and the cursor. A program that the user detaches from, or that
// is killed, leaves them changed.
type terminalModes struct {
	changed map[string]bool // private modes (DEC) that differ from leftModes
	keys    []string        // states of the keyboard that were pushed, in kitty's protocol
	other   string          // modifyOtherKeys of xterm, "" for none
	rest    []byte          // the beginning of a sequence
}

// leftModes are the modes that the user's shell needs, and whether they are on.
var leftModes = map[string]bool{
	"1": false, "7": true, "25": true, "2004": false, "2026": false, "1004": false, // cursor keys, wrapping, cursor, paste, synchronized output, focus
	"9": false, "1000": false, "1002": false, "1003": false, "1005": false, "1006": false, "1015": false, "1016": false, // mouse
	"47": false, "1047": false, "1049": false, // alternate screen
}

var modeSequence = lazyregexp.New(`\x1b\[([?<>])([0-9;]*)([hlmu])`)

// observe reads output of the program.
func (m *terminalModes) observe(data []byte) {
	const longest = 32 // bytes of a sequence
	data = append(m.rest, data...)
	for _, found := range modeSequence.FindAllSubmatch(data, -1) {
		kind, numbers, end := string(found[1]), string(found[2]), string(found[3])
		switch kind + end {
		case "?h", "?l":
			for n := range strings.SplitSeq(numbers, ";") {
				m.setMode(n, end == "h")
			}
		case ">u":
			m.keys = append(m.keys, numbers)
		case "<u":
			n, err := strconv.Atoi(numbers)
			if err != nil {
				n = 1
			}
			m.keys = m.keys[:max(0, len(m.keys)-n)]
		case ">m":
			if numbers == "4" || numbers == "4;0" {
				m.other = ""
			} else if value, ok := strings.CutPrefix(numbers, "4;"); ok {
				m.other = value
			}
		}
	}
	m.rest = nil
	if at := bytes.LastIndexByte(data, 0x1b); at >= 0 && len(data)-at < longest && !modeSequence.Match(data[at:]) {
		m.rest = bytes.Clone(data[at:])
	}
}

func (m *terminalModes) setMode(n string, on bool) {
	left, known := leftModes[n]
	switch {
	case !known:
	case on == left:
		delete(m.changed, n)
	default:
		if m.changed == nil {
			m.changed = map[string]bool{}
		}
		m.changed[n] = true
	}
}

// set returns what changes the modes of a terminal.
func (m *terminalModes) set() string {
	var b strings.Builder
	m.writeChanged(&b, "l", "h")
	for _, state := range m.keys {
		b.WriteString("\x1b[>" + state + "u")
	}
	if m.other != "" {
		b.WriteString("\x1b[>4;" + m.other + "m")
	}
	return b.String()
}

// writeChanged writes a sequence for each changed mode: one of those that are on at the user's
// shell, or one of the others.
func (m *terminalModes) writeChanged(b *strings.Builder, on, off string) {
	for _, n := range slices.Sorted(maps.Keys(m.changed)) {
		end := off
		if leftModes[n] {
			end = on
		}
		b.WriteString("\x1b[?" + n + end)
	}
}

// reset returns what sets the modes back.
func (m *terminalModes) reset() string {
	var b strings.Builder
	m.writeChanged(&b, "h", "l")
	if len(m.keys) > 0 {
		fmt.Fprintf(&b, "\x1b[<%du", len(m.keys))
	}
	if m.other != "" {
		b.WriteString("\x1b[>4m")
	}
	if b.Len() > 0 {
		b.WriteString("\x1b[m")
	}
	return b.String()
}

// modesRead bounds what EarlierModes reads at the beginning of a log, where programs set
// modes, and before the end.
const modesRead = 1 << 20

// EarlierModes returns the modes that the program of a session had set before its last
// output, of tail bytes. What can't be read has set none.
func EarlierModes(ctx context.Context, ws *workspace.Workspace, id string, tail int64) (m terminalModes) {
	session, err := ws.Attach(ctx, id)
	if tail == 0 || err != nil {
		return m
	}
	for at := int64(0); ; {
		chunk, err := session.Log(ctx, driver.Stdout, at, 0)
		end := chunk.Size - tail
		if err != nil || at >= end || len(chunk.Data) == 0 {
			return m
		}
		m.observe(chunk.Data[:min(int64(len(chunk.Data)), end-at)])
		if at = chunk.Next; at >= modesRead {
			at = max(at, end-modesRead)
		}
	}
}
