package gclater

import (
	"runtime/debug"
	"testing"
	"time"
)

func TestRestore(t *testing.T) {
	if now := debug.SetGCPercent(800); now != 800 {
		t.Fatalf("the percentage at the start is %d", now)
	}
	Restore()
	for till := time.Now().Add(time.Minute); time.Now().Before(till); time.Sleep(100 * time.Millisecond) {
		now := debug.SetGCPercent(800)
		if now == percent {
			return
		}
		if now != 800 {
			t.Fatalf("the percentage is %d, want %d", now, percent)
		}
	}
	t.Errorf("the percentage was not restored to %d", percent)
}
