package cli_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/testenv"
)

// A hostWork is a project, and a user with an agent, for works without the sandbox.
type hostWork struct {
	t                    *testing.T
	program              string // croft, or croft-mac: without guests and without the provider sandbox
	home, dir, data      string
	env                  []string
	before, beforeInHome map[string]string
}

// fakeAgent shows what it was started with, and changes two files.
const fakeAgent = `#!/bin/sh
echo "agent $* in $(basename "$(pwd)") with $ANTHROPIC_API_KEY, home $HOME"
echo agent >> made
[ -e edited ] && sed s/^2$/two/ edited > edited.new && mv edited.new edited
exit 0
`

func newHostWork(t *testing.T, program string) *hostWork {
	t.Helper()
	home := t.TempDir()
	w := &hostWork{t: t, program: program, home: home, dir: filepath.Join(home, "app"), data: filepath.Join(t.TempDir(), "data")}
	for name, text := range map[string]string{
		"app/edited": "1\n2\n3\n", "app/sub/file": "x\n", "tools/claude": fakeAgent, ".ssh/id_ed25519": "planted-ssh", ".claude/settings.json": "{}",
	} {
		file := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "-C", w.dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	w.before, w.beforeInHome = treeOf(t, w.dir), treeOf(t, home)
	w.env = append(os.Environ(), "CROFT_DATA="+w.data, "HOME="+home, "PATH="+filepath.Join(home, "tools")+":"+os.Getenv("PATH"), "ANTHROPIC_API_KEY=planted-key", "AWS_SECRET_ACCESS_KEY=planted-other")
	return w
}

func (w *hostWork) cmd(args ...string) *exec.Cmd {
	w.t.Helper()
	path, err := exec.LookPath(w.program) // testscript put it there
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), path, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

// run runs a command that must succeed, and whose output must have each of the texts.
func (w *hostWork) run(args []string, texts ...string) string {
	w.t.Helper()
	return w.finish(w.cmd(args...), 0, texts...)
}

// fails runs a command that must end with a status.
func (w *hostWork) fails(status int, args []string, texts ...string) {
	w.t.Helper()
	w.finish(w.cmd(args...), status, texts...)
}

func (w *hostWork) finish(cmd *exec.Cmd, status int, texts ...string) string {
	w.t.Helper()
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != status {
		w.t.Fatalf("%q: exit status %d, want %d: %v\n%s", cmd.Args, got, status, err, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			w.t.Errorf("%q printed\n%s\nwant %q in it", cmd.Args, out, text)
		}
	}
	return string(out)
}

// unchanged reports changes of the project.
func (w *hostWork) unchanged(when string) {
	w.t.Helper()
	if diff := gocmp.Diff(w.before, treeOf(w.t, w.dir)); diff != "" {
		w.t.Errorf("%s the project has changed:\n%s", when, diff)
	}
}

func words(text string) []string { return strings.Fields(text) }

// TestWorkOnHost works without isolation from the start to apply and undo, with a guest and
// with commands that are children of croft. The project is as it was until the apply, nothing
// is written to the home, and no key to the data directory.
func TestWorkOnHost(t *testing.T) {
	for _, program := range []string{"croft", "croft-mac"} {
		t.Run(program, func(t *testing.T) {
			w := newHostWork(t, program)
			w.run(words("work --isolation none claude -- -p hello"),
				"croft: no isolation: what runs can read, change and send everything that you can", "agent -p hello in files with planted-key, home "+w.home+"\n",
				"croft: app-claude changed 2 files, +2 -1; next:")
			sub := w.cmd(words("work --isolation none claude -- --here")...)
			sub.Dir = filepath.Join(w.dir, "sub")
			w.finish(sub, 0, "agent --here in sub with planted-key")
			w.run(words("work --isolation none --name env -- sh -c env"))
			if out := w.run(words("work log env"), "sh -c env"); strings.Contains(out, "planted") {
				t.Errorf("the log has a key:\n%s", out)
			}
			w.run(words("work attach app-claude -- again"), "agent again in files with planted-key")
			w.unchanged("before the apply")
			w.run(words("work list"), "app-claude  ", "app-claude-2", "ended")
			w.run(words("work diff app-claude"), "+two")
			w.run(words("work compare --no-test app-claude app-claude-2"), "made")
			w.run(words("work --isolation none --parallel 2 --name try -- sh -c pwd>pid"), "try-1 ended with status 0", "try-2 ended with status 0")
			w.run(words("work allow example.com"), "app-claude reaches them already: its network is open")
			w.unchanged("after all works")
			if diff := gocmp.Diff(w.beforeInHome, treeOf(t, w.home)); diff != "" {
				t.Errorf("the home has changed:\n%s", diff)
			}
			w.noKeyIn(w.data)
			review := w.cmd(words("work review app-claude --test")...)
			review.Args = append(review.Args, "grep -q two edited")
			review.Stdin = strings.NewReader("y\nn\nt\ny\n")
			w.finish(review, 0, "tests: passed", "taken: 1 of 2 changes")
			if got := treeOf(t, w.dir); got["edited"] != "1\ntwo\n3\n" || got["made"] != "" {
				t.Errorf("after the review the project has %q", got)
			}
			w.run(words("work apply app-claude"))
			if got := treeOf(t, w.dir); got["made"] != "agent\nagent\n" {
				t.Errorf("after the apply the project has %q", got)
			}
			w.run(words("work undo"))
			w.run(words("work undo"))
			w.unchanged("after both undos")
			w.run(words("work discard --all --yes"))
			w.fails(11, words("work diff"), "has no work")
		})
	}
}

// noKeyIn reports files below a directory with a planted key.
func (w *hostWork) noKeyIn(dir string) {
	w.t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("planted-other")) || bytes.Contains(text, []byte("planted-key")) && !strings.Contains(path, "/log/") { // the agent prints its own key
			w.t.Errorf("%s has a key", path)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestWorkOnHostRefusals: flags that need the sandbox, levels that do not exist, and limits
// that can't be enforced are refused before anything is copied.
func TestWorkOnHostRefusals(t *testing.T) {
	w := newHostWork(t, "croft")
	for args, want := range map[string]string{
		"--isolation gvisor-x -- true":                     `--isolation "gvisor-x": give none, process, bubblewrap, namespaces or gvisor`,
		"--isolation vm -- true":                           `--isolation "vm": give none`,
		"--isolation none --allow-net example.com -- true": "--allow-net is for works in the sandbox; with --isolation none leave it out: its network is open",
		"--isolation none --secret A@example.com -- true":  "--secret is for works in the sandbox",
		"--isolation none --share-login claude":            "--share-login is for works in the sandbox",
		"--isolation none --in-place -- true":              "--in-place is for works in the sandbox",
		"--isolation none --ro /opt -- true":               "--ro is for works in the sandbox",
		"--isolation none --toolchain npm -- true":         "--toolchain is for works in the sandbox",
		"--isolation none --yolo claude":                   "--yolo is for works in the sandbox; with --isolation none leave it out: nothing confines an agent",
		"--isolation none -- nosuch":                       `program "nosuch": not found`,
		"-- nosuch":                                        "hint: install it on this host; a work in the sandbox has the programs below /usr",
		"--isolation none --memory 1G -- true":             "limit memory: unsupported",
		"--isolation none -- cat /etc/shadow":              "path is outside workspace sandbox",
	} {
		out, err := w.cmd(append([]string{"work"}, words(args)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "--toolchain auto") {
			t.Errorf("work %s: %v\n%s\nwant %q", args, err, out, want)
		}
	}
	if out := w.run(words("work list")); strings.Contains(out, "app-") {
		t.Errorf("works that never started are left:\n%s", out)
	}
	w.run(words("work --isolation none --memory 1G --best-effort -- true"), "limits of the workspace are not enforced: memory")
	w.run(words("work --isolation namespaces -- true"))
	w.run(words("work --isolation process -- true")) // a stronger one: see the table of docs/work.md
	w.run(words("work --isolation none claude"))
	w.fails(2, words("work attach app-claude --yolo"), "nothing confines an agent")
	w.fails(4, []string{"work", "--parallel", "2", "--", "sh", "-c", "exit 4"}, "ended with status 4")
	w.run(words("work discard --all --yes"))
	// The repository of a linked worktree is no copy.
	linked := filepath.Join(w.home, "linked")
	if out, err := exec.Command("git", "-C", w.dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x").CombinedOutput(); err != nil {
		t.Fatalf("git commit: %v\n%s", err, out)
	}
	if out, err := exec.Command("git", "-C", w.dir, "worktree", "add", "-q", linked).CombinedOutput(); err != nil {
		t.Fatalf("git worktree: %v\n%s", err, out)
	}
	cmd := w.cmd(words("work --isolation none -- true")...)
	cmd.Dir = linked
	w.finish(cmd, 125, "which git in a copy would change, too")
}

// TestWorkOnHostTerminal detaches from a command with a guest, kills croft, and attaches
// again. Without guests ctrl-] belongs to the command, which ends with croft, and another
// process says why it can't attach.
func TestWorkOnHostTerminal(t *testing.T) {
	const script = `trap "echo hup" HUP; stty -echo raw; echo ready; while :; do c=$(head -c 1 | od -An -tx1); echo "key$c"; case $c in *71) stty sane; exit 7;; esac; done`
	t.Run("croft", func(t *testing.T) {
		w := newHostWork(t, "croft")
		s := onTTY(t, w.cmd("work", "--isolation", "none", "--", "sh", "-c", script))
		s.Shows("ready")
		s.Types("\x1d")
		s.Shows("detached: the agent keeps running, for 15 minutes; come back with: croft work attach app-sh")
		_ = s.Ends()
		w.run(words("work list"), "running", "app-sh runs without a terminal; come back")
		s = onTTY(t, w.cmd("work", "attach"))
		s.Shows("ready")
		_ = s.Cmd.Process.Kill()
		_ = s.Ends()
		s = onTTY(t, w.cmd("work", "attach"))
		s.Shows("ready")
		s.Types("q")
		s.Shows("app-sh changed no file")
		if _ = s.Ends(); s.Cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("exit status %d, want 7\n%s", s.Cmd.ProcessState.ExitCode(), s.Text())
		}
		s = onTTY(t, w.cmd("work", "--isolation", "none", "--parallel", "2", "--name", "p", "--", "sleep", "1000"))
		s.Shows("p-1 runs")
		s.Shows("p-2 runs")
		if err := s.Cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		s.Shows("p-2 keeps running, for 15 minutes; come back with: croft work attach p-2; end it with: croft work discard p-2")
		if _ = s.Ends(); s.Cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("exit status %d, want 130\n%s", s.Cmd.ProcessState.ExitCode(), s.Text())
		}
		w.run(words("work discard --all --yes"))
	})
	t.Run("croft-mac", func(t *testing.T) {
		w := newHostWork(t, "croft-mac")
		s := onTTY(t, w.cmd("work", "--isolation", "none", "--", "sh", "-c", "echo $$ > pid; "+script))
		s.Shows("ready")
		s.Types("\x1d")
		s.Shows("key 1d")
		w.run(words("work list"), "running")
		w.run(words("work diff --name-only"), "pid")
		w.fails(125, words("work attach"), "has it open; without the sandbox an agent has the terminal that it was started on")
		s.Types("q")
		s.Shows("app-sh changed 1 file")
		if _ = s.Ends(); s.Cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("exit status %d, want 7\n%s", s.Cmd.ProcessState.ExitCode(), s.Text())
		}
		w.fails(125, words("work attach"), "its command has ended")
		w.fails(125, words("ws exec app-sh --detach -- sleep 1000"), "commands of this workspace end with the program that starts them")
		// The command ends with croft.
		s = onTTY(t, w.cmd("work", "--isolation", "none", "--name", "two", "--", "sh", "-c", "echo ready; while :; do echo x >> alive; sleep 0.05; done"))
		s.Shows("ready")
		if err := s.Cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = s.Ends()
		size := func() int64 {
			files, err := filepath.Glob(filepath.Join(w.data, "ws", "*", "files", "alive"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			info, err := os.Stat(files[0])
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		before := size()
		time.Sleep(300 * time.Millisecond)
		if after := size(); after != before {
			t.Errorf("the command goes on after croft has ended: %d bytes, then %d", before, after)
		}
	})
}

// TestWorkWithoutSandbox: on a system without the provider sandbox a plain work names the
// choices; with --isolation process it is isolated by sandbox-exec, or refused.
func TestWorkWithoutSandbox(t *testing.T) {
	testenv.NeedsProgram(t, "bwrap")
	w := newHostWork(t, "croft-mac")
	w.fails(125, words("work claude"), "this system has no provider sandbox, which needs Linux; the lesser choices here are:\n",
		"  croft work --isolation process claude   (sandbox-exec: writes to a copy of the project only", "other files are readable, the network is open)\n",
		"  croft work --isolation none claude   (only the project is a copy")
	w.fails(125, words("work --isolation gvisor -- make test"), "croft work --isolation none -- make test ")
	w.fails(125, words("work --isolation process claude"), "isolation process: unsupported", "this system has none")
	text, err := os.ReadFile("../../../provider/local/testdata/sandbox-exec")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "sandbox-exec")
	install := func(leaks string) {
		t.Helper()
		if err := os.WriteFile(program, bytes.Replace(text, []byte("LEAKS=none"), []byte("LEAKS="+leaks), 1), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.env = append(w.env, "CROFT_TEST_SANDBOX_EXEC="+program)
	install("hidden")
	w.fails(125, words("work --isolation process claude"), "does not isolate here: a command reads a hidden file")
	install("none")
	agent := "#!/bin/bash\necho agent >> made; echo state >> ~/.claude/state; cat ~/.ssh/id_ed25519; echo x > ~/stolen; cat ~/tools/claude > /dev/null && echo readable; echo \"key $ANTHROPIC_API_KEY\"; echo t > $TMPDIR/t && echo temporary\n"
	if err := os.WriteFile(filepath.Join(w.home, "tools", "claude"), []byte(agent), 0o755); err != nil {
		t.Fatal(err)
	}
	out := w.run(words("work --isolation process claude"), "croft: isolation process: what runs writes to the copy and ~/.claude, ~/.claude.json only", "readable\nkey planted-key\ntemporary\n", "app-claude changed 1 file, +1 -0")
	if strings.Contains(out, "planted-ssh") {
		t.Errorf("the agent reads a hidden file:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(w.home, "stolen")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the agent wrote to the home: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(w.home, ".claude", "state")); string(got) != "state\n" {
		t.Errorf("the agent's own state is %q, %v", got, err)
	}
	w.unchanged("before the apply")
	s := onTTY(t, w.cmd(words("work attach")...))
	s.Shows("temporary")
	s.Shows("app-claude changed 1 file, +2 -0")
	if err := s.Ends(); err != nil {
		t.Errorf("on a terminal: %v\n%s", err, s.Text())
	}
	w.run(words("work apply"))
	if got := treeOf(t, w.dir); got["made"] != "agent\nagent\n" {
		t.Errorf("after the apply the project has %q", got)
	}
}
