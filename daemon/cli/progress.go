package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/live"
	"github.com/croft-run/croft/workspace/driver"
)

// progressDelay is how long a command works in silence.
const progressDelay = time.Second

// showProgress shows on a terminal, while a command does long work on a workspace, how
// long it has been and how far it is. stop ends it, and leaves no trace.
func (a *command) showProgress(ctx context.Context, c *client.Client, id, what string) (stop func()) {
	out, ok := terminalFile(a.Err)
	if !ok || a.json {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var now progressLine
	var listening sync.WaitGroup
	listening.Go(func() {
		filter := client.EventFilter{Kinds: []string{string(event.Progress)}, Workspace: id, Follow: true}
		c.Events(ctx, filter, func(data json.RawMessage) error { //nolint:errcheck // it ends with the context, or there is no more to tell
			e, err := event.Unmarshal(data)
			if err == nil {
				now.set(e.Fields[event.FieldFiles], e.Fields[event.FieldBytes])
			}
			return err
		})
	})
	view := now.startView(out, a.terminalSize().Cols, what)
	return func() {
		cancel()
		listening.Wait()
		view.Stop()
	}
}

// showLocalProgress is progress for work that this process does under the context that
// it returns.
func (a *command) showLocalProgress(ctx context.Context, what string) (_ context.Context, stop func()) {
	out, ok := terminalFile(a.Err)
	if !ok || a.json {
		return ctx, func() {}
	}
	var now progressLine
	told := driver.WithProgress(ctx, func(files, bytes int64) { now.set(files, bytes) })
	return told, now.startView(out, a.terminalSize().Cols, what).Stop
}

// A progressLine says how far work is.
type progressLine struct{ atomic.Value }

func (p *progressLine) set(files, bytes any) {
	p.Store(fmt.Sprintf(": %v files, %v", files, sizeText(bytes)))
}

// startView shows the text in one line, once the work has taken longer than patient.
func (p *progressLine) startView(out io.Writer, width int, what string) *live.View {
	start := time.Now()
	return live.Start(out, width, func() []string {
		took := time.Since(start)
		if took <= progressDelay {
			return nil
		}
		now, _ := p.Load().(string)
		return []string{fmt.Sprintf("%s%s (%d s)", what, now, int(took.Seconds()))}
	})
}

// sizeText returns a number of bytes, of whatever type an event has it, in a form for
// people.
func sizeText(v any) string {
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
