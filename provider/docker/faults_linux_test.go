package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// Each of these ends what a workspace runs in, in another way. What was
// acknowledged stays, a command that was under way is lost and not run again, the
// next call says so, once, and nothing is left in the end.

// A scene is a workspace with a file and a command that is under way.
type scene struct {
	dir  string
	p    *Provider
	ws   *driver.Workspace
	id   string
	done chan driver.Result
}

func begin(t *testing.T, p *Provider, dir string, mods ...func(*driver.Spec)) *scene {
	t.Helper()
	s := &scene{dir: dir, p: p, id: driver.NewID(), done: make(chan driver.Result, 1)}
	s.ws = open(t, p, append([]func(*driver.Spec){func(spec *driver.Spec) { spec.ID = s.id }}, mods...)...)
	write(t, s.ws, "kept", "acknowledged")
	go func() {
		res, err := s.ws.Shell.Run(t.Context(), driver.Command{Script: "echo said; echo run >> runs; sleep 1000"})
		if err != nil {
			res.Stderr = []byte(err.Error())
		}
		s.done <- res
	}()
	eventually(t, "the command runs", func() bool {
		_, err := s.ws.FS.Stat(t.Context(), "runs", &driver.StatOptions{})
		return err == nil && (!s.near() || s.wrote(t))
	})
	return s
}

// near reports whether the files are on this host.
func (s *scene) near() bool { return s.p.cfg.Host != os.Getenv(farVar) }

// wrote reports whether the output of the command has come to its log.
func (s *scene) wrote(t *testing.T) bool {
	t.Helper()
	logs, err := filepath.Glob(s.p.store.Path(s.id, boxName, guestproto.ContainerLog, "*.stdout"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(logs, func(name string) bool {
		data, err := os.ReadFile(name)
		return err == nil && string(data) == "said\n"
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for till := time.Now().Add(2 * time.Minute); time.Now().Before(till); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("it never came so far: %s", what)
}

// ended waits for the end of the command.
func (s *scene) ended(t *testing.T) driver.Result {
	t.Helper()
	select {
	case res := <-s.done:
		return res
	case <-time.After(2 * time.Minute):
		t.Fatal("the command that was under way goes on")
		return driver.Result{}
	}
}

// lost wants the command to be lost, the next call to be evicted, and a workspace
// that is resolved from its ref to have all files.
func (s *scene) lost(t *testing.T) {
	t.Helper()
	res := s.ended(t)
	if res.Cause != driver.CauseLost {
		t.Errorf("the command that was under way gives %+v (%s), want the cause %q", res, res.Stderr, driver.CauseLost)
	}
	if s.near() && string(res.Stdout) != "said\n" {
		t.Errorf("of what it had written there is %q", res.Stdout)
	}
	if _, err := s.ws.Shell.Run(t.Context(), driver.Command{Script: "echo run >> runs"}); fault.Of(err) != fault.Evicted {
		t.Errorf("the next call gives %v, want %v", err, fault.Evicted)
	}
	s.whole(t)
}

// whole resolves the workspace, looks at its files and ends it.
func (s *scene) whole(t *testing.T) {
	t.Helper()
	again, err := s.p.Resolve(t.Context(), s.ws.Ref)
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	if got := string(script(t, again, "cat kept runs").Stdout); got != "acknowledgedrun\n" {
		t.Errorf("afterwards the files hold %q", got)
	}
	if err := again.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, s.dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestEngineIsKilledAndStartsAgain(t *testing.T) {
	if daemon == nil {
		testenv.NeedsDocker(t)
		t.Skip("skipped: host: the engine is not this program's to kill")
	}
	dir := t.TempDir()
	s := begin(t, newProvider(t, dir), dir)
	daemon.Kill()
	write(t, s.ws, "while-down", "written")
	if got := string(script(t, s.ws, "cat while-down").Stdout); got != "written" {
		t.Errorf("without the engine, the guest gives %q", got)
	}
	if _, err := s.p.Resolve(t.Context(), s.ws.Ref); fault.Of(err) != fault.Failed || !fault.IsTransient(err) {
		t.Errorf("resolve without an engine gives %v, want a transient failure", err)
	}
	if err := daemon.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.lost(t)
}

// TestFarEngineIsKilledAndStartsAgain is that of an engine which has the files, too.
func TestFarEngineIsKilledAndStartsAgain(t *testing.T) {
	if daemon == nil {
		testenv.NeedsDocker(t)
		t.Skip("skipped: host: the engine is not this program's to kill")
	}
	dir := t.TempDir()
	s := begin(t, newProvider(t, dir, far), dir)
	daemon.Kill()
	if res := s.ended(t); res.Cause != driver.CauseLost {
		t.Errorf("the command that was under way gives %+v, want the cause %q", res, driver.CauseLost)
	}
	if _, err := s.ws.FS.Stat(t.Context(), "kept", &driver.StatOptions{}); fault.Of(err) != fault.Evicted {
		t.Errorf("the next call gives %v, want %v", err, fault.Evicted)
	}
	if _, err := s.p.Resolve(t.Context(), s.ws.Ref); fault.Of(err) != fault.Failed || !fault.IsTransient(err) {
		t.Errorf("resolve without an engine gives %v, want a transient failure", err)
	}
	if err := daemon.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.whole(t)
}

// anywhere runs a test with files in a directory of this host, and on a volume.
func anywhere(t *testing.T, test func(t *testing.T, p *Provider, dir string)) {
	for name, mods := range map[string][]func(*Config){"directory": nil, "volume": {far}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test(t, newProvider(t, dir, mods...), dir)
		})
	}
}

func TestContainerIsRemoved(t *testing.T) {
	anywhere(t, func(t *testing.T, p *Provider, dir string) {
		s := begin(t, p, dir)
		if err := s.p.engine.Remove(t.Context(), containerName(s.id)); err != nil {
			t.Fatal(err)
		}
		s.lost(t)
	})
}

func TestGuestIsKilled(t *testing.T) {
	anywhere(t, func(t *testing.T, p *Provider, dir string) {
		s := begin(t, p, dir)
		state, err := s.p.engine.Inspect(t.Context(), containerName(s.id))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(state.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.lost(t)
	})
}

func TestImageIsDeleted(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir, func(c *Config) { c.PullTimeout = 3 * time.Second })
	const name = "croft-test/gone:1"
	bring := func() {
		t.Helper()
		if _, err := newProvider(t, dir).ensureImage(t.Context(), DefaultImage); err != nil { // which takes its time
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "Dockerfile")
		if err := os.WriteFile(file, []byte("FROM "+DefaultImage+"\nENV WHO=image\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (Images{p.engine}).Import(t.Context(), file, name); err != nil {
			t.Fatal(err)
		}
	}
	bring()
	s := begin(t, p, dir, func(spec *driver.Spec) { spec.Config = []byte(`{"image":"` + name + `"}`) })
	if got := string(script(t, s.ws, "echo $WHO").Stdout); got != "image\n" {
		t.Errorf("the environment of the image is %q", got)
	}
	if err := errors.Join(p.engine.Remove(t.Context(), containerName(s.id)), p.engine.RemoveImage(t.Context(), name)); err != nil {
		t.Fatal(err)
	}
	s.ended(t)
	script := driver.Command{Script: "true"}
	if _, err := s.ws.Shell.Run(t.Context(), script); fault.Of(err) != fault.Evicted {
		t.Errorf("the next call gives %v, want %v", err, fault.Evicted)
	}
	_, err := s.ws.Shell.Run(t.Context(), script)
	if code := fault.Of(err); code != fault.Failed && code != fault.Unavailable || !strings.Contains(err.Error(), name) {
		t.Errorf("without its image, a command gives %v", err)
	}
	if _, err := s.ws.FS.Stat(t.Context(), "kept", &driver.StatOptions{}); err != nil {
		t.Errorf("without its image, files: %v", err)
	}
	bring()
	s.whole(t)
}

func TestDiskIsFull(t *testing.T) {
	small := testenv.NeedsTmpfs(t, 8<<20)
	dir := t.TempDir()
	p := newProvider(t, dir, func(c *Config) { c.Root = filepath.Join(small, "ws") })
	ws := open(t, p)
	write(t, ws, "kept", "acknowledged")
	res := script(t, ws, "head -c 100M /dev/zero > big")
	if res.Cause != driver.CauseDisk || res.ExitCode == 0 {
		t.Errorf("a command that fills the disk gives %+v, want the cause %q", res, driver.CauseDisk)
	}
	_, err := ws.FS.Write(t.Context(), "more", strings.NewReader(strings.Repeat("x", 1<<20)), &driver.WriteOptions{})
	if fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("a write on a full disk gives %v", err)
	}
	if got := string(script(t, ws, "rm big; cat kept; echo more > more; cat more").Stdout); got != "acknowledgedmore\n" {
		t.Errorf("once there is room again: %q", got)
	}
}

// TestManyStartOneContainer has several processes, as far as locks can tell, use
// one workspace for the first time at once.
//
//croft:slow-race
func TestManyStartOneContainer(t *testing.T) {
	dir := t.TempDir()
	first := newProvider(t, dir)
	ws := open(t, first)
	var wg sync.WaitGroup
	for range 4 {
		other, err := newProvider(t, dir).Resolve(t.Context(), ws.Ref)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			res, err := other.Shell.Run(t.Context(), driver.Command{Script: "echo here; cat /proc/sys/kernel/hostname"})
			if err != nil || string(res.Stdout) != "here\ncroft\n" {
				t.Errorf("got %+v, %v", res, err)
			}
			if err := other.Life.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list := containers(t, dir); len(list) != 1 {
		t.Errorf("there are %d containers: %+v", len(list), list)
	}
}

// TestPauseIsKnownToEveryHandle: another handle that is connected to the guest is told
// that the workspace is paused, and may resume it.
func TestPauseIsKnownToEveryHandle(t *testing.T) {
	anywhere(t, func(t *testing.T, p *Provider, _ string) {
		ws := open(t, p)
		other, err := p.Resolve(t.Context(), ws.Ref)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Life.Close(t.Context())
		script(t, ws, "echo kept > kept")
		script(t, other, "cat kept")
		if err := ws.Life.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for _, one := range []*driver.Workspace{ws, other} {
			if _, err := one.Shell.Run(soon, driver.Command{Script: "true"}); fault.Of(err) != fault.WrongState {
				t.Errorf("a command of a paused workspace gives %v, want %v", err, fault.WrongState)
			}
		}
		if err := other.Life.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, one := range []*driver.Workspace{ws, other} {
			if got := string(script(t, one, "cat kept").Stdout); got != "kept\n" {
				t.Errorf("after it was resumed: %q", got)
			}
		}
	})
}

// TestPausedContainerIsRemoved: the note that it is paused does not outlive it.
func TestPausedContainerIsRemoved(t *testing.T) {
	dir := t.TempDir()
	s := begin(t, newProvider(t, dir), dir)
	if err := errors.Join(s.ws.Life.Pause(t.Context()), s.p.removeContainer(t.Context(), containerName(s.id))); err != nil {
		t.Fatal(err)
	}
	s.lost(t)
}

// TestStateIsTorn: of a workspace whose state a loss of power has torn, a sweep removes
// the container and the volume as well.
func TestStateIsTorn(t *testing.T) {
	anywhere(t, func(t *testing.T, p *Provider, dir string) {
		id := driver.NewID()
		ws := open(t, p, func(s *driver.Spec) { s.ID = id })
		script(t, ws, "true")
		if err := ws.Life.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(p.store.Path(id, wsdir.StateName(Kind)), 0); err != nil {
			t.Fatal(err)
		}
		if err := p.Sweep(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestGroundHasOneName: of processes that name a data directory at once one is heard,
// and what a crash has torn is replaced.
func TestGroundHasOneName(t *testing.T) {
	root := t.TempDir()
	var first string
	for _, torn := range []bool{false, true} {
		if torn {
			if err := os.WriteFile(filepath.Join(root, rootIDName), []byte(first[:5]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ids := make([]string, 8)
		var wg sync.WaitGroup
		for i := range ids {
			p, err := New(&Config{Root: root, Engine: newFake(nil)})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { ids[i], _ = p.rootID(t.Context()) })
		}
		wg.Wait()
		if first = ids[0]; !driver.ValidID(first) || len(slices.Compact(ids)) != 1 {
			t.Errorf("torn before: %v: the names are %q", torn, ids)
		}
	}
}

//croft:slow-race
func TestEngineHangs(t *testing.T) {
	dir := t.TempDir()
	var engine *fake
	p := newProvider(t, dir, func(c *Config) {
		inner, err := Connect(c.Host)
		if err != nil {
			t.Fatal(err)
		}
		engine = newFake(inner)
		c.Engine = engine
	})
	ws := open(t, p) // while all is well
	p.cfg.AnswerTimeout = 200 * time.Millisecond
	engine.on("Create", hang)
	write(t, ws, "file", "written")
	if _, err := ws.Shell.Run(t.Context(), driver.Command{Script: "true"}); fault.Of(err) != fault.Unavailable {
		t.Errorf("a command gives %v, want %v", err, fault.Unavailable)
	}
	engine.on("Ping", hang)
	if _, err := p.Resolve(t.Context(), ws.Ref); fault.Of(err) != fault.Failed || !fault.IsTransient(err) {
		t.Errorf("resolve gives %v, want a transient failure", err)
	}
	p.cfg.AnswerTimeout = DefaultAnswerTimeout
	soon, cancel := context.WithCancel(t.Context())
	engine.on("Ping", givenUp(cancel))
	if _, err := p.Resolve(soon, ws.Ref); fault.Of(err) != fault.Canceled {
		t.Errorf("resolve that is given up gives %v, want %v", err, fault.Canceled)
	}
	engine.on("Ping", nil)
	engine.on("Create", nil)
	if got := string(script(t, ws, "cat file").Stdout); got != "written" {
		t.Errorf("afterwards the file holds %q", got)
	}
}

// TestCreatingIsHeardOut: an engine makes what it was asked for although nobody waits any
// more, so that it must be waited for, or nobody removes it.
func TestCreatingIsHeardOut(t *testing.T) {
	engine := newFake(nil)
	p, err := New(&Config{Root: t.TempDir(), Engine: engine, AnswerTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // where the time for an answer does not pass while there is something to do
		ctx, cancel := context.WithCancel(t.Context())
		engine.on("Create", func(asked context.Context) error {
			cancel()
			return asked.Err()
		})
		if _, err := p.createContainer(ctx, ContainerSpec{Name: "late"}); fault.Of(err) != fault.Canceled {
			t.Errorf("it answers %v, want %v", err, fault.Canceled)
		}
		if engine.units["late"] == nil {
			t.Error("the engine was not heard out")
		}
		if _, err := p.createContainer(ctx, ContainerSpec{Name: "never"}); fault.Of(err) != fault.Canceled || len(engine.called("Create")) != 1 {
			t.Errorf("of one that was given up before: %v, %q", err, engine.called("Create"))
		}
	})
}

// TestEngineTestHangs: an engine on which no container starts is found out before a user gives up.
func TestEngineTestHangs(t *testing.T) {
	engine := newFake(nil)
	for _, method := range []string{"Image", "Create", "Start"} {
		engine.on(method, hang)
	}
	p, err := New(&Config{Root: t.TempDir(), Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := p.testEngine(t.Context(), Info{}, "", false, "img:1")
		if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "within 30s") || time.Since(begin) > 45*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

func TestIsolationThatNoContainerGives(t *testing.T) {
	p, err := New(&Config{Root: t.TempDir(), Engine: newFake(nil)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.chooseRuntime(t.Context(), driver.Policy{Isolation: driver.IsolationVM}, Options{})
	if fault.Of(err) != fault.Unsupported || !strings.HasPrefix(err.Error(), `isolation "vm": `) {
		t.Errorf("got %v, want that the isolation is not to be had", err)
	}
}

//croft:slow-race
func TestPullIsSlow(t *testing.T) {
	engine := newFake(nil)
	engine.on("Pull", hang)
	p, err := New(&Config{Root: t.TempDir(), Engine: engine, PullTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.ensureImage(t.Context(), "slow:1")
	if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "slow:1") {
		t.Errorf("got %v, want %v with the name", err, fault.Unavailable)
	}
	p.cfg.PullTimeout = time.Hour
	soon, cancel := context.WithCancel(t.Context())
	engine.on("Pull", givenUp(cancel))
	if _, err := p.ensureImage(soon, "slow:1"); fault.Of(err) != fault.Canceled {
		t.Errorf("given up: %v, want %v", err, fault.Canceled)
	}
	if got := len(engine.called("Pull")); got != 2 {
		t.Errorf("it was pulled %d times, want 2", got)
	}
	engine.on("Pull", nil)
	if img, err := p.ensureImage(t.Context(), "slow:1"); err != nil || img.ID != "slow:1" {
		t.Errorf("in the end: %+v, %v", img, err)
	}
}
