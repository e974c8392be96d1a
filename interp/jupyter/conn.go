package jupyter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	maxLine = 64 << 20 // maximum length of a line of the bridge
	maxTail = 4 << 10  // bytes of its standard error to keep
)

// A bridgeRequest is a line to the bridge.
type bridgeRequest struct {
	Op    string `json:"op"`
	ID    int    `json:"id,omitempty"`
	Code  string `json:"code"` // may be empty
	Limit int64  `json:"limit,omitempty"`
}

// A bridgeMessage is a line from the bridge.
type bridgeMessage struct {
	T         string            `json:"t"`
	ID        int               `json:"id"`
	Kind      string            `json:"kind"`
	Message   string            `json:"message"`
	Installed []string          `json:"installed"`
	Socket    string            `json:"socket"`
	Python    string            `json:"python"`
	Text      string            `json:"text"`
	Data      map[string][]byte `json:"data"`
	Status    string            `json:"status"`
	Name      string            `json:"ename"`
	Value     string            `json:"evalue"`
	Traceback []string          `json:"traceback"`
	Count     int               `json:"count"`
	Dropped   int64             `json:"dropped"`
}

// A conn reads lines of the bridge from a session: that of the bridge itself, which says how it is
// reached, or one that relays its socket.
type conn struct {
	session *driver.Session

	messages chan bridgeMessage // to start or run, whichever waits
	restarts chan int           // ids of completed restarts
	gone     chan struct{}      // closed when the session has ended
	left     chan struct{}      // closed by leave

	leaving sync.Once
	last    int // id of the last run; guarded by the kernel's sem

	restarting  sync.Mutex
	lastRestart int // guarded by restarting

	mu    sync.Mutex
	input []byte // guarded by mu; an incomplete line
	tail  []byte // guarded by mu; the end of its standard error
}

// startConn starts a session whose output is lines of the bridge.
func startConn(ctx context.Context, shell *driver.Shell, cmd driver.Command) (*conn, error) {
	c := &conn{
		messages: make(chan bridgeMessage, 64), restarts: make(chan int, 64), gone: make(chan struct{}), left: make(chan struct{}),
	}
	cmd.OnStdout, cmd.OnStderr, cmd.MaxOutput = c.readStdout, c.readStderr, 1
	life := context.WithoutCancel(ctx)
	session, err := shell.Start(life, cmd)
	if err != nil {
		return nil, err
	}
	c.session = session
	go func() {
		defer close(c.gone)
		_, _ = session.Wait(life) // it has ended, or the handle on the workspace has
	}()
	return c, nil
}

// readStdout parses output of the bridge. The bridge blocks meanwhile, so a slow consumer
// slows the bridge instead of filling memory.
func (c *conn) readStdout(data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.input = append(c.input, data...)
	if len(c.input) > maxLine {
		c.input = nil
	}
	if bytes.IndexByte(data, '\n') < 0 {
		return nil // the line is incomplete; what came before is not searched again
	}
	rest := c.input
	for {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			c.input = bytes.Clone(rest)
			return nil
		}
		rest = after
		var m bridgeMessage
		switch err := json.Unmarshal(line, &m); {
		case err != nil:
		case m.T == "restarted":
			select {
			case c.restarts <- m.ID:
			default: // no receiver waits for it
			}
		default:
			select {
			case c.messages <- m:
			case <-c.left:
			}
		}
	}
}

func (c *conn) readStderr(data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = append(c.tail, data...)
	if n := len(c.tail); n > maxTail {
		c.tail = bytes.Clone(c.tail[n-maxTail:])
	}
	return nil
}

var errGone = errors.New("the kernel has ended")

// nextMessage waits for a message.
func (c *conn) nextMessage(ctx context.Context) (bridgeMessage, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-ctx.Done():
		return bridgeMessage{}, ctx.Err()
	case <-c.gone:
	}
	select { // messages before the end
	case m := <-c.messages:
		return m, nil
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return bridgeMessage{}, fmt.Errorf("%w: %w: %s", fault.Unavailable, errGone, bytes.TrimSpace(c.tail))
}

// sendRequest sends a request to the bridge.
func (c *conn) sendRequest(ctx context.Context, r bridgeRequest) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("jupyter: %s: %w: %w", r.Op, fault.InvalidArgument, err)
	}
	if err := c.session.Write(ctx, append(line, '\n')); err != nil {
		return fmt.Errorf("jupyter: %s: %w: %w", r.Op, fault.Unavailable, err)
	}
	return nil
}

// leave lets messages pass that nobody reads.
func (c *conn) leave() { c.leaving.Do(func() { close(c.left) }) }

func (c *conn) hasEnded() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// close ends the session; a kernel behind its relay lives on.
func (c *conn) close(ctx context.Context) error {
	c.leave()
	return c.session.Close(ctx)
}

// restart restarts the kernel; a running run ends.
func (c *conn) restart(ctx context.Context, id string, limit time.Duration) error {
	c.restarting.Lock()
	defer c.restarting.Unlock()
	c.lastRestart++
	if err := c.sendRequest(ctx, bridgeRequest{Op: "restart", ID: c.lastRestart}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		select {
		case done := <-c.restarts:
			if done == c.lastRestart {
				return nil
			}
		case <-c.gone:
			return fmt.Errorf("jupyter: restart %s: %w: %w", id, fault.NotFound, errGone)
		case <-ctx.Done():
			return fmt.Errorf("jupyter: restart %s: %w", id, ctx.Err())
		}
	}
}
