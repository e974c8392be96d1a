package gitdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
)

func FuzzGitConfig(f *testing.F) {
	f.Add("[core]\n\thooksPath = .githooks\n[include]\n\tpath = ../x\n[extensions] worktreeConfig = true\n")
	f.Add("[includeIf \"gitdir:~/a\"]\npath=\"b\"\n[core]hooksPath=/abs")
	f.Add("[a \"]\\\"\"] b = \\\n c ; d")
	f.Fuzz(func(t *testing.T, text string) {
		c := ParseConfig(text)
		for _, name := range append(append(c.Hooks, c.Includes...), c.Worktree) {
			if len(name) > len(text) {
				t.Errorf("%q gives %q", text, name)
			}
		}
	})
}

func TestGitConfig(t *testing.T) {
	got := ParseConfig("\ufeff# [core] hooksPath = no\n[core]\n\thooksPath = .githooks # ours\n[include]\n path = ../x.inc\n" +
		"[includeIf \"onbranch:a]\\\"b\"] path = y ; z\n[core] hooksPath=/abs\n[submodule \"s\"]\n\tpath = s\n" +
		"[CORE]\n\tHOOKSPATH = \"with # and \\\"quotes\\\" \"\n\thookspath = on two \\\n lines  \n\thookspath\n\tworktree=../../w\n[extensions]\n\tworktreeConfig\n")
	want := Config{
		Hooks:    []string{".githooks", "/abs", `with # and "quotes" `, "on two  lines"},
		Includes: []string{"../x.inc", "y"}, Worktree: "../../w", PerTree: true, Runs: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPrivateGitTotal: the copies of a workspace have a bound together.
func TestPrivateGitTotal(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git/description"), []byte(strings.Repeat("x", 5000)), 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := entry.OpenDir(unix.AT_FDCWD, filepath.Join(dir, ".git"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	src := Source{FD: fd, Host: filepath.Join(dir, ".git"), Path: filepath.Join(dir, ".git")}
	for left, want := range map[int64]fault.Code{4999: fault.ResourceExhausted, 5000: ""} {
		copies := &Copies{Dir: t.TempDir(), List: []Copy{{Bytes: maxTotal - left}}}
		if c, err := copies.Get(src); err != nil && fault.Of(err) != want || err == nil && (want != "" || c.Bytes != 5000) {
			t.Errorf("with %d bytes left: %d bytes, %v", left, c.Bytes, err)
		}
	}
}
