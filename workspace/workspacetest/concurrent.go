package workspacetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var concurrencyChecks = []Check{
	{"Concurrency/mixed-operations", needFS, concurrentMixed},
	{"Concurrency/each-writes-its-own", needFS, concurrentOwn},
	{"Concurrency/two-handles-on-one-workspace", needFS, concurrentHandles},
	{"Concurrency/Resolve-while-in-use", needFS, concurrentResolve},
	{"Concurrency/Destroy-while-in-use", needFS, concurrentDestroy},
}

const workers = 32

// randomOperation does one random operation on a few shared names. Concurrent operations may
// make it fail, but only with the expected codes.
func randomOperation(ctx context.Context, p *testWorkspace, rng *rand.Rand) error {
	name := fmt.Sprintf("d%d/f%d", rng.IntN(2), rng.IntN(4))
	other := fmt.Sprintf("d%d/f%d", rng.IntN(2), rng.IntN(4))
	parents := &workspace.WriteOptions{Parents: true}
	var err error
	switch rng.IntN(12) {
	case 0, 1, 2:
		_, err = p.WriteFile(ctx, name, bytes.Repeat([]byte{'a' + byte(rng.IntN(26))}, 1+rng.IntN(9000)), parents)
	case 3, 4:
		var data []byte
		if data, err = p.ReadFile(ctx, name); err == nil && len(data) > 0 && !isUniform(data) {
			return fmt.Errorf("%s holds a mixture of two writes: %w", name, fault.Internal)
		}
	case 5:
		_, err = p.Stat(ctx, name, &workspace.StatOptions{Digest: true})
	case 6:
		_, err = p.List(ctx, ".", &workspace.ListOptions{Depth: -1})
	case 7:
		err = p.Remove(ctx, name, nil)
	case 8:
		err = p.Rename(ctx, name, other, &workspace.RenameOptions{Parents: true})
	case 9:
		err = p.Copy(ctx, name, other, &workspace.CopyOptions{Parents: true})
	case 10:
		_, err = p.Glob(ctx, "**", nil)
	case 11:
		_, err = p.Grep(ctx, "z", &workspace.GrepOptions{MaxMatches: 5})
	}
	return err
}

func isUniform(data []byte) bool {
	return len(bytes.Trim(data, string(data[:1]))) == 0
}

// runConcurrently runs mixed operations in many goroutines and reports errors with unexpected
// codes.
func runConcurrently(ctx context.Context, t testing.TB, places []*testWorkspace, rounds int, codes ...fault.Code) {
	t.Helper()
	allowed := map[fault.Code]bool{"": true, fault.NotFound: true, fault.Conflict: true, fault.InvalidArgument: true, fault.AlreadyExists: true}
	for _, c := range codes {
		allowed[c] = true
	}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range rounds {
				if err := randomOperation(ctx, places[i%len(places)], rng); !allowed[fault.Of(err)] {
					t.Errorf("got %q: %v", fault.Of(err), err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func concurrentMixed(t testing.TB, e *Env) {
	p := e.open(t)
	runConcurrently(t.Context(), t, []*testWorkspace{p}, 15)
	p.wantUsable(t)
	for _, info := range p.listTree(t) {
		if info.Type == driver.TypeFile && info.Path != "it-works" {
			if data, err := p.ReadFile(t.Context(), info.Path); err != nil || len(data) > 0 && !isUniform(data) {
				t.Errorf("%q holds a mixture of two writes, or can't be read: %v", info.Path, err)
			}
		}
	}
}

func concurrentOwn(t testing.TB, e *Env) {
	p := e.open(t)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			name := fmt.Sprintf("dir-%d/sub/file-%d", i%4, i)
			for n := range 5 {
				want := fmt.Sprintf("%d by %d", n, i)
				if _, err := p.WriteFile(t.Context(), name, []byte(want), &workspace.WriteOptions{Parents: true}); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				if got, err := p.ReadFile(t.Context(), name); err != nil || string(got) != want {
					t.Errorf("a writer reads %q, %v from its own file, want %q", got, err, want)
				}
			}
		})
	}
	wg.Wait()
	if got, want := len(p.listTree(t)), workers+8; got != want {
		t.Errorf("there are %d entries, want %d", got, want)
	}
}

func concurrentHandles(t testing.TB, e *Env) {
	p := e.open(t)
	q := e.resolve(t, p.spec, p.Ref())
	runConcurrently(t.Context(), t, []*testWorkspace{p, q}, 10)
	p.write(t, "last", "seen by both")
	q.wantContent(t, "last", "seen by both")
}

func concurrentResolve(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "kept")
	provider := e.sharedProvider(t)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			d, err := provider.Resolve(t.Context(), p.Ref())
			if err != nil {
				t.Errorf("Resolve: %v", err)
				return
			}
			if body, _, err := d.FS.Read(t.Context(), "file", &driver.ReadOptions{}); err != nil {
				t.Errorf("Read: %v", err)
			} else if got, err := readAll(body); err != nil || got != "kept" {
				t.Errorf("Read gives %q, %v", got, err)
			}
			if err := d.Life.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	p.wantContent(t, "file", "kept")
}

// concurrentDestroy destroys a workspace that is in use. The concurrent calls return
// errors with a code, and recreate nothing.
func concurrentDestroy(t testing.TB, e *Env) {
	p := e.open(t)
	q := e.resolve(t, p.spec, p.Ref())
	var wg sync.WaitGroup
	wg.Go(func() {
		runConcurrently(t.Context(), t, []*testWorkspace{q}, 15, fault.Evicted, fault.WrongState, fault.Failed, fault.Unavailable)
	})
	if err := p.d.Life.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	wg.Wait()
	wantNil(t, "Destroy by the other handle", q.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy while in use")
}
