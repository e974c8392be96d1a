package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/testenv"
)

// A tmuxPane is a program in a terminal that tmux draws.
type tmuxPane struct {
	t      *testing.T
	tmux   string
	socket string
}

// onScreen starts a command in a terminal of 100 columns and 20 lines.
func onScreen(t *testing.T, cmd *exec.Cmd) *tmuxPane {
	t.Helper()
	p := &tmuxPane{t: t, tmux: testenv.NeedsProgram(t, "tmux"), socket: filepath.Join(t.TempDir(), "tmux")}
	// The terminal is looked at after the end of the command.
	const script = `"$@"; echo "exit status $?"; exec cat`
	args := slices.Concat([]string{"-S", p.socket, "-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "20", "--", "sh", "-c", script, "sh", cmd.Path}, cmd.Args[1:])
	start := exec.CommandContext(t.Context(), p.tmux, args...)
	start.Dir, start.Env = cmd.Dir, append(slices.Clone(cmd.Env), "LC_ALL=C.UTF-8", "TMUX=")
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	t.Cleanup(func() { exec.Command(p.tmux, "-S", p.socket, "kill-server").Run() })
	return p
}

func (p *tmuxPane) run(args ...string) string {
	p.t.Helper()
	out, err := exec.CommandContext(p.t.Context(), p.tmux, append([]string{"-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// shows waits until the screen shows all texts, and returns it.
func (p *tmuxPane) shows(texts ...string) string {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		shown := p.run("capture-pane", "-p")
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(shown, text) }) {
			return shown
		}
		if time.Now().After(end) {
			p.t.Fatalf("the screen does not show %q:\n%s", texts, shown)
		}
	}
}

func (p *tmuxPane) keys(keys ...string) {
	p.t.Helper()
	p.run(append([]string{"send-keys"}, keys...)...)
}

// pid is the process id of the command.
func (p *tmuxPane) pid() int {
	p.t.Helper()
	shell := p.run("display-message", "-p", "#{pane_pid}")
	children, err := os.ReadFile(filepath.Join("/proc", shell, "task", shell, "children"))
	if err != nil {
		p.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		p.t.Fatalf("the processes of the terminal are %q", children)
	}
	return pid
}

// ends waits for the end of the command, and returns the screen, which has its exit status.
// The terminal must be as it was before.
func (p *tmuxPane) ends() string {
	p.t.Helper()
	shown := p.shows("exit status ")
	if got := p.run("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}"); got != "0 1 1" {
		p.t.Errorf("after the end: alternate screen, cursor, wrapping of lines are %s, want 0 1 1", got)
	}
	p.keys("echoed", "Enter")
	p.shows("echoed\nechoed")
	return shown
}

// reviewed is a project with a work, of which a hunk, a new file and one in a new
// directory are to be reviewed.
func reviewed(t *testing.T) (dir string, in func(args ...string) *exec.Cmd) {
	dir, in = workProject(t)
	var numbers strings.Builder
	for i := range 30 {
		fmt.Fprintln(&numbers, i+1)
	}
	if err := os.WriteFile(filepath.Join(dir, "numbers"), []byte(numbers.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	const script = `sed -i 's/^2$/two/; s/^28$/x/' numbers; echo new > new.txt; mkdir d; printf 'a\033[2Jb\n' > d/e`
	if out, err := in("work", "--", "sh", "-c", script).CombinedOutput(); err != nil || !strings.Contains(string(out), "changed 3 files, +4 -2") {
		t.Fatalf("work: %v\n%s", err, out)
	}
	return dir, in
}

// TestReviewOnAScreen reviews a work on the whole terminal: it takes a hunk and a file, has
// them tested, and applies them. The size of the terminal changes meanwhile.
func TestReviewOnAScreen(t *testing.T) {
	dir, in := reviewed(t)
	p := onScreen(t, in("work", "review", "--test", "cat numbers; test ! -e d && grep two numbers"))
	p.shows("app-sh  taken: 0 of 4 changes, in 0 files", "> [ ] A d/e", "+1 -0", "[ ] M numbers", "[ ] A new.txt", `+a\x1b[2Jb`, "q finish")
	if got := p.run("display-message", "-p", "#{alternate_on} #{cursor_flag}"); got != "1 0" {
		t.Errorf("alternate screen and cursor are %s", got)
	}
	p.keys("j", "Down")
	p.shows("> [ ] M numbers", "[ ] @@ -1,5 +1,5 @@", "-2", "+two", "-28")
	p.keys("Enter", "Space")
	p.shows("[-] M numbers", ">[x] @@ -1,5", "taken: 1 of 4 changes, in 1 file")
	p.keys("k", "a")
	p.shows("[x] A new.txt", "taken: 2 of 4 changes, in 2 files")

	// Narrow, the files are above the changes.
	p.run("resize-window", "-x", "40", "-y", "16")
	p.shows("\n"+strings.Repeat("─", 40)+"\n", "[x] A new.txt", " +2 -2\n")
	p.run("resize-window", "-x", "8", "-y", "4")
	p.shows("> [-] M")
	p.run("resize-window", "-x", "100", "-y", "20")
	p.shows("[-] M numbers", "│")

	p.keys("?")
	p.shows("leave, and apply nothing", "any key returns")
	p.keys("x", "t")
	p.shows("tests: passed", "two")
	p.keys("x")
	p.shows("taken: 2 of 4 changes, in 2 files; tests: passed", "[-] M numbers")
	p.keys("q")
	p.shows("Apply 2 changes of 2 files? y: yes")
	p.keys("y")
	if shown := p.ends(); !strings.Contains(shown, "exit status 0") || !strings.Contains(shown, "to undo: croft work undo app-sh") {
		t.Errorf("after the review the terminal shows\n%s", shown)
	}
	got := treeOf(t, dir)
	if !strings.HasPrefix(got["numbers"], "1\ntwo\n3\n") || !strings.Contains(got["numbers"], "\n28\n") || got["new.txt"] != "new\n" || got["d/e"] != "" {
		t.Errorf("the project has %q", got)
	}
}

// TestReviewScreenIsRestored ends reviews by keys and by signals, also while tests run: the
// terminal is as before, and nothing is applied.
func TestReviewScreenIsRestored(t *testing.T) {
	dir, in := reviewed(t)
	before := treeOf(t, dir)
	for name, end := range map[string]func(p *tmuxPane, pid int){
		"q":       func(p *tmuxPane, _ int) { p.keys("q") },
		"n":       func(p *tmuxPane, _ int) { p.keys("A", "q", "n") },
		"ctrl-c":  func(p *tmuxPane, _ int) { p.keys("A", "C-c") },
		"SIGTERM": func(_ *tmuxPane, pid int) { _ = syscall.Kill(pid, syscall.SIGTERM) },
		"SIGHUP":  func(_ *tmuxPane, pid int) { _ = syscall.Kill(pid, syscall.SIGHUP) },
		"SIGINT":  func(_ *tmuxPane, pid int) { _ = syscall.Kill(pid, syscall.SIGINT) },
		"tests": func(p *tmuxPane, pid int) {
			p.keys("A", "t")
			p.shows("begun", "the tests run")
			_ = syscall.Kill(pid, syscall.SIGTERM)
		},
		"stopped tests": func(p *tmuxPane, _ int) {
			p.keys("A", "t")
			p.shows("begun", "the tests run")
			p.keys("C-c")
			p.shows("tests: stopped")
			p.keys("x", "C-c")
		},
	} {
		p := onScreen(t, in("work", "review", "--test", "echo begun; sleep 600"))
		p.shows("q finish")
		end(p, p.pid())
		shown := p.ends()
		killed := strings.HasPrefix(name, "SIG") || name == "tests"
		if !strings.Contains(shown, "nothing was applied") || strings.Contains(shown, "exit status 0") == killed {
			t.Errorf("%s: the terminal shows\n%s", name, shown)
		}
	}
	if got := treeOf(t, dir); len(got) != len(before) {
		t.Errorf("the project has %q", got)
	}
	if out, err := in("ws", "list").CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 2 {
		t.Errorf("forks of the tests are left: %v\n%s", err, out)
	}
}

// TestAttackWorkChangesDuringReview changes files of a work, and adds one to a directory of
// which all was taken, between the review and the apply: what was shown is tested and applied.
func TestAttackWorkChangesDuringReview(t *testing.T) {
	testenv.ReportAttack(t, "a work that changes files while they are reviewed", "review", testenv.Prevented, "what was shown is tested and applied")
	dir, in := workProject(t)
	if err := os.WriteFile(filepath.Join(dir, "numbers"), []byte("1\n2\n3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	agent := onTTY(t, in("work", "--", "sh", "-c", "sed -i s/2/two/ numbers; mkdir new; echo shown > new/file; echo ready; read -r _; sed -i s/two/evil/ numbers; echo evil > new/file; echo evil > new/unseen; echo done; read -r _"))
	agent.Shows("ready")
	review := onTTY(t, in("work", "review", "--test", "grep two numbers && grep shown new/file && ! ls new/unseen"))
	review.Cmd.Env = append(review.Cmd.Env, "TERM=xterm")
	review.Shows("q finish")
	review.Types("A")
	review.Shows("2 of 2")
	agent.Types("\r")
	agent.Shows("done")
	review.Types("t")
	review.Shows("tests: passed")
	review.Types("xqy")
	if err := review.Ends(); err != nil {
		t.Errorf("review: %v\n%s", err, review.Text())
	}
	got := treeOf(t, dir)
	if len(got) != 2 || got["numbers"] != "1\ntwo\n3\n" || got["new/file"] != "shown\n" {
		t.Errorf("after the review the project has %q", got)
	}
	if out, err := in("ws", "snapshots", "app-sh").CombinedOutput(); err != nil || strings.Contains(string(out), "review") {
		t.Errorf("the snapshot of the review is left: %v\n%s", err, out)
	}
	agent.Types("\r")
	if err := agent.Ends(); err != nil {
		t.Errorf("the agent: %v", err)
	}
	// What changes in a work in which nothing ran at the beginning is noticed.
	before := treeOf(t, dir)
	review = onTTY(t, in("work", "review"))
	review.Shows("q finish")
	review.Types("A")
	if out, err := in("ws", "exec", "app-sh", "--", "sh", "-c", "echo more >> new/unseen").CombinedOutput(); err != nil {
		t.Fatalf("ws exec: %v\n%s", err, out)
	}
	review.Types("qy")
	review.Shows("new/unseen was changed in the workspace meanwhile; nothing was written")
	if err := review.Ends(); err == nil {
		t.Error("the review ended with status 0")
	}
	if diff := gocmp.Diff(before, treeOf(t, dir)); diff != "" {
		t.Errorf("the project has changed (-before +after):\n%s", diff)
	}
}
