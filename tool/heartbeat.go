package tool

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/croft-run/croft/internal/plaintext"
)

// DefaultHeartbeat is the default of Config.Heartbeat.
const DefaultHeartbeat = 5 * time.Second

// heartbeat reports at intervals that the call still runs, if the client asked for progress: a
// client may end a call of which it hears nothing. The returned function ends it.
func (c *Call) heartbeat(ctx context.Context) (stop func()) {
	if c.progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		begin, every := time.Now(), time.NewTicker(c.Env.Heartbeat)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				p := c.lastProgress()
				text := fmt.Sprintf("still running, %d s", int(time.Since(begin).Seconds()))
				if line := c.output.lastLine(c.scrub.Bytes); line != "" {
					text += ", last line: " + line
				} else if p.Message != "" {
					text += ": " + p.Message
				}
				p.Message = text
				c.progress(p)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (c *Call) lastProgress() Progress {
	c.reportedMu.Lock()
	defer c.reportedMu.Unlock()
	return c.reported
}

// outputTail is the end of the output of the command of a call.
type outputTail struct {
	mu   sync.Mutex
	data []byte // guarded by mu
}

// maxTail is the size of an outputTail, and maxLine that of its last line.
const (
	maxTail = 4 << 10
	maxLine = 200
)

func (o *outputTail) write(data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data = append(o.data, data[max(len(data)-maxTail, 0):]...)
	o.data = append([]byte(nil), o.data[max(len(o.data)-maxTail, 0):]...)
	return nil
}

// lastLine returns the last complete line; "" if there is none. It is scrubbed together with
// the lines before it.
func (o *outputTail) lastLine(scrub func([]byte) []byte) string {
	o.mu.Lock()
	data := bytes.Clone(o.data)
	o.mu.Unlock()
	end := bytes.LastIndexByte(data, '\n')
	if end < 0 {
		return ""
	}
	data = bytes.TrimSpace([]byte(plaintext.Clean(string(scrub(data[:end])))))
	line := data[bytes.LastIndexByte(data, '\n')+1:]
	return string(bytes.ToValidUTF8(line[:min(len(line), maxLine)], nil))
}
