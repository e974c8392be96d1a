package workspace

import (
	"bytes"
	"io"
	"testing"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// BenchmarkReadFile shows what the handle adds to the driver's own read.
func BenchmarkReadFile(b *testing.B) {
	d := openMemory(b, new(memory.Provider))
	data := bytes.Repeat([]byte("x"), 4096)
	if _, err := d.FS.Write(b.Context(), "a/b/c", bytes.NewReader(data), &driver.WriteOptions{Parents: true}); err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.Run("driver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body, info, err := d.FS.Read(ctx, "a/b/c", &driver.ReadOptions{})
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, info.Size)
			if _, err := io.ReadFull(body, buf); err != nil {
				b.Fatal(err)
			}
			body.Close()
		}
	})
	run := func(name string, opts *Options) {
		w := newHandle(b, d, opts)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.ReadFile(ctx, "a/b/c"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("handle", nil)
	run("handle with events", &Options{Events: event.NewStream(event.NewRing(100))})
}

// BenchmarkStat is a call that does next to nothing below the handle.
func BenchmarkStat(b *testing.B) {
	d := openMemory(b, new(memory.Provider))
	ctx := b.Context()
	b.Run("driver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.FS.Stat(ctx, ".", &driver.StatOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	w := newHandle(b, d, nil)
	b.Run("handle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.Stat(ctx, ".", nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
