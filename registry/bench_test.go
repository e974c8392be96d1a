package registry

import (
	"testing"
)

func BenchmarkAcquireLive(b *testing.B) {
	g := newRig(b, nil)
	id := g.create(nil)
	g.acquireOK(id)
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.Acquire(b.Context(), id); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := g.Acquire(b.Context(), id); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func BenchmarkCreateAcquireDestroy(b *testing.B) {
	g := newRig(b, nil)
	for b.Loop() {
		id := g.create(nil)
		g.acquireOK(id)
		if err := g.Destroy(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenStore(b *testing.B) {
	url := sqliteURL(b)
	openStore(b, url)
	for b.Loop() {
		s, err := OpenStore(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
