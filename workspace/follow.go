package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// How often Follow looks: at once after something came, and ever more seldom
// while nothing does, yet often enough for somebody who types.
const (
	followLeast = time.Millisecond
	followMost  = 20 * time.Millisecond
)

// Follow gives f what the log of a stream holds from offset on, and then what
// comes, until the command has ended and f has seen all. It moves no cursor, so
// any number may follow one session. An error of f ends it and is returned. It is
// one operation, however long it takes.
func (s *Session) Follow(ctx context.Context, stream driver.Stream, offset int64, f func(driver.LogChunk) error) error {
	ctx, release := s.w.gate.hold(ctx)
	defer release()
	return s.do(ctx, verbFollow, func(ctx context.Context, p *driver.Session) error {
		if p.Log == nil {
			return fmt.Errorf("session %s: logs: %w by this provider", s.id, fault.Unsupported)
		}
		if offset < 0 || stream != driver.Stdout && stream != driver.Stderr {
			return fmt.Errorf("follow: %w: the streams are %s and %s, and the offset must not be negative", fault.InvalidArgument, driver.Stdout, driver.Stderr)
		}
		left := s.w.gate.exiting()
		return follow(ctx, p, stream, offset, func(chunk driver.LogChunk) error {
			return aside(left, func() error { return f(chunk) })
		})
	})
}

func follow(ctx context.Context, p *driver.Session, stream driver.Stream, offset int64, f func(driver.LogChunk) error) error {
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
			continue // what it wrote last may have come after the look at the log
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("follow: %w", context.Cause(ctx))
		case <-time.After(pause):
			pause = min(2*pause, followMost)
		}
	}
}
