package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// rollerVar makes this program one that rolls a workspace back, or takes a snapshot of
// it, and kills itself on the way: it says which, as JSON.
const rollerVar = "CROFT_TEST_ROLLER"

type roller struct {
	Dir    string
	Ref    driver.Ref
	Target string        // "" takes a snapshot
	After  time.Duration // the first change
}

func roll() int {
	var r roller
	err := json.Unmarshal([]byte(os.Getenv(rollerVar)), &r)
	switch {
	case err == nil && r.Target == "":
		err = r.takeSnapshot(context.Background())
	case err == nil:
		err = r.rollBack(context.Background())
	}
	fmt.Println(err) // it was to be killed
	return 1
}

func (r *roller) rollBack(ctx context.Context) error {
	cfg := config(r.Dir)
	far(cfg)
	p, err := New(cfg)
	if err != nil {
		return err
	}
	defer p.Close() // the process ends
	ws, err := p.Resolve(ctx, r.Ref)
	if err != nil {
		return err
	}
	ctx = driver.WithSteps(ctx, func(step string) {
		switch {
		case step == "journal" && r.After > 0:
			time.AfterFunc(r.After, die)
		case step == "journal", step == "written":
			die()
		}
	})
	_, err = ws.Life.Snapshot.Rollback(ctx, r.Target, &driver.SnapshotAccess{})
	return err
}

func (r *roller) takeSnapshot(ctx context.Context) error {
	p, err := New(config(r.Dir))
	if err != nil {
		return err
	}
	defer p.Close() // the process ends
	ws, err := p.Resolve(ctx, r.Ref)
	if err != nil {
		return err
	}
	ctx = driver.WithSteps(ctx, func(step string) {
		if step == "container paused" {
			die()
		}
	})
	_, err = ws.Life.Snapshot.Snapshot(ctx, &driver.SnapshotOptions{})
	return err
}

func (r roller) kill(t *testing.T) {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), rollerVar+"="+string(data))
	if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the process was not killed: %v: %s", err, out)
	}
}

// TestPauseEndsWithItsProcess kills processes that have paused the container for a
// snapshot. A process that was connected before, the next process that connects, and the
// next snapshot unpause the container.
func TestPauseEndsWithItsProcess(t *testing.T) {
	dir := t.TempDir()
	first := newProvider(t, dir)
	ws := open(t, first)
	script(t, ws, "true")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	run := func(what string, ws *driver.Workspace) {
		t.Helper()
		if res, err := ws.Shell.Run(ctx, driver.Command{Script: "echo runs"}); err != nil || string(res.Stdout) != "runs\n" {
			t.Errorf("%s: a command gives %q, %v", what, res.Stdout, err)
		}
	}
	victim := roller{Dir: dir, Ref: ws.Ref}
	victim.kill(t)
	run("connected before", ws)
	if err := ws.Life.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, snap := range []bool{false, true} {
		victim.kill(t)
		p := newProvider(t, dir)
		defer p.Close()
		next, err := p.Resolve(ctx, ws.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if snap {
			if info, err := next.Life.Snapshot.Snapshot(ctx, &driver.SnapshotOptions{}); err != nil || !info.Frozen {
				t.Errorf("the next snapshot is %+v, %v, want a frozen one", info, err)
			}
			for _, c := range containers(t, dir) {
				if c.Paused {
					t.Error("after the next snapshot the container is still paused")
				}
			}
		}
		run("connecting", next)
		if err := next.Life.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func die() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// TestRollbackOnAVolumeIsCompleted kills processes in the middle of a rollback:
// the next process that uses the workspace completes it.
func TestRollbackOnAVolumeIsCompleted(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir, far)
	ws := open(t, p)
	var want, ids []string
	for i := range 2 {
		script(t, ws, fmt.Sprintf("rm -rf -- *; mkdir d%[1]d; for k in $(seq 40); do echo %[1]d $k | tee d%[1]d/f$k >both$k; done; ln -s %[1]d link", i))
		info, err := ws.Life.Snapshot.Snapshot(t.Context(), &driver.SnapshotOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want, ids = append(want, digest(t, ws)), append(ids, info.ID)
	}
	for i, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, time.Minute} {
		to := i % 2
		roller{Dir: dir, Ref: ws.Ref, Target: ids[to], After: after}.kill(t)
		again, err := newProvider(t, dir, far).Resolve(t.Context(), ws.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := digest(t, again); got != want[to] {
			t.Errorf("killed %v after it began: the workspace holds %s, want %s", after, got, want[to])
		}
		if left, err := filepath.Glob(filepath.Join(dir, "ws", "*", rollbackName)); err != nil || len(left) > 0 {
			t.Errorf("killed %v after it began: there is still %v, %v", after, left, err)
		}
	}
}

func digest(t *testing.T, ws *driver.Workspace) string {
	t.Helper()
	d, err := snapshot.Digest(t.Context(), snapshot.Files(ws.FS))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
