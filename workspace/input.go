package workspace

import (
	"context"
	"fmt"
	"io"

	"github.com/croft-run/croft/fault"
)

// An input is what a call reads, such as the body of a write: it can be read
// again where the call is repeated, if that is possible at all.
type input struct {
	body   io.Reader
	seeker io.Seeker // nil if body can't seek
	start  int64
	tries  int
	read   bool  // body was read from
	err    error // that body failed with

	exit *exit  // when to wait for body no more; nil is never
	buf  []byte // what body reads into, as it may do so after that
}

// until says to leave body, whatever it waits for, when ctx ends.
func (in *input) until(ctx context.Context) {
	x := exitOf(ctx)
	in.exit = &x
}

func newInput(body io.Reader) *input {
	in := &input{body: body}
	if s, ok := body.(io.Seeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil { // a pipe is a seeker that can't
			in.seeker, in.start = s, start
		}
	}
	return in
}

// rewind makes the body readable from where it was at first. A body that can't
// seek, and that a first try began to read, can't be read by a second.
func (in *input) rewind() error {
	in.tries++
	switch {
	case in.tries == 1 || in.body == nil:
		return nil
	case in.seeker != nil:
		if _, err := in.seeker.Seek(in.start, io.SeekStart); err != nil {
			return fmt.Errorf("%w: the body can't be read again: %w", fault.Unavailable, err)
		}
	case in.read:
		return fmt.Errorf("%w: the workspace was evicted after part of the body, which can't be read again, was taken; repeat the call", fault.Unavailable)
	}
	return nil
}

// reader is what the driver gets. A body that can seek is passed as it is, since
// drivers know better ways to copy a file than to read it.
func (in *input) reader() io.Reader {
	if in.body == nil || in.seeker != nil {
		return in.body
	}
	return (*inputReader)(in)
}

type inputReader input

func (r *inputReader) Read(p []byte) (int, error) {
	r.read = true
	if r.exit == nil {
		n, err := r.body.Read(p)
		r.note(err)
		return n, err
	}
	if most := min(len(p), maxInput); len(r.buf) < most {
		r.buf = make([]byte, most)
	}
	var n int
	var failed error
	buf := r.buf[:min(len(p), len(r.buf))]
	err := aside(*r.exit, func() error {
		m, err := r.body.Read(buf)
		n, failed = m, err
		return nil
	})
	if err != nil {
		return 0, err
	}
	r.note(failed)
	return copy(p, buf[:n]), failed
}

// maxInput is how much is read at once from a body that may be left.
const maxInput = 256 << 10

func (r *inputReader) note(err error) {
	if err != nil && err != io.EOF { //nolint:errorlint // a wrapped EOF is a failure
		r.err = err
	}
}

// explain gives an error that comes from the body, and that nobody classified, a
// code: it is no defect of ours.
func (in *input) explain(err error) error {
	if err != nil && in.err != nil && fault.Of(err) == fault.Internal {
		return fmt.Errorf("%w: the body could not be read: %w", fault.Unavailable, err)
	}
	return err
}
