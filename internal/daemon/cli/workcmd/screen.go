package workcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace/driver"
)

// A screenView is what a program shows on the whole terminal.
type screenView interface {
	// frame returns the lines of the screen, as many as it has, top first, without control characters other
	// than those of styles.
	frame(size driver.Size) []string

	// key handles a key, by its name in keyNames or its character. It reports whether to
	// leave the screen.
	key(name string) (leave bool)
}

// hasScreen reports whether there is a terminal for a screenView.
func (a *command) hasScreen() bool {
	kind := os.Getenv("TERM")
	return a.OnTerminal() && !a.JSON && kind != "" && kind != "dumb"
}

// Control sequences (ECMA-48, and the private modes of xterm).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // alternate screen, no cursor, no wrapping of lines
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"

	styleBold    = "\x1b[1m"
	styleReverse = "\x1b[7m"
	styleEnd     = "\x1b[m"
)

// showScreen shows v on the whole terminal, and again after each key, each change of the
// terminal's size, and each value of wake. It restores the terminal when v leaves, when ctx
// ends, after a signal and after a panic.
func (a *command) showScreen(ctx context.Context, v screenView, wake <-chan struct{}) error {
	in, _ := console.TerminalFile(a.In)
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer term.Restore(int(in.Fd()), old)                                     //nolint:errcheck // there is no other way to restore it
	defer io.WriteString(a.Out, leaveScreen)                                  //nolint:errcheck // a terminal that is gone needs no restoring
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT) // the others end ctx already
	defer cancel()
	sizes := make(chan os.Signal, 1)
	console.NotifySize(sizes)
	defer signal.Stop(sizes)
	keys := make(chan []byte)
	// A blocked read of the terminal can't be interrupted: it ends with the program.
	go func() {
		defer close(keys)
		for buf := make([]byte, 256); ; {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			select {
			case keys <- append([]byte{}, buf[:n]...):
			case <-ctx.Done():
				return
			}
		}
	}()
	if _, err := io.WriteString(a.Out, enterScreen); err != nil {
		return err
	}
	for {
		// Each line is erased before it is written: after a line of the whole width the cursor
		// is on its last column.
		text := "\x1b[H\x1b[K" + strings.Join(v.frame(a.TerminalSize()), "\r\n\x1b[K")
		if _, err := io.WriteString(a.Out, text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", fault.Canceled, context.Cause(ctx))
		case <-sizes:
		case <-wake:
		case data, ok := <-keys:
			if !ok {
				return errors.Join(fault.Canceled, io.ErrUnexpectedEOF)
			}
			for len(data) > 0 {
				var name string
				if name, data = nextKey(data); v.key(name) {
					return nil
				}
			}
		}
	}
}

// keyNames are the names of keys by what terminals send for them.
var keyNames = map[string]string{
	"\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b[C": "right", "\x1bOC": "right", "\x1b[D": "left", "\x1bOD": "left",
	"\x1b[5~": "pgup", "\x1b[6~": "pgdn", "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end",
	"\r": "enter", "\n": "enter", "\t": "tab", "\x1b": "esc", "\x03": "ctrl-c", "\x02": "pgup", "\x15": "pgup", "\x06": "pgdn", "\x04": "pgdn",
}

// nextKey returns the name of the first key of the input, and the rest of the input. The
// name of an unknown sequence is the sequence.
func nextKey(data []byte) (name string, rest []byte) {
	var n int
	switch {
	case data[0] == '\x1b' && len(data) > 2 && data[1] == '[':
		for n = 2; n < len(data)-1 && (data[n] < '@' || data[n] > '~'); n++ {
		}
		n++
	case data[0] == '\x1b' && len(data) > 2 && data[1] == 'O':
		n = 3
	default:
		_, n = utf8.DecodeRune(data)
	}
	name = string(data[:n])
	if known, ok := keyNames[name]; ok {
		name = known
	}
	return name, data[n:]
}

// runeColumns returns how many columns of a terminal a printable character takes.
func runeColumns(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// wrapColumns splits a line of printable characters and tabs into lines of at most n
// columns, with spaces in the place of tabs.
func wrapColumns(line string, n int) []string {
	const tab = 8
	n = max(n, 2) // of a wide character
	var lines []string
	var b strings.Builder
	at := 0
	put := func(r rune) {
		if at+runeColumns(r) > n {
			lines = append(lines, b.String())
			b.Reset()
			at = 0
		}
		b.WriteRune(r)
		at += runeColumns(r)
	}
	for _, r := range line {
		if r != '\t' {
			put(r)
			continue
		}
		for range tab - at%tab {
			put(' ')
		}
	}
	return append(lines, b.String())
}

// fitColumns cuts or fills a line of printable characters to n columns.
func fitColumns(line string, n int) string {
	if n <= 0 {
		return ""
	}
	var b strings.Builder
	at, end := 0, "" // end is what replaces the last column of a line that is cut
	for _, r := range line {
		if at+runeColumns(r) > n {
			end = "…"
			break
		}
		b.WriteRune(r)
		at += runeColumns(r)
	}
	text := b.String()
	for end != "" && at > n-1 {
		r, size := utf8.DecodeLastRuneInString(text)
		text, at = text[:len(text)-size], at-runeColumns(r)
	}
	if end != "" {
		at++
	}
	return text + end + strings.Repeat(" ", max(0, n-at))
}
