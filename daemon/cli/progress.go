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

// progressDelay is the time before progress is shown.
const progressDelay = time.Second

// showProgress shows a progress line on a terminal, from the progress events of a
// workspace. stop removes the line.
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
		c.Events(ctx, filter, func(data json.RawMessage) error { //nolint:errcheck // it ends with the context, or progress is not shown
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

// showLocalProgress is showProgress for work of this process, under the returned
// context.
func (a *command) showLocalProgress(ctx context.Context, what string) (_ context.Context, stop func()) {
	out, ok := terminalFile(a.Err)
	if !ok || a.json {
		return ctx, func() {}
	}
	var now progressLine
	ctx = driver.WithProgress(ctx, func(files, bytes int64) { now.set(files, bytes) })
	return ctx, now.startView(out, a.terminalSize().Cols, what).Stop
}

// A progressLine is the newest line of progress.
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

// sizeText formats a number of bytes, of any type that an event has.
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
