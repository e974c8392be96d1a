// Package live redraws status lines at the bottom of a terminal while output scrolls
// above them.
package live

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// A View is a set of status lines. It is safe for concurrent use.
type View struct {
	out   io.Writer
	width int
	lines func() []string

	stop chan struct{}
	wg   sync.WaitGroup

	mu    sync.Mutex
	drawn int  // lines on the terminal that are to be erased
	ended bool // after Stop: status lines are no longer drawn
}

// Start draws what lines returns every quarter of a second, each line cut to the width of
// the terminal.
func Start(out io.Writer, width int, lines func() []string) *View {
	v := &View{out: out, width: width, lines: lines, stop: make(chan struct{})}
	v.wg.Go(func() {
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				v.Print("")
			case <-v.stop:
				return
			}
		}
	})
	return v
}

// Stop erases the lines.
func (v *View) Stop() {
	close(v.stop)
	v.wg.Wait()
	v.mu.Lock()
	v.ended = true
	v.mu.Unlock()
	v.Print("")
}

// Print writes text above the status lines, and redraws these unless the view was
// stopped.
func (v *View) Print(stays string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var lines []string
	if !v.ended {
		lines = v.lines()
	}
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", v.drawn)
	}
	b.WriteString(stays)
	for _, line := range lines {
		if r := []rune(line); len(r) >= v.width { // a terminal would wrap it
			line = string(r[:v.width-1])
		}
		b.WriteString(line + "\n")
	}
	v.drawn = len(lines)
	if b.Len() == 0 {
		return
	}
	io.WriteString(v.out, b.String()) //nolint:errcheck // status output; an error is ignored
}
