package workspace

import (
	"context"
	"fmt"
	"io"

	"github.com/croft-run/croft/fault"
)

// An callInput is what a call reads, such as the body of a write. It can be read again
// when the call is repeated, if the body can seek or was not read yet.
type callInput struct {
	body   io.Reader
	seeker io.Seeker // nil if body can't seek
	start  int64
	tries  int
	read   bool  // body was read from
	err    error // error of body

	exit *abandonSignal // when to abandon body; nil is never
	buf  []byte         // buffer of body, which may be used after body was abandoned
}

// abandonWith makes reads of body return when ctx ends, even if body blocks.
func (in *callInput) abandonWith(ctx context.Context) {
	x := contextSignal(ctx)
	in.exit = &x
}

func newInput(body io.Reader) *callInput {
	in := &callInput{body: body}
	if s, ok := body.(io.Seeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil { // a pipe has Seek, but it fails
			in.seeker, in.start = s, start
		}
	}
	return in
}

// rewind seeks the body back to its start. It fails if the body can't seek and a
// first attempt has read from it.
func (in *callInput) rewind() error {
	in.tries++
	switch {
	case in.tries == 1 || in.body == nil:
		return nil
	case in.seeker != nil:
		if _, err := in.seeker.Seek(in.start, io.SeekStart); err != nil {
			return fmt.Errorf("%w: the body can't be read again: %w", fault.Unavailable, err)
		}
	case in.read:
		return fmt.Errorf("%w: the workspace was evicted after part of the body was read, and the body can't seek; repeat the call", fault.Unavailable)
	}
	return nil
}

// reader returns what the driver reads. A body that can seek is passed unchanged,
// because drivers can copy a file faster than by reading it.
func (in *callInput) reader() io.Reader {
	if in.body == nil || in.seeker != nil {
		return in.body
	}
	return (*inputReader)(in)
}

type inputReader callInput

func (r *inputReader) Read(p []byte) (int, error) {
	r.read = true
	if r.exit == nil {
		n, err := r.body.Read(p)
		r.recordError(err)
		return n, err
	}
	if most := min(len(p), maxInput); len(r.buf) < most {
		r.buf = make([]byte, most)
	}
	var n int
	var failed error
	buf := r.buf[:min(len(p), len(r.buf))]
	err := runAbandonable(*r.exit, func() error {
		m, err := r.body.Read(buf)
		n, failed = m, err
		return nil
	})
	if err != nil {
		return 0, err
	}
	r.recordError(failed)
	return copy(p, buf[:n]), failed
}

// maxInput bounds one read from a body that may be abandoned.
const maxInput = 256 << 10

func (r *inputReader) recordError(err error) {
	if err != nil && err != io.EOF { //nolint:errorlint // a wrapped EOF is a failure
		r.err = err
	}
}

// classifyError adds a code to an error of the body that has none, so that it does not
// count as an internal error.
func (in *callInput) classifyError(err error) error {
	if err != nil && in.err != nil && fault.Of(err) == fault.Internal {
		return fmt.Errorf("%w: the body could not be read: %w", fault.Unavailable, err)
	}
	return err
}
