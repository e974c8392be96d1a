package console

import (
	"context"
	"fmt"
	"os"
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

// ShowProgress shows a progress line on a terminal, from the progress events of a
// workspace. stop removes the line.
func (a *Console) ShowProgress(ctx context.Context, c Workspaces, id, what string) (stop func()) {
	if !a.showsProgress() {
		return func() {}
	}
	api, err := c.API(ctx)
	if err != nil {
		return func() {} // what is shown is no reason to fail
	}
	ctx, cancel := context.WithCancel(ctx)
	var now ProgressLine
	var listening sync.WaitGroup
	listening.Go(func() {
		filter := client.EventFilter{Kinds: []string{string(event.Progress)}, Workspace: id, Follow: true}
		api.Events(ctx, filter, func(e event.Event) error { //nolint:errcheck // it ends with the context, or progress is not shown
			now.Set(e.Fields[event.FieldFiles], e.Fields[event.FieldBytes])
			return nil
		})
	})
	end := a.startView(&now, what)
	return func() {
		cancel()
		listening.Wait()
		end()
	}
}

// ShowLocalProgress is ShowProgress for work of this process, under the returned
// context.
func (a *Console) ShowLocalProgress(ctx context.Context, what string) (_ context.Context, stop func()) {
	now, stop := a.StartProgress(what)
	if now != nil {
		ctx = driver.WithProgress(ctx, func(files, bytes int64) { now.Set(files, bytes) })
	}
	return ctx, stop
}

// StartProgress shows a line that says what is done and for how long, until stop. The caller
// may set counts in it; it is nil if no progress is shown.
func (a *Console) StartProgress(what string) (now *ProgressLine, stop func()) {
	if !a.showsProgress() {
		return nil, func() {}
	}
	now = new(ProgressLine)
	return now, a.startView(now, what)
}

// showsProgress reports whether standard error is a terminal that can redraw lines.
func (a *Console) showsProgress() bool {
	_, ok := TerminalFile(a.Err)
	return ok && !a.JSON && os.Getenv("TERM") != "dumb"
}

// A ProgressLine is the newest line of progress.
type ProgressLine struct{ atomic.Value }

// Set shows counts.
func (p *ProgressLine) Set(files, bytes any) {
	p.Store(fmt.Sprintf(": %v files, %v", files, sizeText(bytes)))
}

// A ByteCounter shows how many bytes were written to it.
type ByteCounter struct {
	Progress *ProgressLine
	n        int64
}

// Write counts the bytes.
func (c *ByteCounter) Write(data []byte) (int, error) {
	c.n += int64(len(data))
	c.Progress.Store(": " + sizeText(c.n))
	return len(data), nil
}

// startView shows the text in one line, once the work has taken longer than progressDelay.
// Notes are printed above it.
func (a *Console) startView(p *ProgressLine, what string) (stop func()) {
	start := time.Now()
	a.view = live.Start(a.Err, a.TerminalSize().Cols, func() []string {
		took := time.Since(start)
		if took <= progressDelay {
			return nil
		}
		now, _ := p.Load().(string)
		return []string{fmt.Sprintf("%s%s (%d s)", what, now, int(took.Seconds()))}
	})
	return func() {
		view := a.view
		a.view = nil
		view.Stop()
	}
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
