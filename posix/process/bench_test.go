package process

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// BenchmarkTrue compares what a command costs through a Manager with what it
// costs at least.
func BenchmarkTrue(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{
				Dir: "/tmp", Env: []string{"PATH=/bin"}, Files: []uintptr{null.Fd(), null.Fd(), null.Fd()},
			})
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := wait4(pid); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("manager", func(b *testing.B) { benchTrue(b, &Options{}) })
	b.Run("thread", func(b *testing.B) {
		starter, err := NewThreadStarter(nil)
		if err != nil {
			b.Fatal(err)
		}
		defer starter.Close()
		benchTrue(b, &Options{Starter: starter, LogDir: b.TempDir()})
	})
	b.Run("subreaper", func(b *testing.B) { benchTrue(b, &Options{Subreaper: true}) })
	b.Run("os-exec", func(b *testing.B) {
		for b.Loop() {
			if _, err := exec.Command("/bin/true").Output(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchTrue(b *testing.B, opts *Options) {
	opts.Root = b.TempDir()
	m, err := New(opts)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close(b.Context())
	for b.Loop() {
		r, err := m.Run(b.Context(), driver.Command{Argv: []string{"/bin/true"}})
		if err != nil || !r.Succeeded() {
			b.Fatalf("Run = %+v, %v", r, err)
		}
	}
}
