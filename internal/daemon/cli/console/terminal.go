package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TerminalFile returns the file of a stream that is a terminal.
func TerminalFile(stream any) (*os.File, bool) {
	if checked, ok := stream.(*checkedOutput); ok {
		stream = checked.Writer
	}
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// OnTerminal reports whether standard input and output are terminals.
func (a *Console) OnTerminal() bool {
	_, in := TerminalFile(a.In)
	_, out := TerminalFile(a.Out)
	return in && out
}

// TerminalSize returns the size of the terminal, or 24x80 without one.
func (a *Console) TerminalSize() driver.Size {
	for _, stream := range []any{a.Out, a.In} {
		if f, ok := TerminalFile(stream); ok {
			if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
				return driver.Size{Rows: rows, Cols: cols}
			}
		}
	}
	return driver.Size{Rows: 24, Cols: 80}
}

// EndsWithUs reports whether the sessions of a workspace end with this program: there is nothing
// to come back to after detaching.
func (a *Console) EndsWithUs(ws *workspace.Workspace) bool {
	return a.Server == "" && ws.Traits().SessionsEnd
}

// ErrDetached reports that the user detached from a running session.
var ErrDetached = errors.New("detached")

// AttachTerminal connects the user's terminal with a session, whose program has set modes. It
// returns the result when the session ends, or ErrDetached after ctrl-] or ~.
func (a *Console) AttachTerminal(ctx context.Context, t *client.Terminal, detachable bool, modes terminalModes) (*workspace.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f, ok := TerminalFile(a.In); ok {
		old, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return nil, err
		}
		defer term.Restore(int(f.Fd()), old) //nolint:errcheck // there is no other way to restore it
	}
	stop := a.watchSize(ctx, t)
	defer stop()
	// A blocked read of the terminal can't be interrupted: it ends with the program.
	go func() {
		if a.forwardKeys(ctx, t, detachable) {
			cancel(ErrDetached)
		}
	}()
	if _, ok := TerminalFile(a.Out); ok {
		if _, err := io.WriteString(a.Out, modes.set()); err != nil {
			return nil, err
		}
		defer func() { io.WriteString(a.Out, modes.reset()) }() //nolint:errcheck // the terminal may be gone
	}
	for {
		data, res, err := t.Receive(ctx)
		switch {
		case errors.Is(context.Cause(ctx), ErrDetached):
			return nil, ErrDetached
		case err != nil:
			return nil, err
		case res != nil:
			return res, nil
		}
		modes.observe(data)
		if _, err := a.Out.Write(data); err != nil {
			return nil, err
		}
	}
}

// forwardKeys sends the user's input to the session; it reports whether the user
// detached.
func (a *Console) forwardKeys(ctx context.Context, t *client.Terminal, detachable bool) bool {
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

// endInput sends end-of-file every second until the session ends: a pending EOF is
// lost when the reading program changes the terminal's mode, as a starting shell does.
func endInput(ctx context.Context, t *client.Terminal) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for t.EOF(ctx) == nil { // Receive reports other errors
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// escapes finds the escape sequences that detach: ctrl-] anywhere, and ~. at the
// beginning of a line, where ~~ is one tilde.
type escapes struct {
	fresh bool // at the beginning of a line
	tilde bool // after a tilde at the beginning of a line, which is not sent yet
}

func newEscapes() *escapes { return &escapes{fresh: true} }

const ctrlBracket = 0x1d

// ctrlBracketKeys are ctrl-] as terminals send it to a program that asked for unambiguous
// keys: in the form of kitty, and of modifyOtherKeys of xterm.
var ctrlBracketKeys = [][]byte{[]byte("\x1b[93;5u"), []byte("\x1b[27;5;93~")}

func (e *escapes) filter(data []byte) (out []byte, leave bool) {
	var b bytes.Buffer
	for _, key := range ctrlBracketKeys {
		if at := bytes.Index(data, key); at >= 0 {
			out, _ := e.filter(data[:at])
			return out, true
		}
	}
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

// watchSize sends the size of the user's terminal to a session, now and at each
// SIGWINCH.
func (a *Console) watchSize(ctx context.Context, t *client.Terminal) (stop func()) {
	if _, ok := TerminalFile(a.Out); !ok {
		return func() {}
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	changes <- syscall.SIGWINCH
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-changes:
				if t.Resize(ctx, a.TerminalSize()) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		signal.Stop(changes)
		cancel()
		wg.Wait()
	}
}

// NotifySize sends a value to c whenever the size of the terminal changes.
func NotifySize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
