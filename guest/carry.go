package guest

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/croft-run/croft/workspace/driver"
)

// maxPieces is how many pieces of an output wait for their callback before the
// command that writes them has to.
const maxPieces = 64

// carriers hand what comes over the lane to the callbacks of a command. Each has a
// goroutine of its own: one that waits keeps nobody from the other output, nor from
// hearing how the command ended.
type carriers struct {
	to map[byte]chan []byte // by the bit of the stream
	wg sync.WaitGroup

	mu         sync.Mutex
	complaints []string // +checklocks:mu; what callbacks answered
}

// carry starts the carriers of a command, whose order says then what it wants.
func carry(cmd *driver.Command) *carriers {
	c := &carriers{to: map[byte]chan []byte{}}
	for bit, take := range map[byte]func([]byte) error{streamStdout: cmd.OnStdout, streamStderr: cmd.OnStderr} {
		if take == nil {
			continue
		}
		queue := make(chan []byte, maxPieces)
		c.to[bit] = queue
		c.wg.Go(func() {
			for text := range queue {
				c.note(guarded(take, text))
			}
		})
	}
	return c
}

// streams are the outputs of a command that are to come as they are written.
func streams(cmd *driver.Command) (bits int64) {
	if cmd.OnStdout != nil {
		bits |= streamStdout
	}
	if cmd.OnStderr != nil {
		bits |= streamStderr
	}
	return bits
}

func (c *carriers) note(err error) {
	const most = 16
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && len(c.complaints) < most {
		c.complaints = append(c.complaints, err.Error())
	}
}

// put hands a piece on. What nobody asked for is nonsense.
func (c *carriers) put(ctx context.Context, stream byte, text []byte) error {
	queue := c.to[stream]
	if queue == nil || len(text) > maxChunk {
		return errNonsense
	}
	select {
	case queue <- slices.Clone(text):
		return nil
	case <-ctx.Done():
		return io.EOF
	}
}

// end waits until the callbacks have seen all, or ctx ends: those that never return
// are left behind then.
func (c *carriers) end(ctx context.Context) error {
	for _, queue := range c.to {
		close(queue)
	}
	if len(c.to) == 0 {
		return nil
	}
	done := make(chan struct{})
	go func() { // ends with the callbacks
		defer close(done)
		c.wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return io.EOF
	}
}

// said is what the callbacks answered.
func (c *carriers) said() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.complaints)
}
