package supervise

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
)

// A Connection is a provider's connection to a running guest.
type Connection interface {
	Gone() <-chan struct{} // closed when the guest has ended
	ExpectEnd()            // the guest is about to be ended on purpose
	Close() error
}

// An Attachment is the connection of one handle to the guest of its workspace. The first
// call that needs the guest connects. Its methods may be called from many goroutines.
type Attachment[C Connection] struct {
	Dir    wsdir.Dir
	Handle *wsdir.Handle

	// Connect finds the guest or starts it. It is called with guest.lock and the
	// attachment locked, and with a workspace that is current.
	Connect func(ctx context.Context) (C, error)

	sem       chan struct{} // semaphore for the fields below; a context ends the wait
	client    C
	connected bool
	closed    bool
}

// NewAttachment returns an attachment that is not connected.
func NewAttachment[C Connection](h *wsdir.Handle, d wsdir.Dir, connect func(ctx context.Context) (C, error)) *Attachment[C] {
	return &Attachment[C]{Dir: d, Handle: h, Connect: connect, sem: make(chan struct{}, 1)}
}

// Lock waits until no other goroutine connects or disconnects.
func (a *Attachment[C]) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case a.sem <- struct{}{}:
		return func() { <-a.sem }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", a.Dir.Kind, ctx.Err())
	}
}

// Guest returns the connection to the guest, and finds or starts the guest first if
// necessary. If the guest has ended since its last use, the error is Evicted, once.
func (a *Attachment[C]) Guest(ctx context.Context) (c C, err error) {
	if err := a.Handle.Current(); err != nil {
		return c, err
	}
	unlock, err := a.Lock(ctx)
	if err != nil {
		return c, err
	}
	defer unlock()
	if a.closed {
		return c, fmt.Errorf("%s: the workspace is closed: %w", a.Dir.Kind, fault.WrongState)
	}
	if !a.connected {
		return a.connect(ctx)
	}
	select {
	case <-a.client.Gone():
		a.Disconnect()
		return c, fmt.Errorf("%s: the guest of the workspace has ended: %w", a.Dir.Kind, fault.Evicted)
	default:
		return a.client, nil
	}
}

// connect connects under guest.lock: no other process finds, starts or ends the guest.
func (a *Attachment[C]) connect(ctx context.Context) (c C, err error) {
	lock, err := Lock(ctx, a.Dir.Path)
	if err != nil {
		if gone := a.Handle.Current(); gone != nil {
			return c, gone
		}
		return c, fmt.Errorf("%s: lock the guest: %w", a.Dir.Kind, err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	// A process that changes or removes the workspace does so before it takes the lock to
	// end the guest. So a workspace that is current now stays so until the unlock.
	if err := a.Handle.Current(); err != nil {
		return c, err
	}
	if c, err = a.Connect(ctx); err != nil {
		return c, err
	}
	a.client, a.connected = c, true
	return c, nil
}

// Disconnect closes the connection; the guest lives on. The attachment is locked.
func (a *Attachment[C]) Disconnect() {
	if a.connected {
		a.client.Close() //nolint:errcheck // the guest notices by itself
		var none C
		a.client, a.connected = none, false
	}
}

// ExpectEnd says that the guest is about to be ended on purpose.
func (a *Attachment[C]) ExpectEnd(ctx context.Context) error {
	unlock, err := a.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if a.connected {
		a.client.ExpectEnd()
	}
	return nil
}

// EndIfChanged ends a guest that does not run under key, and disconnects. The attachment is
// locked.
func (a *Attachment[C]) EndIfChanged(ctx context.Context, key string, hooks *Hooks) error {
	if rec := ReadRecord(a.Dir); rec != nil && rec.Key == key {
		return nil
	}
	if err := LockAndEnd(ctx, a.Dir, hooks); err != nil {
		return err
	}
	a.Disconnect()
	return nil
}

// Close disconnects for good; the guest lives on. Then it calls release, which may be nil,
// while the attachment is locked.
func (a *Attachment[C]) Close(ctx context.Context, release func() error) error {
	unlock, err := a.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	a.closed = true
	a.Disconnect()
	if release == nil {
		return nil
	}
	return release()
}
