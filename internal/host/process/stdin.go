package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/creack/pty"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// stdin is the standard input of a command: the write end of a pipe, or the terminal.
type stdin struct {
	file     *os.File
	tty      bool
	writeSem chan struct{} // semaphore of one writer

	closed  bool // guarded by writeSem
	midLine bool // the last byte written was not the end of a line
}

func newInput(file *os.File, tty bool) *stdin {
	return &stdin{file: file, tty: tty, writeSem: make(chan struct{}, 1)}
}

var errInputClosed = fmt.Errorf("%w: standard input is closed", fault.WrongState)

// write writes p until all of it is written or ctx ends.
func (in *stdin) write(ctx context.Context, p []byte) (int, error) {
	if err := in.acquireWrite(ctx); err != nil {
		return 0, err
	}
	defer func() { <-in.writeSem }()
	if in.closed {
		return 0, errInputClosed
	}
	stop := in.interruptOnDone(ctx)
	n, err := in.file.Write(p)
	stop()
	if n > 0 {
		in.midLine = p[n-1] != '\n'
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, fmt.Errorf("%w after %d of %d bytes", context.Cause(ctx), n, len(p))
	case errors.Is(err, os.ErrClosed):
		return n, errInputClosed
	}
	return n, fmt.Errorf("%w: the command has closed its standard input: %w", fault.WrongState, syscallErr(err))
}

func (in *stdin) acquireWrite(ctx context.Context) error {
	select {
	case in.writeSem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// interruptOnDone interrupts a blocked write when ctx ends. The returned function undoes
// it.
func (in *stdin) interruptOnDone(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	ran := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(ran)
		in.file.SetWriteDeadline(time.Unix(1, 0)) //nolint:errcheck // fails only on a closed file
	})
	return func() {
		if !cancel() {
			<-ran
			in.file.SetWriteDeadline(time.Time{}) //nolint:errcheck // as above
		}
	}
}

// sendEOF closes the pipe, or writes the end-of-file key to the terminal, twice if the
// first one only ends a line that was begun.
func (in *stdin) sendEOF(ctx context.Context) error {
	if err := in.acquireWrite(ctx); err != nil {
		return err
	}
	defer func() { <-in.writeSem }()
	if in.closed {
		return nil
	}
	if !in.tty {
		in.closed = true
		in.file.Close() // may be closed already, at the end of the command
		return nil
	}
	keys := []byte{eofKey(in.file)}
	if in.midLine {
		keys = append(keys, keys[0])
	}
	in.midLine = false
	stop := in.interruptOnDone(ctx)
	defer stop()
	_, err := in.file.Write(keys)
	return err
}

// closePipe closes the pipe at the end of the command, which also ends a blocked write.
func (in *stdin) closePipe() {
	if in.tty {
		return // loop closes the terminal
	}
	in.file.Close()
}

// copyStdin copies a reader to the standard input until one of them ends.
func (s *session) copyStdin(ctx context.Context, r io.Reader) {
	defer func() {
		if p := recover(); p != nil {
			s.addCallbackError("stdin", fmt.Errorf("panic: %v", p))
			s.in.sendEOF(ctx) //nolint:errcheck // fails only if the command has ended
		}
	}()
	buf := getBuffer()
	defer putBuffer(buf)
	for {
		n, err := r.Read(*buf)
		if n > 0 {
			if _, werr := s.in.write(ctx, (*buf)[:n]); werr != nil {
				return // a command need not read its input
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.addCallbackError("stdin", err)
			}
			s.in.sendEOF(ctx) //nolint:errcheck // as above
			return
		}
	}
}

// openTTY opens a pseudo-terminal of the given size.
func openTTY(size driver.Size) (master, slave *os.File, err error) {
	if master, slave, err = pty.Open(); err != nil {
		return nil, nil, err
	}
	if err := setTTYSize(master, size); err != nil {
		master.Close()
		slave.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

func setTTYSize(tty *os.File, size driver.Size) error {
	return pty.Setsize(tty, &pty.Winsize{Rows: uint16(size.Rows), Cols: uint16(size.Cols)})
}
