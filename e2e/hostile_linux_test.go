package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// A hostProject is a Git repository of the user, on the host.
type hostProject struct {
	t      *testing.T
	croft  string
	dir    string
	marker string // which only a program on the host can write
	uid    int
	env    []string
}

// newProject makes a repository of two commits with an ignored credential file.
func newProject(t *testing.T, uid int) *hostProject {
	t.Helper()
	p := &hostProject{t: t, croft: filepath.Join(buildCroft(t), "croft"), uid: uid}
	top, err := os.MkdirTemp("", "hostile") //nolint:usetesting // an ordinary user can enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testenv.RemoveAll(t, top) })
	home := filepath.Join(top, "home")
	p.dir, p.marker = filepath.Join(home, "project"), filepath.Join(top, "marker", "file")
	for _, dir := range []string{home, p.dir, filepath.Dir(p.marker)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(top, 0o755); err != nil { //nolint:gosec // an ordinary user enters it
		t.Fatal(err)
	}
	p.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CROFT_DATA=" + filepath.Join(home, "data"), "GIT_CONFIG_NOSYSTEM=1", "TERM=dumb"}
	put(t, "", p.dir, map[string]string{
		"sum.py": "def sum(a, b):\n    return 0\n", "notes.txt": "one\ntwo\nthree\nfour\nfive\n", ".gitignore": ".env\n", ".env": "TOKEN=of-the-host\n",
	})
	for _, name := range []string{home, p.dir, filepath.Dir(p.marker)} {
		if err := chownAll(name, uid); err != nil {
			t.Fatal(err)
		}
	}
	p.git("init", "-q", "-b", "main")
	p.git("config", "user.name", "user")
	p.git("config", "user.email", "user@example.org")
	p.git("add", ".")
	p.git("commit", "-qm", "first")
	return p
}

func chownAll(dir string, uid int) error {
	return filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, uid, uid)
	})
}

// run runs a program of the host in the project. It returns what the program wrote, and
// its exit status.
func (p *hostProject) run(name string, args ...string) (string, int) {
	p.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// must runs croft, which must succeed.
func (p *hostProject) must(args ...string) string {
	p.t.Helper()
	out, status := p.run(p.croft, args...)
	if status != 0 {
		p.t.Fatalf("croft %v: exit %d\n%s", args, status, out)
	}
	return out
}

func (p *hostProject) git(args ...string) string {
	p.t.Helper()
	out, status := p.run("git", args...)
	if status != 0 {
		p.t.Fatalf("git %v: exit %d\n%s", args, status, out)
	}
	return out
}

func (p *hostProject) read(name string) string {
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// edit changes a file of the project while the agent works.
func (p *hostProject) edit(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// useGit does with the project what its user would do next, and checks that nothing of
// the agent ran on the host.
func (p *hostProject) useGit() {
	p.t.Helper()
	for _, args := range [][]string{
		{"status", "--short"}, {"diff"}, {"log", "--oneline", "--all"}, {"checkout", "-q", "-b", "next"}, {"stash", "list"}, {"add", "sum.py"}, {"commit", "-qm", "second"}, {"checkout", "-q", "main"},
	} {
		p.git(args...)
	}
	if got, err := os.ReadFile(p.marker); err == nil {
		p.t.Errorf("the host ran the agent's code: %s", got)
	}
}

// hostileScript returns the command line of the agent.
func (p *hostProject) hostileScript() []string {
	p.t.Helper()
	script, err := os.ReadFile("e2e/testdata/hostile.sh")
	if err != nil {
		p.t.Fatal(err)
	}
	return []string{"sh", "-c", string(script), "agent", p.marker}
}

// asBoth runs a test as root and as an ordinary user.
func asBoth(t *testing.T, f func(t *testing.T, uid int)) {
	if os.Getuid() != 0 {
		f(t, os.Getuid())
		return
	}
	t.Run("root", func(t *testing.T) { f(t, 0) })
	t.Run("ordinary", func(t *testing.T) { f(t, 12345) })
}

// TestAttackHostileAgent does what a new user would: copy a project into a sandbox, let a
// hostile agent work, review, and apply. The host runs nothing of the agent's, and no edit
// of the host is lost.
func TestAttackHostileAgent(t *testing.T) {
	asBoth(t, func(t *testing.T, uid int) {
		testenv.ReportAttackAs(t, "hostile agent: copy, review, apply", "sandbox", uid, testenv.Prevented, "")
		p := newProject(t, uid)
		p.must("ws", "open", "try", "--template", p.dir)
		p.edit("notes.txt", "one\ntwo\nthree\nfour\nFIVE of the host\n")
		out := p.must(append([]string{"ws", "exec", "try", "--"}, p.hostileScript()...)...)
		if strings.Contains(out, "of-the-host") || strings.Contains(out, "root:") {
			t.Errorf("the agent read credentials of the host: %s", out)
		}
		if status := p.git("status", "--short"); status != " M notes.txt\n" {
			t.Errorf("before apply, the project has other changes than the host's: %s", status)
		}
		if uid != 0 { // a directory of mode 0 stops the review, which says what to do
			if out, status := p.run(p.croft, "ws", "diff", "try"); status != 13 || !strings.Contains(out, "chmod u+rwX hooks") {
				t.Errorf("diff of a directory that can't be read: exit %d, %s", status, out)
			}
			p.must("ws", "exec", "try", "--", "chmod", "-R", "u+rwX", ".")
		}
		if diff := p.must("ws", "diff", "try"); strings.Contains(diff, "\x1b") {
			t.Errorf("the diff contains control characters: %q", diff)
		}
		out, status := p.run(p.croft, "ws", "apply", "try", ".")
		if status != 13 || !strings.Contains(out, ".envrc") || !strings.Contains(out, ".mcp.json") {
			t.Errorf("apply: exit %d, want 13 and the names of autorun files:\n%s", status, out)
		}
		if got := p.read("sum.py"); got != "def sum(a, b):\n    return 0\n" && got != "def sum(a, b):\n    return a + b\n" {
			t.Errorf("sum.py is neither old nor new: %q", got)
		}
		p.must("ws", "apply", "try", ".", "sum.py", "twice.py")
		for name, want := range map[string]string{
			"sum.py": "def sum(a, b):\n    return a + b\n", "notes.txt": "one\ntwo\nthree\nfour\nFIVE of the host\n", ".env": "TOKEN=of-the-host\n",
			"twice.py": "def twice(a):\n    return sum(a, a)\n",
		} {
			if got := p.read(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		p.useGit()
		p.must("ws", "apply", "try", ".", "--commits")
		if refs := p.git("for-each-ref", "--format=%(refname)", "refs/croft"); !strings.Contains(refs, "refs/croft/try/") {
			t.Errorf("apply --commits brought no commit: %q", refs)
		}
		p.useGit2()
		p.must("ws", "rm", "try")
	})
}

// useGit2 uses the project again, after its branch exists.
func (p *hostProject) useGit2() {
	p.t.Helper()
	p.git("status", "--short")
	p.git("log", "--oneline", "--all")
	p.git("checkout", "-q", "next")
	if got, err := os.ReadFile(p.marker); err == nil {
		p.t.Errorf("the host ran the agent's code: %s", got)
	}
}

// TestAttackHostileAgentInPlace lets the hostile agent work in the project itself. What
// the host runs stays as it was, and what can't be prevented there is reported.
func TestAttackHostileAgentInPlace(t *testing.T) {
	asBoth(t, func(t *testing.T, uid int) {
		testenv.ReportAttackAs(t, "hostile agent: directory in place", "sandbox", uid, testenv.Reported, "new repositories and autorun files are in the result")
		p := newProject(t, uid)
		config, head := p.read(".git/config"), p.git("rev-parse", "HEAD")
		p.must("ws", "open", "here", "--dir", p.dir)
		out := p.must(append([]string{"ws", "exec", "here", "--json", "--"}, p.hostileScript()...)...)
		var result struct {
			AutorunChanges []string `json:"autorunChanges"`
		}
		at := strings.Index(out, "{")
		if at < 0 || json.Unmarshal([]byte(out[at:]), &result) != nil {
			t.Fatalf("no result: %s", out)
		}
		var paths []string
		for _, name := range result.AutorunChanges {
			paths = append(paths, strings.TrimPrefix(name, p.dir+"/"))
		}
		for _, want := range []string{".envrc", ".mcp.json", ".vscode/tasks.json", ".claude/settings.json"} {
			_, err := os.Lstat(filepath.Join(p.dir, want))
			if err == nil && !slices.ContainsFunc(paths, func(got string) bool { return got == want || strings.HasPrefix(want, got+"/") }) {
				t.Errorf("%s is new and not reported: %q", want, paths)
			}
		}
		if !slices.ContainsFunc(paths, func(got string) bool { return strings.HasPrefix(got, "lib") }) {
			t.Errorf("the new repository in lib is not reported: %q", paths)
		}
		if got := p.read(".git/config"); got != config {
			t.Errorf(".git/config changed: %s", got)
		}
		if got := p.git("rev-parse", "HEAD"); got != head {
			t.Errorf("HEAD of the host is %s, want %s", got, head)
		}
		if hooks, _ := filepath.Glob(filepath.Join(p.dir, ".git/hooks/post-*")); slices.ContainsFunc(hooks, func(h string) bool { return !strings.HasSuffix(h, ".sample") }) {
			t.Errorf("new hooks: %q", hooks)
		}
		p.useGit()
		if got := p.read("sum.py"); got != "def sum(a, b):\n    return 0\n" { // main, after its change was committed on next
			t.Errorf("sum.py on main is %q", got)
		}
		p.must("ws", "rm", "here")
	})
}

// plantLate is what the agent does in each repository that it finds.
const plantLate = `find . -name .git | while read -r d; do
for hook in pre-commit post-checkout post-index-change; do printf '#!/bin/sh\necho pwned >> %s\n' "$1" > "$d/hooks/$hook"; chmod +x "$d/hooks/$hook"; done
printf '[core]\n\tfsmonitor = "echo pwned >> %s"\n' "$1" >> "$d/config"
git -C "${d%/.git}" config core.fsmonitor "echo pwned >> $1"; [ -f "$d" ] && echo 'gitdir: /nowhere' > "$d"
done 2>/dev/null; true`

// TestAttackRepositoriesOfTheHumanInPlace lets the human make repositories between the
// commands of a hostile agent, and while one runs. None of the agent's code runs on the host
// after a command that started later, and every repository that a running command could
// write to is reported.
func TestAttackRepositoriesOfTheHumanInPlace(t *testing.T) {
	asBoth(t, func(t *testing.T, uid int) {
		testenv.ReportAttackAs(t, "hostile agent: repositories that the human makes meanwhile", "sandbox", uid, testenv.Prevented, "by the next command; during a command the repository is reported")
		p := newProject(t, uid)
		p.must("ws", "open", "here", "--dir", p.dir)
		p.must("ws", "exec", "here", "--", "true")
		p.git("clone", "-q", p.dir, "vend")
		p.git("worktree", "add", "-q", "-b", "side", "wt")
		p.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", p.dir, "mods/lib")
		p.must("ws", "exec", "here", "--", "sh", "-c", plantLate, "agent", p.marker)
		for _, dir := range []string{"vend", "wt", "mods/lib"} {
			p.git("-C", dir, "status", "--short")
			p.git("-C", dir, "-c", "user.name=u", "-c", "user.email=u@example.org", "commit", "-q", "--allow-empty", "-m", "by the human")
		}
		p.git("reset", "-q", "--hard")
		p.edit("sum.py", "def sum(a, b):\n    return a + b\n")
		p.useGit()

		id := strings.TrimSpace(p.must("ws", "exec", "here", "--detach", "--", "sh", "-c", "while :; do\n"+plantLate+"\ntouch turn; done", "agent", p.marker))
		for {
			out, status := p.run("git", "clone", "-q", p.dir, "during")
			if status == 0 {
				break
			}
			if !strings.Contains(out, "lock") { // else the agent writes to the same file just now
				t.Fatalf("clone: %s", out)
			}
		}
		for range 2 { // the agent saw the clone
			if err := os.RemoveAll(filepath.Join(p.dir, "turn")); err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := os.Stat(filepath.Join(p.dir, "turn")); err == nil {
					break
				}
				p.must("ws", "ps", "here") // takes a moment
			}
		}
		p.must("ws", "kill", "here", id)
		p.must("ws", "rm", "here")
		if out := p.must("events", "--json"); !strings.Contains(out, filepath.Join(p.dir, "during/.git")) {
			t.Errorf("the repository is not reported: %s", out)
		}
	})
}
