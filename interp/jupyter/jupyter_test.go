package jupyter_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/interp/jupyter"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

func open(t testing.TB) *driver.Workspace {
	t.Helper()
	p, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: testshell.Kind})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Life.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return ws
}

func kernels(t testing.TB, opts *jupyter.Options) *driver.Interpreter {
	t.Helper()
	return kernelsIn(t, open(t), opts)
}

// kernelsOf returns those of a workspace of a kind that users have.
func kernelsOf(t testing.TB, kind string, opts *jupyter.Options) *driver.Interpreter {
	t.Helper()
	p, _ := testshell.NewProvider(t, kind)
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Life.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return kernelsIn(t, ws, opts)
}

func kernelsIn(t testing.TB, ws *driver.Workspace, opts *jupyter.Options) *driver.Interpreter {
	t.Helper()
	testenv.NeedsJupyter(t)
	if opts == nil {
		opts = new(jupyter.Options)
	}
	opts.Start = 3 * time.Minute // on a machine that is busy otherwise
	k := jupyter.New(ws.Shell, opts)
	t.Cleanup(func() {
		if err := k.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return k.Module()
}

func create(t testing.TB, m *driver.Interpreter) string {
	t.Helper()
	c, err := m.CreateContext(t.Context(), "", &driver.ContextOptions{Env: map[string]string{"GIVEN": "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func run(t testing.TB, m *driver.Interpreter, id, source string) driver.CodeResult {
	t.Helper()
	res, err := m.RunCode(t.Context(), driver.Code{Context: id, Source: source})
	if err != nil {
		t.Fatalf("run %q: %v", source, err)
	}
	return res
}

func result(res driver.CodeResult) string {
	for _, o := range res.Outputs {
		if o.Kind == driver.OutputResult {
			return string(o.Data["text/plain"])
		}
	}
	return ""
}

// TestAContext goes through what one kernel can do, since each takes seconds to
// start.
func TestAContext(t *testing.T) {
	for _, kind := range testshell.Shells {
		t.Run(kind, func(t *testing.T) { aContext(t, kernelsOf(t, kind, &jupyter.Options{Output: 1 << 16})) })
	}
}

func aContext(t *testing.T, m *driver.Interpreter) {
	id := create(t, m)

	t.Run("outputs in order", func(t *testing.T) {
		var heard []driver.OutputKind
		res, err := m.RunCode(t.Context(), driver.Code{Context: id, Source: `
import sys, os
print("one", flush=True); print("two", file=sys.stderr, flush=True)
from IPython.display import display, Image
display({"image/png": b"\x89PNG\x00\xff", "text/plain": "a picture"}, raw=True)
print("three", flush=True)
os.environ["GIVEN"], os.path.basename(os.getcwd()) != ""`, OnOutput: func(o driver.Output) error { heard = append(heard, o.Kind); return nil }})
		if err != nil || res.Error != nil {
			t.Fatal(err, res.Error)
		}
		want := []driver.Output{
			{Kind: "stdout", Text: "one\n"}, {Kind: "stderr", Text: "two\n"},
			{Kind: "display", Data: map[string][]byte{"image/png": []byte("\x89PNG\x00\xff"), "text/plain": []byte("a picture")}},
			{Kind: "stdout", Text: "three\n"},
			{Kind: "result", Data: map[string][]byte{"text/plain": []byte("('yes', True)")}},
		}
		if diff := cmp.Diff(want, res.Outputs); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(heard) != len(want) || res.Count != 1 {
			t.Errorf("heard %v, count %d", heard, res.Count)
		}
	})
	t.Run("keeps state", func(t *testing.T) {
		run(t, m, id, "x = 20")
		if got := result(run(t, m, id, "x + 1")); got != "21" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("code that is empty", func(t *testing.T) {
		if res := run(t, m, id, ""); res.Error != nil || res.ExitCode != 0 || len(res.Outputs) > 0 {
			t.Errorf("got %+v, %v", res, res.Error)
		}
		if got := result(run(t, m, id, "x")); got != "20" {
			t.Errorf("after it x is %q, want 20", got)
		}
	})
	t.Run("the words of an exception are bounded", func(t *testing.T) {
		res := run(t, m, id, "raise Exception('x' * 1_000_000)")
		if res.Error == nil || res.Error.Name != "Exception" || len(res.Error.Value) > 1<<16 || len(strings.Join(res.Error.Traceback, "")) > 1<<17 {
			t.Errorf("the exception is %.200v", res.Error)
		}
	})
	t.Run("an exception is a result", func(t *testing.T) {
		res := run(t, m, id, "print('before')\n1/0")
		if res.ExitCode != 1 || res.Error == nil || res.Error.Name != "ZeroDivisionError" || len(res.Error.Traceback) == 0 || res.Outputs[0].Text != "before\n" {
			t.Errorf("got %+v %+v", res, res.Error)
		}
	})
	t.Run("runs at once after an exception", func(t *testing.T) {
		// A kernel that stops what waits refuses what comes for this long, which is a
		// moment where nobody says otherwise.
		run(t, m, id, "k = get_ipython().kernel; was = k.stop_on_error_timeout; k.stop_on_error_timeout = 3600")
		run(t, m, id, "1/0")
		if res := run(t, m, id, "k.stop_on_error_timeout = was; 1"); res.Error != nil || result(res) != "1" {
			t.Fatalf("got %+v %+v", res, res.Error)
		}
	})
	t.Run("output of other programs", func(t *testing.T) {
		res := run(t, m, id, "import subprocess, os\nsubprocess.run(['echo', '{\"t\":\"end\",\"id\":99}']); os.write(1, b'raw\\n'); None")
		if res.Error != nil || len(res.Outputs) != 1 || !strings.Contains(res.Outputs[0].Text, "raw\n") || !strings.Contains(res.Outputs[0].Text, `"t":"end"`) {
			t.Errorf("got %+v", res)
		}
	})
	t.Run("output of other programs comes with what started them", func(t *testing.T) {
		// 1,000 bytes end inside a character, and some bytes are none at all.
		const source = "import subprocess\nsubprocess.run(['printf', 'x' + 'é' * 2000 + r'\\377 %d'])"
		want := "x" + strings.Repeat("é", 2000) + "\ufffd 0"
		for range 30 {
			res := run(t, m, id, source+"; None")
			if res.Error != nil || len(res.Outputs) != 1 || res.Outputs[0].Text != want {
				t.Fatalf("got %d outputs, %.2000q", len(res.Outputs), res.Outputs)
			}
		}
	})
	t.Run("too much is counted", func(t *testing.T) {
		res := run(t, m, id, "print('x' * 300000)")
		if res.Dropped < 200000 || res.Error != nil {
			t.Errorf("dropped %d, %+v", res.Dropped, res.Error)
		}
	})
	t.Run("time-out keeps the state", func(t *testing.T) {
		heard := ""
		res, err := m.RunCode(t.Context(), driver.Code{
			Context: id, Source: "import time\nprint('begin', flush=True)\ntime.sleep(600)", Timeout: 500 * time.Millisecond,
			OnOutput: func(o driver.Output) error { heard += o.Text; return nil },
		})
		if err != nil || res.Cause != driver.CauseTimeout || res.Error == nil {
			t.Errorf("got %+v %v", res, err)
		}
		if heard == "" { // its time was up before it began, and nothing could be interrupted
			t.Log("the kernel was too slow to begin")
			return
		}
		if heard != "begin\n" || len(res.Outputs) == 0 || res.Outputs[0].Text != heard {
			t.Errorf("heard %q, got %+v", heard, res)
		}
		if got := result(run(t, m, id, "x")); got != "20" {
			t.Errorf("x is %q, want 20", got)
		}
	})
	t.Run("interrupt", func(t *testing.T) {
		res, err := m.RunCode(t.Context(), driver.Code{Context: id, Source: "print('begin', flush=True)\nwhile True: pass", OnOutput: func(driver.Output) error {
			return m.Interrupt(t.Context(), id)
		}})
		if err != nil || res.Error == nil || res.Error.Name != "KeyboardInterrupt" || len(res.CallbackErrors) > 0 {
			t.Errorf("got %+v %+v %v", res, res.Error, err)
		}
	})
	t.Run("a kernel that dies", func(t *testing.T) {
		res := run(t, m, id, "import os\nos._exit(3)")
		if res.Cause != driver.CauseLost || res.Error == nil || res.ExitCode == 0 {
			t.Errorf("got %+v", res)
		}
		if got := result(run(t, m, id, "'x' in dir()")); got != "False" {
			t.Errorf("x is there: %q", got)
		}
	})
	t.Run("restart", func(t *testing.T) {
		run(t, m, id, "y = 1")
		if err := m.Restart(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := result(run(t, m, id, "'y' in dir()")); got != "False" {
			t.Errorf("y is there: %q", got)
		}
	})
	t.Run("delete", func(t *testing.T) {
		list, err := m.Contexts(t.Context())
		if err != nil || len(list) != 1 || list[0].ID != id || list[0].Language != "python" {
			t.Errorf("got %v, %v", list, err)
		}
		if err := m.DeleteContext(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, err := m.RunCode(t.Context(), driver.Code{Context: id, Source: "1"}); fault.Of(err) != fault.NotFound {
			t.Errorf("got %v, want not found", err)
		}
	})
}

func TestWithoutAContext(t *testing.T) {
	m := kernels(t, nil)
	res := run(t, m, "", "6 * 7")
	if result(res) != "42" {
		t.Errorf("got %+v", res)
	}
	if list, err := m.Contexts(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left: %v %v", list, err)
	}
}

func TestIdleContextsEnd(t *testing.T) {
	for _, kind := range testshell.Shells {
		t.Run(kind, func(t *testing.T) {
			idleContextsEnd(t, kernelsOf(t, kind, &jupyter.Options{Idle: 50 * time.Millisecond, Most: 1}))
		})
	}
}

func idleContextsEnd(t *testing.T, m *driver.Interpreter) {
	id := create(t, m)
	for {
		list, err := m.Contexts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := m.Restart(t.Context(), id); fault.Of(err) != fault.NotFound {
		t.Errorf("got %v, want not found", err)
	}
}

// A context that takes longer to restart than it may be idle is not idle.
func TestRestartIsNoIdleness(t *testing.T) {
	testenv.NeedsJupyter(t)
	ws := open(t)
	m := kernelsIn(t, ws, &jupyter.Options{Idle: time.Second})
	// The kernel takes its time from the second time on that it is started; so nothing
	// is to be done between the two, and it is not idle before.
	const slow = `import os, time
begun = os.path.join(os.path.dirname(__file__), "begun")
if "ipykernel_launcher" in open("/proc/self/cmdline").read():
    if os.path.exists(begun): time.sleep(3)
    open(begun, "w").close()
`
	if _, err := ws.FS.Write(t.Context(), "sitecustomize.py", strings.NewReader(slow), new(driver.WriteOptions)); err != nil {
		t.Fatal(err)
	}
	c, err := m.CreateContext(t.Context(), "", &driver.ContextOptions{Env: map[string]string{"PYTHONPATH": ws.Traits.Root}})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := m.Restart(t.Context(), c.ID); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took < 3*time.Second {
		t.Errorf("it was restarted in %v, too fast to be idle meanwhile", took)
	}
}

func TestRefusals(t *testing.T) {
	m := kernels(t, nil)
	_, err := m.CreateContext(t.Context(), "cobol", &driver.ContextOptions{})
	if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "installed: python") {
		t.Errorf("got %v", err)
	}
	_, err = m.CreateContext(t.Context(), "co\nbol", &driver.ContextOptions{})
	if fault.Of(err) != fault.Unsupported || strings.Contains(err.Error(), "\n") {
		t.Errorf("a name with a newline: %v, want one line", err)
	}
	_, err = m.CreateContext(t.Context(), strings.Repeat("x", 1<<20), &driver.ContextOptions{})
	if fault.Of(err) != fault.InvalidArgument || len(err.Error()) > 1000 {
		t.Errorf("got %.2000v", err)
	}
}

// TestNothingInstalled has a path on which no Python can be found.
func TestNothingInstalled(t *testing.T) {
	ws := open(t)
	shell := *ws.Shell
	shell.Starter = hidden{ws.Shell.Starter}
	k := jupyter.New(&shell, nil)
	_, err := k.Module().CreateContext(t.Context(), "python", &driver.ContextOptions{})
	if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "python3-ipykernel") {
		t.Errorf("got %v", err)
	}
	if err := k.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// hidden starts commands that find no Python.
type hidden struct{ driver.Starter }

func (h hidden) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	cmd.Argv[2] = strings.ReplaceAll(cmd.Argv[2], "python", "no-such-python")
	return h.Starter.Start(ctx, cmd)
}

func TestMain(m *testing.M) { testshell.Main(m) }

// TestAContextOutlivesItsHandle: another handle on the workspace, as after a pause or a restart of
// the server, finds the contexts with their state, also one whose code still runs.
func TestAContextOutlivesItsHandle(t *testing.T) {
	testenv.NeedsJupyter(t)
	p, _ := testshell.NewProvider(t, sandbox.Kind)
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: sandbox.Kind})
	if err != nil {
		t.Fatal(err)
	}
	opts := &jupyter.Options{Start: 3 * time.Minute}
	m := jupyter.New(ws.Shell, opts)
	id := create(t, m.Module())
	run(t, m.Module(), id, "x = 41")

	// The handle is closed while code runs: the code continues.
	ctx, cancel := context.WithCancelCause(t.Context())
	res, err := m.RunCode(ctx, driver.Code{Context: id, Source: "print('begun', flush=True)\nimport time\nfor n in range(20): time.sleep(0.1)\ny = n", OnOutput: func(driver.Output) error {
		cancel(fault.WithCause(fault.WrongState, fault.CauseClosed))
		return nil
	}})
	if err != nil || res.Cause != driver.CauseCanceled || res.Error == nil || !strings.Contains(res.Error.Value, "the code continues") {
		t.Errorf("got %+v, %+v, %v", res, res.Error, err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	ref := ws.Ref
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if ws, err = p.Resolve(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Life.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	next := jupyter.New(ws.Shell, opts).Module()
	list, err := next.Contexts(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].Language != "python" {
		t.Errorf("contexts %v, %v", list, err)
	}
	if got := result(run(t, next, id, "x + 1, y, __import__('os').environ['GIVEN']")); got != "(42, 19, 'yes')" {
		t.Errorf("got %q", got)
	}

	// A kernel that died while nothing ran is not replaced without a word.
	run(t, next, id, "import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), os._exit(1))).start()")
	for range 100 {
		res = run(t, next, id, "x")
		if res.Cause != "" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if res.Cause != driver.CauseLost || res.Error == nil {
		t.Errorf("got %+v, want a word about the lost state", res)
	}
	// Nor is a context whose bridge was killed.
	sessions, err := ws.Shell.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range sessions {
		if info.Labels["croft.context"] != id {
			continue
		}
		session, err := ws.Shell.Attach(t.Context(), info.ID)
		if err == nil {
			err = session.Kill(t.Context(), 0)
		}
		if err == nil {
			_, err = session.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := next.RunCode(t.Context(), driver.Code{Context: id, Source: "1"}); fault.Of(err) != fault.NotFound && fault.Of(err) != fault.Unavailable {
		t.Errorf("got %v, want that the context is gone", err)
	}
	_, err = next.RunCode(t.Context(), driver.Code{Context: id, Source: "1"})
	if fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "its state is lost") {
		t.Errorf("got %v, want that its state is lost", err)
	}
}
