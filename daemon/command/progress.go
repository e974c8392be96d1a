package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/provider/remote"
	"github.com/croft-run/croft/workspace/driver"
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
	far := make(farness, 1)
	return ticking(ctx, out, what, far, func(ctx context.Context) {
		filter := remote.EventFilter{Kinds: []string{string(event.Progress)}, Workspace: id, Follow: true}
		c.Events(ctx, filter, func(data json.RawMessage) error { //nolint:errcheck // it ends with the context, or there is no more to tell
			e, err := event.Unmarshal(data)
			if err == nil {
				far.tell(e.Fields[event.FieldFiles], e.Fields[event.FieldBytes])
			}
			return err
		})
	})
}

// progressHere is progress for work that this process does under the context that
// it returns.
func (a *app) progressHere(ctx context.Context, what string) (_ context.Context, stop func()) {
	out, ok := terminal(a.Err)
	if !ok || a.json {
		return ctx, func() {}
	}
	far := make(farness, 1)
	told := driver.WithProgress(ctx, func(files, bytes int64) { far.tell(files, bytes) })
	return told, ticking(ctx, out, what, far, func(context.Context) {})
}

// A farness holds how far work is, until it is shown.
type farness chan string

func (f farness) tell(files, bytes any) {
	select {
	case f <- fmt.Sprintf("%v files, %v", files, size(bytes)):
	default:
	}
}

// ticking shows how far work is, which listen hears, until stop is called.
func ticking(ctx context.Context, out io.Writer, what string, far farness, listen func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { listen(ctx) })
	wg.Go(func() { tick(ctx, out, what, far) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// tick rewrites one line until the context ends, and then removes it.
func tick(ctx context.Context, out io.Writer, what string, far farness) {
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

// size returns a number of bytes, of whatever type an event has it, in a form for
// people.
func size(v any) string {
	n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil {
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
