package live

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		start := time.Now()
		v := Start(&out, 12, func() []string {
			if time.Since(start) < time.Second {
				return nil
			}
			return []string{"working", "for a long, long time"}
		})
		time.Sleep(900 * time.Millisecond)
		v.mu.Lock()
		if out.String() != "" {
			t.Errorf("without lines there is %q", out.String())
		}
		v.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		v.Print("done: a\n")
		v.Stop()
		lines := "working\nfor a long,\n"
		if got, want := out.String(), lines+"\x1b[2A\x1b[Jdone: a\n"+lines+"\x1b[2A\x1b[J"; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
