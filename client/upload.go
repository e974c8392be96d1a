package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/croft-run/croft/fault"
)

// An upload is the body of a write. It records the error of its source, which the error
// of the transport does not contain, and refuses to send more than max bytes. After stop
// it does not read from the source, although the transport may still use the upload.
type upload struct {
	ctx  context.Context // of the call; when it ends, reads fail
	name string
	max  int64 // 0 is no limit

	mu     sync.Mutex // held while the source is read
	source io.Reader
	sent   int64
	err    error // of the source
	ended  bool
}

func newUpload(ctx context.Context, name string, source io.Reader, most int64) *upload {
	return &upload{ctx: ctx, name: name, source: source, max: most}
}

func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return 0, io.ErrClosedPipe
	}
	n, err := u.source.Read(p)
	if cause := u.ctx.Err(); cause != nil {
		n, err = 0, cause // the transport may notice the end of ctx only after the whole body was sent
	}
	u.sent += int64(n)
	if u.max > 0 && u.sent > u.max {
		n, err = 0, fmt.Errorf("client: write %s: %w: it has more than %d bytes", u.name, fault.ResourceExhausted, u.max)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

// stop ends the upload and returns the error of its source. It waits for a read that is
// under way, unless ctx has ended.
func (u *upload) stop(ctx context.Context) error {
	if ctx.Err() != nil && !u.mu.TryLock() {
		return nil // a read of the source may be blocked
	} else if ctx.Err() == nil {
		u.mu.Lock()
	}
	defer u.mu.Unlock()
	u.ended = true
	return u.err
}
