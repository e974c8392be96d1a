// Package live shows on a terminal, below what stays, lines that change while work goes on.
package live

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// A View is the lines of some work. It is safe for concurrent use.
type View struct {
	out   io.Writer
	width int
	lines func() []string

	stop chan struct{}
	wg   sync.WaitGroup

	mu    sync.Mutex
	drawn int  // lines on the terminal that are to be erased
	ended bool // only what stays is written
}

// Start shows what lines returns, again every quarter of a second, each cut to the width
// of the terminal.
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

// Print writes text that stays, and shows the lines anew below it, unless the view was
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
	io.WriteString(v.out, b.String()) //nolint:errcheck // it is for people, and there is nothing to do about it
}
