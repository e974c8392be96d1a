package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/croft-run/croft/internal/daemon/cli/console"
)

// A replInput reads lines of standard input, and signals, for the REPL.
type replInput struct {
	lines   chan string
	signals chan os.Signal
	quit    chan struct{}
	err     error // of the reader; valid once lines is closed
	asked   error // ErrInterrupted after a signal that ends the REPL
}

// newREPLInput reads standard input and signals until stop. A blocked read of a
// terminal can't be interrupted, so the goroutine may live as long as the process.
func (a *command) newREPLInput() *replInput {
	t := &replInput{lines: make(chan string), signals: make(chan os.Signal, 1), quit: make(chan struct{})}
	signal.Notify(t.signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(t.lines)
		in := bufio.NewScanner(a.In)
		const longest = 1 << 20
		in.Buffer(nil, longest)
		for in.Scan() {
			select {
			case t.lines <- in.Text():
			case <-t.quit:
				return
			}
		}
		t.err = in.Err()
	}()
	return t
}

func (t *replInput) stop() {
	signal.Stop(t.signals)
	close(t.quit)
}

// endCause returns the error that ended the input, nil for its ordinary end.
func (t *replInput) endCause() error {
	if t.asked != nil {
		return t.asked
	}
	return t.err
}

// readPiece reads one line, or a block up to an empty line. Ctrl-C discards it.
func (t *replInput) readPiece(prompt io.Writer) (source string, more bool) {
	fmt.Fprint(prompt, ">>> ")
	block := false
	for {
		select {
		case line, ok := <-t.lines:
			if !ok {
				fmt.Fprintln(prompt)
				return source, source != ""
			}
			if block && strings.TrimSpace(line) == "" {
				return source, true
			}
			source += line + "\n"
			if end := strings.TrimRight(line, " \t"); !block && !strings.HasSuffix(end, ":") && !strings.HasSuffix(end, `\`) {
				return source, true
			}
			block = true
			fmt.Fprint(prompt, "... ")
		case sig := <-t.signals:
			fmt.Fprintln(prompt)
			if sig != os.Interrupt {
				t.asked = console.ErrInterrupted
				return "", false
			}
			return "", true
		}
	}
}

// runInterruptible calls f with a context that Ctrl-C cancels. Cancellation by
// Ctrl-C is not an error.
func (t *replInput) runInterruptible(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, heard := make(chan struct{}), make(chan os.Signal, 1)
	go func() {
		defer close(heard)
		select {
		case sig := <-t.signals:
			heard <- sig
			cancel()
		case <-done:
		}
	}()
	err := f(ctx)
	close(done)
	switch sig := <-heard; {
	case sig == nil:
		return err
	case sig != os.Interrupt:
		return console.ErrInterrupted
	case errors.Is(err, context.Canceled):
		return nil
	}
	return err
}
