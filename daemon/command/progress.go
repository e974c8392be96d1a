package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/provider/remote"
)

// patient is how long a command works in silence.
const patient = time.Second

// progress shows on a terminal, while a command does long work on a workspace, how
// long it has been and how far it is. stop ends it, and leaves no trace.
func (a *app) progress(ctx context.Context, c *remote.Client, id, what string) (stop func()) {
	out, ok := terminal(a.Err)
	if !ok || a.json {
		return func() {}
	}
	return showProgress(ctx, out, c, id, what)
}

func showProgress(ctx context.Context, out io.Writer, c *remote.Client, id, what string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	far := make(chan string, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		filter := remote.EventFilter{Kinds: []string{string(event.Progress)}, Workspace: id, Follow: true}
		c.Events(ctx, filter, func(data json.RawMessage) error { //nolint:errcheck // it ends with the context, or there is no more to tell
			e, err := event.Unmarshal(data)
			if err != nil {
				return err
			}
			select {
			case far <- fmt.Sprintf("%v files, %v", e.Fields[event.FieldFiles], size(e.Fields[event.FieldBytes])):
			default:
			}
			return nil
		})
	})
	wg.Go(func() { tick(ctx, out, what, far) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// tick rewrites one line until the context ends, and then removes it.
func tick(ctx context.Context, out io.Writer, what string, far <-chan string) {
	const clear = "\r\x1b[K"
	start, now := time.Now(), ""
	ticker := time.NewTicker(patient / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if time.Since(start) > patient {
				fmt.Fprint(out, clear)
			}
			return
		case now = <-far:
			now = ": " + now
		case <-ticker.C:
		}
		if time.Since(start) > patient {
			fmt.Fprintf(out, "%s%s%s (%d s)", clear, what, now, int(time.Since(start).Seconds()))
		}
	}
}

// size returns a number of bytes, as JSON has it, in a form for people.
func size(v any) string {
	n, ok := v.(float64)
	if !ok {
		return fmt.Sprint(v)
	}
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if n < 1024 {
			return fmt.Sprintf("%.0f %s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.1f GiB", n)
}
