package cli_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// onTTY starts a command on a pseudo-terminal.
func onTTY(t *testing.T, cmd *exec.Cmd) *testenv.Terminal {
	t.Helper()
	return testenv.StartTerminal(t, cmd, 24, 80)
}

// workProject makes a project, and returns a function that makes commands in it.
func workProject(t *testing.T) (dir string, in func(args ...string) *exec.Cmd) {
	t.Helper()
	home := t.TempDir()
	return workProjectIn(t, home, filepath.Join(home, "app"), filepath.Join(home, "data"))
}

func workProjectIn(t *testing.T, home, dir, data string) (_ string, in func(args ...string) *exec.Cmd) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	in = func(args ...string) *exec.Cmd {
		cmd := croft(t, data, args...)
		cmd.Dir, cmd.Env = dir, append(cmd.Env, "HOME="+home)
		return cmd
	}
	// A guest would run for 15 minutes more.
	t.Cleanup(func() {
		discard := in("work", "discard", "--all", "--yes")
		cmd := exec.Command(discard.Path, discard.Args[1:]...) // the test's context has ended
		cmd.Dir, cmd.Env = discard.Dir, discard.Env
		if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "has no work") {
			t.Errorf("discard: %v\n%s", err, out)
		}
	})
	return dir, in
}

// TestWorkSurvivesKill kills croft work in the middle: neither tree loses anything, the
// work is listed, and its agent is attached again.
func TestWorkSurvivesKill(t *testing.T) {
	dir, in := workProject(t)
	s := onTTY(t, in("work", "--", "sh", "-c", "echo one > a.txt; echo ready; read -r line; echo $line > b.txt"))
	s.Shows("ready")
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.Ends() // it was killed
	list := func(state string) string {
		t.Helper()
		out, err := in("work", "list").CombinedOutput()
		if fields := strings.Fields(string(out)); err != nil || len(fields) < 9 || !slices.Equal(fields[6:9], []string{"app-sh", "sh", state}) {
			t.Errorf("the works are\n%s%v; want app-sh %s", out, err, state)
		}
		return string(out)
	}
	if out := list("running"); !strings.Contains(out, "croft work attach app-sh") {
		t.Errorf("after the kill the list does not say how to come back:\n%s", out)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("after the kill the project has %v, %v", entries, err)
	}
	if out, err := in("work", "discard", "app-sh").CombinedOutput(); err == nil || !strings.Contains(string(out), "app-sh runs") || !strings.Contains(string(out), "--yes removes 1 work (app-sh)") {
		t.Errorf("discard of a work that runs: %v\n%s", err, out)
	}
	s = onTTY(t, in("work", "attach"))
	s.Shows("ready")
	s.Types("two\r")
	if err := s.Ends(); err != nil {
		t.Errorf("attached: %v\n%s", err, s.Text())
	}
	s.Shows("app-sh changed 2 files")
	if out := list("ended"); strings.Contains(out, "attach") {
		t.Errorf("after the end the list is\n%s", out)
	}
	if out, err := in("work", "apply", "--discard").CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	for name, want := range map[string]string{"a.txt": "one\n", "b.txt": "two\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// TestWorkOnATerminal stops and continues a command with ctrl-z, detaches from it, attaches
// again, and ends it with ctrl-c.
func TestWorkOnATerminal(t *testing.T) {
	_, in := workProject(t)
	s := onTTY(t, in("work", "--", "sh", "-c", "trap 'echo caught; exit 7' INT; printf '\\033[?2004h\\033[?25l'; stty size; while :; do sleep 0.1; done"))
	s.Shows("24 80")
	s.Types("\x1a")
	s.Shows("stopped; Enter continues it")
	s.Types("\r")
	time.Sleep(200 * time.Millisecond)
	s.Types("\x1d")
	s.Shows("\x1b[?2004l\x1b[?25h\x1b[m") // the terminal is the shell's again
	s.Shows("croft work attach app-sh")
	if err := s.Ends(); err != nil {
		t.Errorf("detached: %v", err)
	}
	s = onTTY(t, in("work", "attach"))
	s.Shows("24 80")
	s.Types("\x03")
	s.Shows("caught")
	if _ = s.Ends(); s.Cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("exit status %d, want that of the command, 7", s.Cmd.ProcessState.ExitCode())
	}
}

// TestWorkAllow lets a work that runs, and was started without hosts, reach one, which is
// remembered for the project. A named rule that does not exist is not remembered.
func TestWorkAllow(t *testing.T) {
	serve := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }
	other, roots := secureServer(t, serve)
	dir, in := workProject(t)
	for args, want := range map[string]string{"allow no_host!!": `"no_host!!": a host is a name such as`, "--allow-net no_host!! -- true": "a host is a name such as",
		"allow --remove " + other: `"` + other + `": not found: allowed for this project are: none`} {
		if out, err := in(append([]string{"work"}, strings.Fields(args)...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	for _, args := range [][]string{{"work", "--allow-net", "@odd", "--", "true"}, {"work", "allow", "@odd"}} {
		if out, err := in(args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "the named rules are @cargo, @go, @npm, @pypi") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	cmd := in("work", "--", "sh", "-c", "echo begin > begin; until curl -sk https://"+other+"/ | grep hello; do sleep 0.1; done")
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+roots)
	s := onTTY(t, cmd)
	for {
		out, err := in("work", "log").CombinedOutput()
		if err == nil && strings.Contains(string(out), "refused") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if out, err := in("work", "allow", other).CombinedOutput(); err != nil || !strings.Contains(string(out), "app-sh reaches them now\ncroft: further works of this project may reach "+other+", too\n") {
		t.Fatalf("allow: %v\n%s", err, out)
	}
	if err := s.Ends(); err != nil {
		t.Errorf("the command: %v\n%s", err, s.Text())
	}
	s.Shows("hello")
	// The next work of the project has the hosts at once.
	next := in("work", "--", "curl", "-sk", "https://"+other+"/")
	if out, err := next.Output(); err != nil || string(out) != "hello" {
		t.Errorf("the next work: %q, %v", out, err)
	}
	// A host that an earlier version accepted, or that is no rule any more, stops no work.
	saved, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "data", "work", "*.json"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("the settings of the project are %q, %v", saved, err)
	}
	text, err := os.ReadFile(saved[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(saved[0], bytes.Replace(text, []byte(other), []byte(other+`", "no_host!!`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := in("work", "--", "true").CombinedOutput(); err != nil || !strings.Contains(string(out), `"no_host!!"`) || !strings.Contains(string(out), "croft work allow --remove 'no_host!!' forgets it") {
		t.Errorf("with a stored host that is none: %v\n%s", err, out)
	}
	if out, err := in("work", "allow", "@npm", "*").CombinedOutput(); err != nil || !strings.Contains(string(out), "may reach every public host, too") {
		t.Errorf("allow *: %v\n%s", err, out)
	}
	if out, err := in("work", "allow", "--remove", "no_host!!", "@npm", "*", other).CombinedOutput(); err != nil || !strings.Contains(string(out), "app-sh no longer reaches them now") {
		t.Errorf("allow --remove: %v\n%s", err, out)
	}
	if out, err := in("ws", "describe", "app-sh", "--json").CombinedOutput(); err != nil || !strings.Contains(string(out), "none.invalid") ||
		strings.Contains(string(out), "npm") || strings.Contains(string(out), `"*"`) || strings.Contains(string(out), other) {
		t.Errorf("after the removal app-sh is %v\n%s", err, out)
	}
	if out, err := in("work", "--", "curl", "-sk", "https://"+other+"/").CombinedOutput(); err == nil || strings.Contains(string(out), "no_host") {
		t.Errorf("after the removal a work reaches the host, or complains: %v\n%s", err, out)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the project has %v, %v", entries, err)
	}
}

// TestWorkAsksOnce asks on a terminal, once, whether the registry of the project's package
// manager may be reached: the hosts are those of the named rule, with a mirror of the
// configuration.
func TestWorkAsksOnce(t *testing.T) {
	dir, in := workProject(t)
	for name, text := range map[string]string{filepath.Join(dir, "package.json"): "{}", filepath.Join(dir, "croft.yaml"): "version: 1\nnetwork:\n  mirrors: {npm: 'https://npm.corp.test/'}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func() *testenv.Terminal {
		return onTTY(t, in("work", "--config", filepath.Join(dir, "croft.yaml"), "--", "sh", "-c", "echo registry $npm_config_registry"))
	}
	s := start()
	s.Shows("May works of this project reach @npm (npm.corp.test)? [y/N] ")
	s.Types("y\r")
	s.Shows("registry https://npm.corp.test/")
	if err := s.Ends(); err != nil {
		t.Errorf("work: %v\n%s", err, s.Text())
	}
	s = start()
	s.Shows("registry https://npm.corp.test/")
	if err := s.Ends(); err != nil || strings.Contains(s.Text(), "May works") {
		t.Errorf("the second work: %v\n%s", err, s.Text())
	}
}

// TestWorkKeepsConversations starts an agent that has ended again: it finds the files of
// its home, without its login, and continues. They are removed with the work.
func TestWorkKeepsConversations(t *testing.T) {
	home := t.TempDir()
	data := filepath.Join(home, "data")
	dir, in := workProjectIn(t, home, filepath.Join(home, "app"), data)
	program := filepath.Join(home, "tools", "claude")
	const agent = `#!/bin/sh
echo "arguments: $*"
cat ~/.claude/projects/log 2> /dev/null && grep -o croft-secret:claude_login ~/.claude/.credentials.json
mkdir -p ~/.claude/projects && echo "turn $*" >> ~/.claude/projects/log
`
	login := fmt.Sprintf(`{"claudeAiOauth": {"accessToken": "planted-token", "refreshToken": "planted-refresh", "expiresAt": %d}}`, time.Now().Add(time.Hour).UnixMilli())
	for name, text := range map[string]string{program: agent, filepath.Join(home, ".claude", ".credentials.json"): login} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := in(args...)
		cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	saved := func() []string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(data, "work", "*.home.tar"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	run("work", "claude", "--", "first")
	if got := run("work", "attach"); !strings.Contains(got, "the 1 argument(s) of its first start are not given again") {
		t.Errorf("the agent that started again without its argument printed\n%s", got)
	}
	if got := run("work", "attach", "--continue", "--", "next"); strings.Contains(got, "given again") || !strings.Contains(got, "arguments: --continue next\nturn first\nturn \ncroft-secret:claude_login\n") {
		t.Errorf("the agent that started again printed\n%s", got)
	}
	if got := run("work", "attach", "--yolo"); !strings.Contains(got, "--dangerously-skip-permissions\nturn first\nturn \nturn --continue next\n") {
		t.Errorf("with --yolo it printed\n%s", got)
	}
	if got := run("work", "attach", "--continue"); !strings.Contains(got, "arguments: --dangerously-skip-permissions --continue\n") ||
		!strings.Contains(got, "asks for no permissions, as before") {
		t.Errorf("after the start with --yolo it printed\n%s", got)
	}
	for _, args := range [][]string{{"--yolo=false"}, nil} {
		if got := run(append([]string{"work", "attach"}, args...)...); !strings.Contains(got, "arguments: \n") || strings.Contains(got, "no permissions") {
			t.Errorf("after the start with --yolo=false it printed\n%s", got)
		}
	}
	for _, file := range saved() {
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("credentials.json")) || bytes.Contains(text, []byte("planted")) {
			t.Errorf("%s has the login, %v", file, err)
		}
	}
	if log := run("work", "log"); strings.Contains(log, "tar ") {
		t.Errorf("the log has commands of croft itself:\n%s", log)
	}
	if before := saved(); len(before) != 1 {
		t.Errorf("saved homes: %q", before)
	}
	run("work", "discard")
	if after := saved(); len(after) != 0 {
		t.Errorf("after the discard there are %q", after)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the project has %v, %v", entries, err)
	}
}

// TestWorkInASubdirectory starts commands and an agent in a directory of the project: they
// start in it inside, and so does the agent that starts again, from wherever.
func TestWorkInASubdirectory(t *testing.T) {
	dir, in := workProject(t)
	sub := filepath.Join(dir, "a b", "sub")
	tools := filepath.Join(filepath.Dir(dir), "tools")
	for name, text := range map[string]string{filepath.Join(sub, "here"): "#!/bin/sh\necho in $(pwd); echo new >> new\n", filepath.Join(tools, "claude"): "#!/bin/sh\necho in $(pwd)\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(dir string, args ...string) *exec.Cmd {
		cmd := in(args...)
		cmd.Dir, cmd.Env = dir, append(cmd.Env, "PATH="+tools+":"+os.Getenv("PATH"))
		return cmd
	}
	for _, cmd := range []*exec.Cmd{
		at(sub, "work", "--name", "one", "--", "./here"), at(sub, "work", "claude"), at(dir, "work", "attach", "app-claude"), at(sub, "work", "--in-place", "--", "./here"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "in "+sub+"\n") {
			t.Errorf("%q: %v\n%s\nwant it in %s", cmd.Args[1:], err, out, sub)
		}
	}
	s := onTTY(t, at(sub, "work", "--name", "two", "--", "./here"))
	s.Shows("in " + sub)
	if err := s.Ends(); err != nil {
		t.Errorf("on a terminal: %v\n%s", err, s.Text())
	}
	if out, err := at(sub, "work", "diff", "two", "--name-only").CombinedOutput(); err != nil || !strings.Contains(string(out), "a b/sub/new") {
		t.Errorf("diff: %v\n%s", err, out)
	}
}

// treeOf returns the files of a directory with their content, without .git.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() == ".git" {
			return cmp.Or(err, fs.SkipDir)
		}
		if !e.IsDir() {
			var data []byte
			data, err = os.ReadFile(path)
			all[strings.TrimPrefix(path, dir+"/")] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestWorkOnAFullDisk fills the disk of the project before an apply and before an undo:
// each fails, names the reason and leaves the project as it was, and succeeds when there is
// space again. It fills the disk of the data directory with an agent, too: the work is kept.
func TestWorkOnAFullDisk(t *testing.T) {
	home := t.TempDir()
	project := filepath.Join(testenv.NeedsTmpfs(t, 4<<20), "app")
	dir, in := workProjectIn(t, home, project, filepath.Join(home, "data"))
	if err := os.WriteFile(filepath.Join(dir, "edited"), bytes.Repeat([]byte("line\n"), 40_000), 0o644); err != nil {
		t.Fatal(err)
	}
	const script = "echo new > a; sed -i 1s/line/first/ edited; head -c 300000 /dev/urandom > big; mkdir d; echo x > d/e"
	if out, err := in("work", "--", "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("work: %v\n%s", err, out)
	}
	start, full := treeOf(t, dir), filepath.Join(filepath.Dir(dir), "full")
	for _, step := range []string{"apply", "undo"} {
		before := treeOf(t, dir)
		if err := os.WriteFile(full, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill the disk: %v", err)
		}
		cmd := in("work", step)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 16 || !strings.Contains(string(out), "no space left on device") {
			t.Errorf("%s on a full disk: exit status %d\n%s", step, code, out)
		}
		if diff := gocmp.Diff(before, treeOf(t, dir)); diff != "" {
			t.Errorf("%s on a full disk changed the project:\n%s", step, diff)
		}
		if log, err := in("work", "log").CombinedOutput(); err != nil || strings.Contains(string(log), "APPLIED") != (step == "undo") {
			t.Errorf("the log after %s on a full disk: %v\n%s", step, err, log)
		}
		if err := os.Remove(full); err != nil {
			t.Fatal(err)
		}
		if out, err := in("work", step).CombinedOutput(); err != nil {
			t.Errorf("%s with space again: %v\n%s", step, err, out)
		}
	}
	if diff := gocmp.Diff(start, treeOf(t, dir)); diff != "" {
		t.Errorf("after apply and undo:\n%s", diff)
	}

	dir, in = workProjectIn(t, home, filepath.Join(home, "app"), filepath.Join(testenv.NeedsTmpfs(t, 24<<20), "data"))
	out, err := in("work", "--", "sh", "-c", "echo one > a; cat /dev/zero > big; rm big; echo two > b").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "No space left on device") {
		t.Errorf("an agent that fills the disk: %v\n%s", err, out)
	}
	if out, err := in("work", "apply").CombinedOutput(); err != nil {
		t.Errorf("apply: %v\n%s", err, out)
	}
	if diff := gocmp.Diff(map[string]string{"a": "one\n", "b": "two\n"}, treeOf(t, dir)); diff != "" {
		t.Errorf("the project has (-want +got):\n%s", diff)
	}
}

// TestHostUserCroft uses toolchains, and a project, of a user of the host that has the name
// of the user inside.
func TestHostUserCroft(t *testing.T) {
	const script = `mount -t tmpfs tmpfs /home && mkdir -p /home/croft/go/pkg/mod/cache /home/croft/.npm/_cacache /home/croft/app && cd /home/croft/app && git init -q . && echo mine > file || exit 99
"$@" run --toolchain npm,go --rw . -- sh -c 'pwd; cat file; ls -d /home/croft/.npm/_cacache; echo ~' &&
"$@" work -- sh -c 'pwd; echo ~; echo theirs > file' && "$@" work apply && cat file`
	data := filepath.Join(t.TempDir(), "data")
	cmd := croft(t, data)
	cmd = exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, "sh", cmd.Path)
	cmd.Env = append(os.Environ(), "CROFT_DATA="+data, "HOME=/home/croft", "GOPATH=", "GOCACHE=", "GOMODCACHE=")
	out, err := cmd.CombinedOutput()
	if _, bad := errors.AsType[*exec.ExitError](err); !bad && err != nil || cmd.ProcessState.ExitCode() == 99 || strings.Contains(string(out), "unshare:") {
		t.Skipf("skipped: host: it lacks the right to mount a tmpfs: %v\n%s", err, out)
	}
	want := "/home/croft/app\nmine\n/home/croft/.npm/_cacache\n/home/agent\n"
	if err != nil || !strings.HasPrefix(string(out), want) || !strings.Contains(string(out), "/home/croft/app\n/home/agent\n") || !strings.HasSuffix(string(out), "theirs\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAttackReview shows files whose text and name have control sequences, and the output
// of tests that has some, on a terminal: none reaches it.
func TestAttackReview(t *testing.T) {
	testenv.ReportAttack(t, "control sequences in what is reviewed", "review", testenv.Prevented, "")
	_, in := workProject(t)
	const script = `printf 'text\033[2J\033[1;1Hfaked\rover\342\200\256bidi\n' > file; printf x > "$(printf 'a\033]0;title\007b')"`
	if out, err := in("work", "--", "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("work: %v\n%s", err, out)
	}
	for name, cmd := range map[string]*exec.Cmd{
		"diff": in("work", "diff"), "list": in("work", "list"), "log": in("work", "log"), "stat": in("work", "diff", "--stat"), "compare": in("work", "compare", "--test", "true"),
		"review": in("work", "review", "--test", `printf 'ok\033[2J\033[1;1Hfaked\n'`), "no colour": in("work", "diff"),
	} {
		cmd.Env = append(cmd.Env, "TERM=xterm")
		if name == "no colour" {
			cmd.Env = append(cmd.Env, "NO_COLOR=1")
		}
		s := onTTY(t, cmd)
		if name == "review" {
			s.Shows("q finish")
			s.Types("jkAt")
			s.Shows("tests: passed")
			s.Types("xqn")
		}
		if err := s.Ends(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, s.Text())
		}
		for _, bad := range []string{"\x1b[2J", "\x1b[1;1H", "\x1b]0;", "\rover", "\u202e"} {
			if strings.Contains(s.Text(), bad) {
				t.Errorf("%s shows %q: %q", name, bad, s.Text())
			}
		}
	}
}

// TestWorkMistakes: a program that does not exist leaves no work, an unknown name removes
// none, an apply that would change nothing says so, a commit without an author applies
// nothing, an undo names what was changed since, and the change of a killed process is completed
// with a message.
func TestWorkMistakes(t *testing.T) {
	dir, in := workProject(t)
	says := func(want string, args ...string) {
		t.Helper()
		cmd := in(args...)
		cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "EMAIL=", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.useConfigOnly", "GIT_CONFIG_VALUE_0=true")
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("croft %q: %s\nwant %q", args, out, want)
		}
	}
	says(`program "nosuch": not found`, "work", "--", "nosuch")
	says("has no work", "work", "diff")
	says("one changed 1 file", "work", "--name", "one", "--", "sh", "-c", "echo x > f")
	says("two changed 1 file", "work", "--name", "two", "--", "sh", "-c", "echo x > g")
	says("work \"one\": already exists\nhint: croft work attach one returns to it, croft work discard one removes it", "work", "--name", "one", "--", "true")
	says("--parallel 33: give a number of copies, at most 32", "work", "--parallel", "33", "--", "true")
	says("no change at nofile, and the project has no such file, nor a work of that name\n", "work", "diff", "one", "nofile")
	says("no change at .git\n", "work", "diff", "one", ".git", "f")
	says(`work "three": not found`, "work", "discard", "one", "three")
	says("two is a work, not a path", "work", "apply", "one", "two")
	says("the repository has no commit yet", "work", "apply", "one", "--branch", "b")
	says("git does not know who you are", "work", "apply", "one", "--commit")
	says("there is no command after --", "work", "--")
	says("no apply of one is left to take back", "work", "undo", "one")
	if _, err := os.Stat(filepath.Join(dir, "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("f was applied: %v", err)
	}
	says("to undo", "work", "apply", "one")
	says("nothing to apply", "work", "apply", "one")
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	take := "croft ws get two g " + filepath.Join(dir, "g")
	if err := os.WriteFile(filepath.Join(dir, "g"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	says("to take the other one, use "+take+"\n", "work", "apply", "two")
	says("got 1 file", strings.Fields(take)[1:]...)
	if text, err := os.ReadFile(filepath.Join(dir, "g")); err != nil || string(text) != "x\n" {
		t.Errorf("after %s g is %q, %v", take, text, err)
	}
	says("changed since: f; undo would overwrite them; --force does so\n", "work", "undo")
	says("--force does so; a later apply is undone first", "work", "undo", "one")
	if err := os.Remove(filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	says("was taken back already", "work", "undo", "--dry-run")
	says("the apply of one of ", "work", "undo") // it was recorded as applied for ever
	says("nothing was applied to ", "work", "undo")
	plantInterrupted(t, dir, filepath.Join(filepath.Dir(dir), "data"), "h")
	says("croft: completed an interrupted change of "+dir+"\n", "work", "list")
	if text, err := os.ReadFile(filepath.Join(dir, "h")); err != nil || string(text) != "new" {
		t.Errorf("h is %q, %v", text, err)
	}
	plantInterrupted(t, dir, filepath.Join(filepath.Dir(dir), "data"), "i")
	says(fmt.Sprintf(`{"recovered":{"dir":"%[1]s","message":"completed an interrupted change of %[1]s"}}`+"\n", dir), "work", "list", "--json")
	says("removed two", "work", "discard", "--all", "--yes")
	says("has no work", "work", "discard", "--all")
}

// TestWorkCommit: a commit that fails takes the changes back, and the same command works
// afterwards. Filters that may run files of the project are refused.
func TestWorkCommit(t *testing.T) {
	dir, in := workProject(t)
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("commit", "-q", "--allow-empty", "-m", "first")
	git("config", "user.name", "a")
	git("config", "user.email", "a@b")
	says := func(want string, args ...string) {
		t.Helper()
		if out, _ := in(args...).CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("croft %q: %s\nwant %q", args, out, want)
		}
	}
	says("changed 1 file", "work", "--name", "one", "--", "sh", "-c", "echo x > f")
	for name, want := range map[string]string{"index": "git add", "refs/heads/" + strings.TrimSpace(git("branch", "--show-current")): "git commit"} {
		lock := filepath.Join(dir, ".git", name+".lock")
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		says("the changes were taken back", "work", "apply", "one", "--commit")
		says(want, "work", "apply", "one", "--commit")
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		if out := git("status", "--porcelain"); out != "" {
			t.Errorf("after a failed %s: %s", want, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git/info/attributes"), []byte("f filter=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"./tools/x.sh", "cd tools && x", "sh tools/x.sh", "T=tools; $T/x"} {
		git("config", "filter.x.clean", command)
		says("git would run the filter x", "work", "apply", "one", "--commit")
	}
	git("config", "filter.x.clean", `"cat" -`)
	says("committed", "work", "apply", "one", "--commit")
	says("took back the apply of one", "work", "undo", "one")
	says("removed one", "work", "discard", "one", "--yes")
}

// plantInterrupted leaves what a killed process does that was about to make a file in a directory,
// with a journal as earlier versions wrote it.
func plantInterrupted(t *testing.T, dir, data, name string) {
	t.Helper()
	stage := files.StagePrefix + driver.NewID()
	body, err := json.Marshal(map[string]any{"dir": dir, "ops": []any{map[string]any{"path": []byte(name), "temp": "1"}}})
	err = errors.Join(err, os.Mkdir(filepath.Join(dir, stage), 0o700), os.MkdirAll(app.JournalsDir(data), 0o700),
		os.WriteFile(filepath.Join(dir, stage, "1"), []byte("new"), 0o644), os.WriteFile(filepath.Join(dir, stage, "journal"), nil, 0o600),
		os.WriteFile(filepath.Join(app.JournalsDir(data), stage), slices.Concat([]byte("croft-journal 1 "+driver.DigestBytes(body)+"\n"), body), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// TestWorkAtGVisor starts works at the level gvisor before and after a change of the
// project: each has the project's files of its time, and is applied.
func TestWorkAtGVisor(t *testing.T) {
	runsc := testenv.Runsc()
	if runsc == "" {
		t.Skip("skipped: host: gVisor (runsc) is not installed")
	}
	home := t.TempDir()
	data := filepath.Join(home, "data")
	dir, in := workProjectIn(t, home, filepath.Join(home, "app"), data)
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(data, "croft.yaml"), "version: 1\npolicies:\n  default: {isolation: gvisor}\n")
	for i := range 20 {
		write(filepath.Join(dir, "src", fmt.Sprint(i)), "first\n")
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := in(args...)
		cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(runsc)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	kernel, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	const script = "cat /proc/version; cd src; for f in $(ls); do echo $f $(cat $f); done; echo work > w; rm 5; echo more >> 6"
	if got := run("work", "--name", "one", "--", "sh", "-c", script); strings.Contains(got, string(kernel)) || !strings.Contains(got, "19 first\n") {
		t.Errorf("the first work printed\n%s", got)
	}
	write(filepath.Join(dir, "src", "1"), "second\n")
	write(filepath.Join(dir, "src", "new"), "second\n")
	if err := os.Remove(filepath.Join(dir, "src", "2")); err != nil {
		t.Fatal(err)
	}
	got := run("work", "--name", "two", "--", "sh", "-c", script)
	if !strings.Contains(got, "1 second\n") || !strings.Contains(got, "new second\n") || strings.Contains(got, "\n2 first\n") || !strings.Contains(got, "\n3 first\n") {
		t.Errorf("the work after a change printed\n%s", got)
	}
	if layers, err := filepath.Glob(filepath.Join(data, "layers", "delta-*")); err != nil || len(layers) != 1 {
		t.Errorf("layers with differences: %q, %v", layers, err)
	}
	if got := run("work", "diff", "two", "--name-only"); got != "removed\tsrc/5\nmodified\tsrc/6\nadded\tsrc/w\n" {
		t.Errorf("the second work changed\n%s", got)
	}
	run("work", "apply", "two")
	after := treeOf(t, dir)
	if after["src/6"] != "first\nmore\n" || after["src/w"] != "work\n" || after["src/1"] != "second\n" || len(after) != 20 {
		t.Errorf("after the apply the project has %q", after)
	}
}

// TestWorkCommitsManyFiles commits more paths than a command line holds, some of them with
// names that git would take for patterns or flags, into a directory of a repository.
//
//croft:slow
func TestWorkCommitsManyFiles(t *testing.T) {
	home := t.TempDir()
	repo := filepath.Join(home, "repo")
	dir, in := workProjectIn(t, home, repo, filepath.Join(home, "data"))
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	sub := filepath.Join(dir, "sub")
	if err := errors.Join(os.Mkdir(sub, 0o755), os.WriteFile(filepath.Join(sub, "mine"), []byte("old\n"), 0o644), os.WriteFile(filepath.Join(sub, "removed"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	git("add", ".")
	git("commit", "-qm", "first")
	const script = `seq -f $(printf %0245d 0).%g 8500 | xargs touch; echo x > -rf; echo x > ':(top)*'; mkdir empty; ln -s ../outside out; ln -s sub/mine in; rm sub/removed; echo x > "$(printf 'a\nb')"; echo agent > sub/mine`
	if out, err := in("work", "--", "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("work: %v\n%s", err, out)
	}
	commit := func(args ...string) ([]byte, error) {
		cmd := in(append([]string{"work", "apply", "--commit", "-m", "agent"}, args...)...)
		cmd.Env = append(cmd.Env, "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
		return cmd.CombinedOutput()
	}
	if err := os.WriteFile(filepath.Join(sub, "mine"), []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := commit(); err == nil || !strings.Contains(string(out), "not committed, such as sub/mine") {
		t.Errorf("with a change of the user: %v\n%.500s", err, out)
	}
	git("checkout", "-q", ".")
	if err := os.WriteFile(filepath.Join(dir, "other"), []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := commit()
	if err != nil || !strings.Contains(string(out), "committed ") || !strings.Contains(string(out), "out is a symlink that leads out of the directory: ../outside\n") || strings.Contains(string(out), "in is a symlink") {
		t.Errorf("apply: %v\n%.500s", err, out)
	}
	if got := git("status", "--short"); got != "?? other\n" {
		t.Errorf("after the commit the status is\n%.500s", got)
	}
	if got := strings.Count(git("show", "--format=", "--no-renames", "--name-only", "-z", "HEAD"), "\x00"); got != 8507 {
		t.Errorf("the commit has %d files", got)
	}
	if out, err := in("work", "apply", "--commits").CombinedOutput(); err != nil || !strings.Contains(string(out), "refs/croft/repo-sh/HEAD") {
		t.Errorf("apply --commits: %v\n%.500s", err, out)
	}
	if log, err := in("work", "log").CombinedOutput(); err != nil || strings.Contains(string(log), "git ") || strings.Contains(string(log), "bundle") {
		t.Errorf("the log has commands of croft itself: %v\n%.500s", err, log)
	}
}
