package guestproto

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestOwnThread: what changes its thread for good never runs on the main thread.
func TestOwnThread(t *testing.T) {
	for range 1000 {
		var main bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			onOwnThread(func() { main = unix.Gettid() == unix.Getpid() })
		}()
		if <-done; main {
			t.Fatal("it ran on the main thread")
		}
	}
}
