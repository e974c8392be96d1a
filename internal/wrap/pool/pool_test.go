package pool_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/internal/wrap/pool"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// keeperVariable makes this program one that keeps workspaces warm under a
// directory until it is killed.
const keeperVariable = "CROFT_POOL_KEEPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(keeperVariable); dir != "" {
		keep(dir)
		return
	}
	os.Exit(m.Run())
}

func keep(dir string) {
	inner, err := testshell.New(dir)
	if err != nil {
		panic(err)
	}
	p, err := pool.Wrap(context.Background(), inner, pool.Options{Dir: filepath.Join(dir, "pool"), Size: 2})
	if err != nil {
		panic(err)
	}
	spec := driver.Spec{Kind: testshell.Kind}
	p.Reserve(spec)
	for p.Warm(spec) < 2 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("warm")
	select {}
}

// wrapped returns a pool over a scripted provider with files and a shell.
func wrapped(t *testing.T, dir string, opts pool.Options) (*workspacetest.Scripted, *pool.Provider) {
	t.Helper()
	inner, err := testshell.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	scripted := workspacetest.NewScripted(inner)
	opts.Dir = filepath.Join(dir, "pool")
	p, err := pool.Wrap(t.Context(), scripted, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return scripted, p
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func workspaces(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range entries {
		if driver.ValidID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

// TestHandsOutWhatIsWarm goes by the registry: the second workspace of a shape is
// one that was open before it was asked for.
func TestHandsOutWhatIsWarm(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	scripted, p := wrapped(t, dir, pool.Options{Size: 2})
	store, err := registry.OpenStore(ctx, "sqlite:"+filepath.Join(dir, "croft.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	reg, err := registry.New(ctx, store, workspace.NewMux(p), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reg.Shutdown(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	spec := workspace.Spec{Kind: testshell.Kind}
	open := func(spec workspace.Spec) (string, *workspace.Workspace) {
		t.Helper()
		rec, err := reg.Create(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		ws, err := reg.Acquire(ctx, rec.ID)
		if err != nil {
			t.Fatal(err)
		}
		return rec.ID, ws
	}
	open(spec)
	await(t, "warm", func() bool { return p.Warm(spec) == 2 })
	opened := workspaces(t, dir)
	scripted.OnOpen(workspacetest.Plan{Err: fault.Unavailable}) // nothing can be opened any longer
	ids := map[string]bool{}
	for range 2 {
		id, ws := open(spec)
		if !slices.Contains(opened, id) || ids[id] {
			t.Errorf("%s was not one of the warm ones %v, or was handed out before", id, opened)
		}
		ids[id] = true
		out, err := ws.Command(ctx, "sh", "-c", "echo hi >f; cat f").Output()
		if err != nil || string(out) != "hi\n" {
			t.Errorf("a command in it: %q, %v", out, err)
		}
		if err := reg.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := ws.Stat(ctx, "f", nil); err != nil {
			t.Errorf("after a sweep: %v", err)
		}
	}
	scripted.OnOpen(workspacetest.Plan{})
	other := spec
	other.Policy.Env = map[string]string{"A": "1"}
	id, ws := open(other)
	if slices.Contains(opened, id) {
		t.Errorf("%s, which was warm, is handed out for another policy", id)
	}
	if out, err := ws.Command(ctx, "sh", "-c", "echo $A").Output(); err != nil || string(out) != "1\n" {
		t.Errorf("its environment: %q, %v", out, err)
	}
	if got := p.Warm(driver.Spec{Kind: testshell.Kind, Dir: dir}); got != 0 {
		t.Errorf("%d warm workspaces in a place that is there once", got)
	}
}

// TestWhatIsNotTakenEnds proves that nothing is left of a pool that is closed, of a
// shape that gave way, and of a reservation that was given back.
func TestWhatIsNotTakenEnds(t *testing.T) {
	dir := t.TempDir()
	_, p := wrapped(t, dir, pool.Options{Size: 1, Shapes: 1})
	a, b := driver.Spec{Kind: testshell.Kind}, driver.Spec{Kind: testshell.Kind, Policy: driver.Policy{Env: map[string]string{"B": "1"}}}
	p.Reserve(a)
	await(t, "warm a", func() bool { return p.Warm(a) == 1 })
	id := p.Reserve(a)
	if id == "" {
		t.Fatal("nothing was reserved")
	}
	await(t, "another warm a", func() bool { return p.Warm(a) == 1 })
	p.Release(id)
	p.Release(id) // once is enough
	p.Reserve(b)
	await(t, "warm b, and a gone", func() bool { return p.Warm(b) == 1 && p.Warm(a) == 0 && len(workspaces(t, dir)) == 1 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if left := workspaces(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if marks, err := os.ReadDir(filepath.Join(dir, "pool")); err != nil || len(marks) != 0 {
		t.Errorf("marks left: %v, %v", marks, err)
	}
	if id := p.Reserve(b); id != "" {
		t.Errorf("a closed pool reserves %s", id)
	}
}

// TestRefillWaits proves that a pool that is at least half full is not refilled while
// workspaces are requested, and one that is less full is.
func TestRefillWaits(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // where only a wait takes time
		p, err := pool.Wrap(t.Context(), new(memory.Provider), pool.Options{Dir: dir, Size: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		spec := driver.Spec{Kind: memory.Kind}
		p.Reserve(spec)
		time.Sleep(time.Second)
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{0, 3}, {90 * time.Millisecond, 2}, {90 * time.Millisecond, 1}, {20 * time.Millisecond, 1}, {time.Second, 3}} {
			time.Sleep(step.wait)
			p.Reserve(spec)
			synctest.Wait()
			if got := p.Warm(spec); got != step.want {
				t.Errorf("%v after the request before: %d are warm, want %d", step.wait, got, step.want)
			}
		}
	})
}

// TestSweepOfAnotherProcess proves that a sweep spares what another process
// keeps warm, and removes it once that was killed.
func TestSweepOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), keeperVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "warm" {
		t.Fatalf("the keeper says %q, %v", line, err)
	}
	_, p := wrapped(t, dir, pool.Options{Size: 1})
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := len(workspaces(t, dir)); got != 2 {
		t.Errorf("%d workspaces after a sweep beside the keeper, want its 2", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if left := workspaces(t, dir); len(left) != 0 {
		t.Errorf("after its death: %v", left)
	}
}

func TestBadOptions(t *testing.T) {
	inner, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []pool.Options{{Dir: t.TempDir()}, {Size: 1}, {Size: 1, Dir: t.TempDir(), Idle: -1}} {
		if _, err := pool.Wrap(t.Context(), inner, opts); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%+v: %v, want InvalidArgument", opts, err)
		}
	}
}

// TestKeep: a shape that is kept is warm before the first request, and stays although others are
// requested and its time has passed.
func TestKeep(t *testing.T) {
	_, p := wrapped(t, t.TempDir(), pool.Options{Size: 2, Shapes: 1, Idle: time.Second})
	kept := driver.Spec{Kind: testshell.Kind, Policy: driver.Policy{Env: map[string]string{"A": "1"}}}
	if err := p.Keep(kept); err != nil {
		t.Fatal(err)
	}
	warm := func(spec driver.Spec, want int) {
		t.Helper()
		for range 500 {
			if p.Warm(spec) == want {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%d workspaces are warm, want %d", p.Warm(spec), want)
	}
	warm(kept, 2)
	other := driver.Spec{Kind: testshell.Kind}
	p.Reserve(other)
	warm(other, 2)
	warm(other, 0) // its time has passed
	warm(kept, 2)
	if id := p.Reserve(kept); id == "" {
		t.Error("no kept workspace is reserved")
	}
	warm(kept, 2)
	if err := p.Keep(driver.Spec{Dir: "/x"}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a directory in place is kept: %v", err)
	}
}

func TestAPoolThatIsNotEnabledIsEmpty(t *testing.T) {
	dir := t.TempDir()
	var enabled atomic.Bool
	_, p := wrapped(t, dir, pool.Options{Size: 2, Idle: time.Second, Enabled: enabled.Load})
	spec := driver.Spec{Kind: testshell.Kind}
	if err := p.Keep(spec); err != nil {
		t.Fatal(err)
	}
	if id := p.Reserve(spec); id != "" || p.Warm(spec) != 0 {
		t.Errorf("reserved %q, %d are warm", id, p.Warm(spec))
	}
	enabled.Store(true)
	await(t, "warm workspaces", func() bool { return p.Warm(spec) == 2 })
	if p.Reserve(spec) == "" {
		t.Error("none is reserved")
	}
	enabled.Store(false)
	await(t, "an empty pool", func() bool { return p.Warm(spec) == 0 })
}
