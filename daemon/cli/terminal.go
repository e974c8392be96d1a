package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// terminalFile returns the file of a stream that is a terminal.
func terminalFile(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// onTerminal reports whether somebody sits at both ends.
func (a *command) onTerminal() bool {
	_, in := terminalFile(a.In)
	_, out := terminalFile(a.Out)
	return in && out
}

// terminalSize returns the size of the terminal, or of a usual one.
func (a *command) terminalSize() driver.Size {
	for _, stream := range []any{a.Out, a.In} {
		if f, ok := terminalFile(stream); ok {
			if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
				return driver.Size{Rows: rows, Cols: cols}
			}
		}
	}
	return driver.Size{Rows: 24, Cols: 80}
}

// errDetached says that the user left a session that goes on.
var errDetached = errors.New("detached")

// attachTerminal connects the user with a session until that ends, whose result it
// returns, or the user leaves with ctrl-] or ~. (errDetached).
func (a *command) attachTerminal(ctx context.Context, t *client.Terminal, detachable bool) (*workspace.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f, ok := terminalFile(a.In); ok {
		old, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return nil, err
		}
		defer term.Restore(int(f.Fd()), old) //nolint:errcheck // nothing else can be done about it
	}
	stop := a.watchSize(ctx, t)
	defer stop()
	// Nothing can make a read of the terminal return: it ends with the program.
	go func() {
		if a.forwardKeys(ctx, t, detachable) {
			cancel(errDetached)
		}
	}()
	for {
		data, res, err := t.Receive(ctx)
		switch {
		case errors.Is(context.Cause(ctx), errDetached):
			return nil, errDetached
		case err != nil:
			return nil, err
		case res != nil:
			return res, nil
		}
		if _, err := a.Out.Write(data); err != nil {
			return nil, err
		}
	}
}

// forwardKeys types what the user types; it reports whether that was to leave.
func (a *command) forwardKeys(ctx context.Context, t *client.Terminal, detachable bool) bool {
	escapes := newEscapes()
	buf := make([]byte, 4096)
	for {
		n, err := a.In.Read(buf)
		data, leave := buf[:n], false
		if detachable {
			data, leave = escapes.filter(data)
		}
		if len(data) > 0 && t.Write(ctx, data) != nil {
			return false
		}
		if leave {
			return true
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				endInput(ctx, t)
			}
			return false
		}
	}
}

// endInput says that nothing more is typed, until the session has ended: a
// terminal forgets it when the program that reads changes its mode, as a shell
// does that has just started.
func endInput(ctx context.Context, t *client.Terminal) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for t.EOF(ctx) == nil { // receiving tells what else
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// escapes finds what leaves a session: ctrl-] anywhere, and ~. at the beginning
// of a line, where ~~ is one tilde.
type escapes struct {
	fresh bool // at the beginning of a line
	tilde bool // after a tilde there, which is held back
}

func newEscapes() *escapes { return &escapes{fresh: true} }

const ctrlBracket = 0x1d

func (e *escapes) filter(data []byte) (out []byte, leave bool) {
	var b bytes.Buffer
	for _, c := range data {
		if c == ctrlBracket {
			return b.Bytes(), true
		}
		if e.tilde {
			e.tilde = false
			switch c {
			case '.':
				return b.Bytes(), true
			case '~':
				b.WriteByte('~')
				e.fresh = false
				continue
			}
			b.WriteByte('~')
			e.fresh = false
		}
		if e.fresh && c == '~' {
			e.tilde = true
			continue
		}
		b.WriteByte(c)
		e.fresh = c == '\r' || c == '\n'
	}
	return b.Bytes(), false
}
