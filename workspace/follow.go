package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Polling intervals of Follow, with exponential backoff while there is no output. The
// maximum is short enough for an interactive session.
const (
	followLeast = time.Millisecond
	followMost  = 20 * time.Millisecond
)

// Follow calls f with the log of a stream from offset on, and then with new output,
// until the command has ended and f got everything. It moves no cursor, so a session
// can be followed any number of times. An error of f ends it and is returned. It is
// one operation, however long it takes.
func (s *Session) Follow(ctx context.Context, stream driver.Stream, offset int64, f func(driver.LogChunk) error) error {
	ctx, release := s.w.inflight.withCloseCancel(ctx)
	defer release()
	return s.call(ctx, verbFollow, func(ctx context.Context, p *driver.Session) error {
		if p.Log == nil {
			return fmt.Errorf("session %s: logs: %w by this provider", s.id, fault.Unsupported)
		}
		if offset < 0 || stream != driver.Stdout && stream != driver.Stderr {
			return fmt.Errorf("follow: %w: the streams are %s and %s, and the offset must not be negative", fault.InvalidArgument, driver.Stdout, driver.Stderr)
		}
		left := s.w.inflight.closing()
		return followLog(ctx, p, stream, offset, func(chunk driver.LogChunk) error {
			return runAbandonable(left, func() error { return f(chunk) })
		})
	})
}

func followLog(ctx context.Context, p *driver.Session, stream driver.Stream, offset int64, f func(driver.LogChunk) error) error {
	pause := followLeast
	for over := false; ; {
		chunk, err := p.Log(ctx, stream, offset, 0)
		if err != nil {
			return err
		}
		if len(chunk.Data) > 0 {
			if err := f(chunk); err != nil {
				return err
			}
			offset, pause = chunk.Next, followLeast
			continue
		}
		if over {
			return nil
		}
		info, err := p.State(ctx)
		if err != nil {
			return err
		}
		if over = !info.Running; over {
			continue // it may have written between the read of the log and its end
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("follow: %w", context.Cause(ctx))
		case <-time.After(pause):
			pause = min(2*pause, followMost)
		}
	}
}
