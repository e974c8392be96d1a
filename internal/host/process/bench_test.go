package process

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// plainTrue is what a command costs at least in a Go program.
func plainTrue(b *testing.B, null *os.File) {
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

// A way is one way to run true.
type way struct {
	name string
	run  func()
}

// BenchmarkTrue compares what a command costs through a Manager.
func BenchmarkTrue(b *testing.B) {
	thread, err := NewThreadStarter(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(thread.Close)
	compare(b, []way{
		{"manager", trueThrough(b, &Options{LogDir: b.TempDir()})},
		{"thread", trueThrough(b, &Options{Starter: thread})},
		{"exec", func() {
			if _, err := exec.Command("/bin/true").Output(); err != nil {
				b.Fatal(err)
			}
		}},
	})
}

// compare runs true in every way in turn, so that what else the machine does
// hits all of them, and reports each as a ratio to plain fork, exec and wait: of
// the fastest tenth, and of the median.
func compare(b *testing.B, ways []way) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	ways = append([]way{{"plain", func() { plainTrue(b, null) }}}, ways...)
	times := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			start := time.Now()
			way.run()
			times[i] = append(times[i], time.Since(start))
		}
	}
	at := func(i, percent int) float64 {
		slices.Sort(times[i])
		return float64(times[i][len(times[i])*percent/100])
	}
	b.ReportMetric(at(0, 10)/1e3, "plain-p10-us")
	for i, way := range ways[1:] {
		b.ReportMetric(at(i+1, 10)/at(0, 10), way.name+"-p10-x")
		b.ReportMetric(at(i+1, 50)/at(0, 50), way.name+"-p50-x")
	}
}

func trueThrough(b *testing.B, opts *Options) func() {
	opts.Root = b.TempDir()
	m, err := New(opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close(b.Context()) })
	return func() {
		r, err := m.Run(b.Context(), driver.Command{Argv: []string{"/bin/true"}})
		if err != nil || !r.Succeeded() {
			b.Fatalf("Run = %+v, %v", r, err)
		}
	}
}

func BenchmarkOutput(b *testing.B) {
	m := newManager(b, &Options{MaxLog: 1 << 20})
	b.SetBytes(64 << 20)
	for b.Loop() {
		r, err := m.Run(b.Context(), driver.Command{Argv: []string{"head", "-c", "67108864", "/dev/zero"}})
		if err != nil || !r.Succeeded() {
			b.Fatalf("Run: %v", err)
		}
	}
}
