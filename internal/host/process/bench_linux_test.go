package process

import (
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkTrueSubreaper is apart because a subreaper tolerates no other Manager
// in its process.
func BenchmarkTrueSubreaper(b *testing.B) {
	b.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	thread, err := NewThreadStarter(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(thread.Close)
	compare(b, []way{{"subreaper", trueThrough(b, &Options{Subreaper: true, Starter: thread})}})
}
