package guest

import (
	"context"
	"io"
	"sync"

	"github.com/croft-run/croft/guest/guestpb"
)

// A pull is the output of a session that waits for the host to take it: the
// process stands still while the host is slow. When the client that asked for
// it is gone the output flows on, into the log alone.
type pull struct {
	client         string
	stdout, stderr *outPipe
	stdin          *io.PipeWriter // set where the host sends standard input in pieces
}

func newPull(pb *guestpb.Command) *pull {
	p := &pull{client: pb.Client, stdout: newOutPipe(), stderr: newOutPipe()}
	if !pb.PullStdout {
		p.stdout.drop()
	}
	if !pb.PullStderr {
		p.stderr.drop()
	}
	return p
}

// release lets output flow without anyone taking it.
func (p *pull) release() {
	p.stdout.drop()
	p.stderr.drop()
}

// finish says that no more output comes.
func (p *pull) finish() {
	p.stdout.close()
	p.stderr.close()
	if p.stdin != nil {
		p.stdin.CloseWithError(io.ErrClosedPipe) // it always answers nil
	}
}

// wait waits until all was taken, or dropped.
func (p *pull) wait() {
	<-p.stdout.drained
	<-p.stderr.drained
}

// An outPipe holds one piece of output at a time.
type outPipe struct {
	mu      sync.Mutex
	cond    *sync.Cond
	data    []byte
	closed  bool
	dropped bool
	drained chan struct{}
	once    sync.Once
}

func newOutPipe() *outPipe {
	p := &outPipe{drained: make(chan struct{})}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// put waits until data was taken, or nobody will.
func (p *outPipe) put(data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = data
	p.cond.Broadcast()
	for len(p.data) > 0 && !p.dropped && !p.closed {
		p.cond.Wait()
	}
	p.data = nil
	return nil
}

// take waits for data and returns a copy of at most limit bytes.
func (p *outPipe) take(ctx context.Context, limit int) (data []byte, eof bool, err error) {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cond.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.data) == 0 && !p.closed && !p.dropped && ctx.Err() == nil {
		p.cond.Wait()
	}
	if len(p.data) > 0 && !p.dropped {
		n := min(limit, len(p.data))
		data = append([]byte(nil), p.data[:n]...)
		p.data = p.data[n:]
		if len(p.data) == 0 {
			p.cond.Broadcast()
		}
		return data, false, nil
	}
	if p.closed || p.dropped {
		p.once.Do(func() { close(p.drained) })
		return nil, true, nil
	}
	return nil, false, ctx.Err()
}

// close ends the pipe after the last put, which has returned.
func (p *outPipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.cond.Broadcast()
	if p.dropped {
		p.once.Do(func() { close(p.drained) })
	}
}

// drop lets everything by from now on.
func (p *outPipe) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = true
	p.cond.Broadcast()
	if p.closed {
		p.once.Do(func() { close(p.drained) })
	}
}
