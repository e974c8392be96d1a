package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// killVar tells a process that this test starts what to do until it is killed.
const killVar = "CROFT_TEST_KILL"

// A victim is what that process works on.
type victim struct {
	Dir   string     `json:"dir"`
	Op    string     `json:"op"`
	Step  int        `json:"step"` // kills itself there; 0 is never
	At    string     `json:"at"`   // counts only steps of this name, unless ""
	Ref   driver.Ref `json:"ref"`
	A     string     `json:"a"` // snapshots
	B     string     `json:"b"`
	First bool       `json:"first"` // to A first
}

// TestKilledSnapshots kills processes, at random moments and between any two of
// their steps, that roll back, seal and fork workspaces, merge into them and collect
// garbage. The
// next process finds each workspace as it was or as it was to be, every snapshot
// whole, and the store sound. CROFT_SANDBOX_KILLS is how many times.
func TestKilledSnapshots(t *testing.T) {
	if text := os.Getenv(killVar); text != "" {
		var v victim
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		v.work(t)
		return
	}
	var g *killGround
	rounds := 12
	if n, err := strconv.Atoi(os.Getenv("CROFT_SANDBOX_KILLS")); err == nil {
		rounds = n
	}
	ops := []string{"rollback", "seal", "fork", "plain", "apply", "plain apply"}
	seen := map[string]int{}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for i := range rounds {
		if i%(8*len(ops)) == 0 { // before a seal has so many layers below it that it copies
			g = newKillGround(t)
		}
		v := victim{Dir: g.dir, Op: ops[i%len(ops)], Ref: g.over, A: g.a.ID, B: g.b.ID, First: r.IntN(2) == 0}
		if strings.HasPrefix(v.Op, "plain") {
			v.Ref = g.plain
		}
		if i/len(ops)%2 == 0 {
			v.Step = 1 + r.IntN(12)
		}
		g.kill(t, v, time.Duration(r.IntN(150))*time.Millisecond)
		seen[v.Op+" "+g.verify(t, i, v)]++
	}
	t.Logf("after kills: %v", seen)
}

// killGround is a store with two states, and two workspaces that are in one of them.
type killGround struct {
	dir         string
	a, b        *snapshot.Manifest
	over, plain driver.Ref
}

func newKillGround(t *testing.T) *killGround {
	t.Helper()
	g := &killGround{dir: t.TempDir()}
	if err := os.Chmod(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, g.dir)
	defer p.Close()
	for i, m := range []**snapshot.Manifest{&g.a, &g.b} {
		dir := t.TempDir()
		for k := range 40 {
			name := filepath.Join(dir, "d"+strconv.Itoa(k%(3+i)), "f"+strconv.Itoa(k*(1+i)))
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(strings.Repeat(strconv.Itoa(k+i), 100+k*i)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("/usr/bin/python3", filepath.Join(dir, "link"+strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		var err error
		if *m, err = p.cfg.Snapshots.Take(t.Context(), snapshot.HostDir(dir, nil), nil); err != nil {
			t.Fatal(err)
		}
	}
	// The empty one is first: what a rollback keeps of it is in neither state, and verify
	// looks at the newest snapshot.
	for _, w := range []struct {
		ref  *driver.Ref
		from string
	}{{&g.plain, ""}, {&g.over, g.a.ID}} {
		ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, From: driver.Source{Snapshot: w.from}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ws.Life.Snapshot.Rollback(t.Context(), g.a.ID, &driver.SnapshotAccess{}); err != nil {
			t.Fatal(err)
		}
		*w.ref = ws.Ref
		if err := ws.Life.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		p := newProvider(t, g.dir)
		defer p.Close()
		if err := p.Sweep(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Error(err)
		}
	})
	return g
}

// kill lets a victim work, and kills it.
func (g *killGround) kill(t *testing.T, v victim, after time.Duration) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledSnapshots$")
	cmd.Env = append(os.Environ(), killVar+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		rest, _ := io.ReadAll(out)
		t.Fatalf("%s: %v: %s", v.Op, err, rest)
	}
	if v.Step > 0 { // it kills itself, unless it takes ways that have no more steps
		after = 5 * time.Second
	}
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
	defer timer.Stop()
	rest, _ := io.ReadAll(out)
	cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("%s ended by itself: %v: %s%s", v.Op, cmd.ProcessState, rest, said.String())
	}
}

// TestFreezeEndsWithItsProcess kills processes that have a workspace frozen. In another
// process, which was connected before, the command under way goes on and the next one
// runs. A rollback is complete by then.
func TestFreezeEndsWithItsProcess(t *testing.T) {
	need(t, limitEnforcement("freezer"))
	for _, test := range []struct {
		name, want string
		v          victim
	}{
		{"snapshot", "a", victim{Op: "snapshot", At: "frozen", Step: 1}},
		{"rollback of a directory", "b", victim{Op: "plain", At: "moved", Step: 1}},
		{"rollback through a mount", "b", victim{Op: "rollback", At: "frozen", Step: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, v := newKillGround(t), test.v
			v.Dir, v.Ref, v.A, v.B = g.dir, g.over, g.a.ID, g.b.ID
			if v.Op == "plain" {
				v.Ref = g.plain
			}
			p := newProvider(t, g.dir)
			defer p.Close()
			ws, err := p.Resolve(t.Context(), v.Ref)
			if err != nil {
				t.Fatal(err)
			}
			defer ws.Life.Close(t.Context())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := ws.Shell.Start(ctx, driver.Command{Script: "read x; echo $x", Interactive: true})
			if err != nil {
				t.Fatal(err)
			}
			g.kill(t, v, 0)
			if err := s.Write(ctx, []byte("goes on\n")); err != nil {
				t.Error(err)
			}
			if res, err := s.Wait(ctx); err != nil || string(res.Stdout) != "goes on\n" {
				t.Errorf("the command under way gives %q, %v", res.Stdout, err)
			}
			if res, err := ws.Shell.Run(ctx, driver.Command{Script: "echo runs"}); err != nil || string(res.Stdout) != "runs\n" {
				t.Errorf("the next command gives %q, %v", res.Stdout, err)
			}
			if got := g.is(t, ws); got != test.want {
				t.Errorf("the files are in state %q, want %q", got, test.want)
			}
		})
	}
}

// TestFreezeOfALiveProcessStays: a connected process does not thaw a workspace during the
// rollback of a process that lives.
func TestFreezeOfALiveProcessStays(t *testing.T) {
	need(t, limitEnforcement("freezer"))
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	output(t, ws, "echo x > f")
	group, ok := cgroup.FreezerOf(guestOf(t, p, ws).Groups)
	if !ok {
		t.Fatal("the guest has no freezer")
	}
	info, err := ws.Life.Snapshot.Snapshot(t.Context(), &driver.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	output(t, ws, "echo y > f")
	looked := false
	ctx := driver.WithSteps(t.Context(), func(name string) {
		if name != "done" {
			return
		}
		time.Sleep(2500 * time.Millisecond) // longer than the interval of supervise.FreezeWatch
		if looked = true; !cgroup.IsFrozen(group) {
			t.Error("the workspace was thawed during a rollback")
		}
	})
	if _, err := ws.Life.Snapshot.Rollback(ctx, info.ID, &driver.SnapshotAccess{}); err != nil || !looked {
		t.Fatalf("the rollback gives %v, and came to its end: %v", err, looked)
	}
	if got := output(t, ws, "cat f"); got != "x" || cgroup.IsFrozen(group) {
		t.Errorf("after the rollback: %q, frozen: %v", got, cgroup.IsFrozen(group))
	}
}

// verify looks at what the victim left, as the next process, and says which state
// its workspace is in.
func (g *killGround) verify(t *testing.T, round int, v victim) string {
	t.Helper()
	p := newProvider(t, g.dir)
	defer p.Close()
	live := []string{}
	for _, ref := range []driver.Ref{g.over, g.plain} {
		var pl driver.RefID
		if err := json.Unmarshal(ref.Payload, &pl); err != nil {
			t.Fatal(err)
		}
		live = append(live, pl.ID)
	}
	if err := p.Sweep(t.Context(), live); err != nil {
		t.Fatalf("round %d, %s: sweep: %v", round, v.Op, err)
	}
	state := g.state(t, p, v.Ref)
	if state == "" {
		t.Fatalf("round %d, %s at step %d: the workspace is neither as it was nor as it was to be", round, v.Op, v.Step)
	}
	report, err := p.cfg.Snapshots.Check(t.Context())
	if err != nil || !report.OK() {
		t.Fatalf("round %d, %s: fsck: %v, %+v", round, v.Op, err, report)
	}
	all, err := p.cfg.Snapshots.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		if i > 0 && m.ID != g.a.ID && m.ID != g.b.ID {
			continue // the newest is the one that a kill was close to
		}
		ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, From: driver.Source{Snapshot: m.ID}})
		if err != nil {
			t.Fatalf("round %d, %s: fork of snapshot %s: %v", round, v.Op, m.ID, err)
		}
		if g.is(t, ws) == "" {
			t.Errorf("round %d, %s: what a fork of snapshot %s holds is neither state", round, v.Op, m.ID)
		}
		if err := ws.Life.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return state
}

// state resolves a workspace and says in which state it is; "" is neither.
func (g *killGround) state(t *testing.T, p *Provider, ref driver.Ref) string {
	t.Helper()
	ws, err := p.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Life.Close(t.Context())
	return g.is(t, ws)
}

func (g *killGround) is(t *testing.T, ws *driver.Workspace) string {
	t.Helper()
	got, err := ws.FS.Digest(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	switch got {
	case g.a.Digest:
		return "a"
	case g.b.Digest:
		return "b"
	}
	return ""
}

// work does what a victim does until it is killed.
func (v victim) work(t *testing.T) {
	p := newProvider(t, v.Dir)
	ws, err := p.Resolve(t.Context(), v.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ws.FS.Stat(t.Context(), ".", &driver.StatOptions{}); err != nil { // the guest is there
		t.Fatal(err)
	}
	ctx, steps := t.Context(), 0
	if v.Step > 0 {
		ctx = driver.WithSteps(ctx, func(name string) {
			if v.At != "" && name != v.At {
				return
			}
			if steps++; steps == v.Step {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
	}
	os.Stdout.WriteString("go\n")
	targets := []string{v.A, v.B}
	if !v.First {
		slices.Reverse(targets)
	}
	for i := 0; ; i++ {
		switch v.Op {
		case "rollback", "plain":
			_, err = ws.Life.Snapshot.Rollback(ctx, targets[i%2], &driver.SnapshotAccess{})
		case "apply", "plain apply":
			err = v.accept(ctx, ws, targets[i%2])
		case "seal":
			_, err = ws.Life.Snapshot.Seal(ctx, &driver.SnapshotOptions{})
		case "fork":
			err = v.fork(ctx, p, ws)
		case "snapshot":
			_, err = ws.Life.Snapshot.Snapshot(ctx, &driver.SnapshotOptions{})
		}
		if err != nil {
			t.Fatalf("%s: %v", v.Op, err)
		}
		if _, err := p.cfg.Snapshots.GC(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func (v victim) fork(ctx context.Context, p *Provider, ws *driver.Workspace) error {
	info, err := ws.Life.Snapshot.Snapshot(ctx, &driver.SnapshotOptions{})
	if err != nil {
		return err
	}
	child, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: Kind, From: driver.Source{Snapshot: info.ID}})
	if err != nil {
		return err
	}
	if err := child.Life.Destroy(ctx); err != nil {
		return err
	}
	return ws.Life.Snapshot.Delete(ctx, info.ID, &driver.SnapshotAccess{})
}

// accept brings the workspace to what a merge made, which is what a snapshot holds.
func (v victim) accept(ctx context.Context, ws *driver.Workspace, id string) error {
	now, err := ws.Life.Snapshot.Files(ctx, "", &driver.SnapshotAccess{})
	if err != nil {
		return err
	}
	next, err := ws.Life.Snapshot.Files(ctx, id, &driver.SnapshotAccess{})
	if err != nil {
		return err
	}
	d, err := snapshot.Diff(ctx, snapshot.Files(now), snapshot.Files(next), &snapshot.DiffOptions{NoRenames: true})
	if err != nil {
		return err
	}
	paths := make([]string, len(d.Changes))
	for i, c := range d.Changes {
		paths[i] = c.Path
	}
	_, err = ws.Life.Snapshot.Accept(ctx, next, paths, &driver.SnapshotOptions{Name: "before-apply"})
	return err
}
