package search

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern string
		yes, no []string
	}{
		{"**/*", []string{"a", "a/b"}, nil},
		{"*.go", []string{"x.go", ".go"}, []string{"a/x.go", "x.goo"}},
		{"**/*.go", []string{"x.go", "a/x.go", "a/b/x.go"}, []string{"x.c", "go"}},
		{"a/**", []string{"a/b", "a/b/c"}, []string{"a", "b"}},
		{"a/**/c", []string{"a/c", "a/b/c", "a/b/b/c"}, []string{"a/b", "c"}},
		{"{a,b}/*.{c,h}", []string{"a/x.c", "b/y.h"}, []string{"c/x.c", "a/x.o"}},
		{"{a/b,c}/x", []string{"a/b/x", "c/x"}, []string{"a/x"}},
		{"[a-c]?", []string{"ax", "cz"}, []string{"dx", "a"}},
		{`\*`, []string{"*"}, []string{"a"}},
		{"./a", []string{"a"}, []string{"b"}},
		{"a/", []string{"a"}, []string{"a/b"}},
	}
	for _, tt := range tests {
		g, err := NewGlob(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range tt.yes {
			if !g.Match(path) {
				t.Errorf("%s does not match %s", tt.pattern, path)
			}
		}
		for _, path := range tt.no {
			if g.Match(path) {
				t.Errorf("%s matches %s", tt.pattern, path)
			}
		}
	}
}

func TestGlobErrors(t *testing.T) {
	for pattern, want := range map[string]fault.Code{
		"": fault.InvalidArgument, "[": fault.InvalidArgument, "{a": fault.InvalidArgument, "a\x00": fault.InvalidArgument, "\xff": fault.InvalidArgument,
		"/etc/*": fault.SandboxViolation, "../*": fault.SandboxViolation, "a/../*": fault.SandboxViolation,
		strings.Repeat("{a,b}", 11): fault.InvalidArgument,
	} {
		if _, err := NewGlob(pattern); fault.Of(err) != want {
			t.Errorf("%q: %v, want %s", pattern, err, want)
		}
	}
}

func TestGlobPrunes(t *testing.T) {
	tests := []struct {
		pattern, base, dir string
		want               bool
	}{
		{"a/b/*.go", "a/b", "a/b/c", false}, {"a/b/*.go", "a/b", "a/b", true}, {"*/b/*", ".", "x", true}, {"*/b/*", ".", "x/c", false},
		{"*/b/**", ".", "x/b/c/d", true}, {"**/x", ".", "a/b", true}, {"a", ".", "a", false}, {"{a/b,c}/x", ".", "a", true},
	}
	for _, tt := range tests {
		g, err := NewGlob(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Base(); got != tt.base {
			t.Errorf("the base of %s is %q, want %q", tt.pattern, got, tt.base)
		}
		if got := g.Descends(tt.dir); got != tt.want {
			t.Errorf("%s descends into %s: %v", tt.pattern, tt.dir, got)
		}
	}
}

func TestFilters(t *testing.T) {
	p, err := PlanGrep(&driver.GrepOptions{Path: "src", Include: []string{"*.go", "sub/*.c", ".env"}, Exclude: []string{"*_test.go", "vendor", "gen/**"}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"src/a.go": true, "src/x/y/a.go": true, "src/a_test.go": false, "src/sub/a.c": true, "src/a.c": false, "src/x/sub/a.c": false,
		"src/.env": true, "src/.hidden.go": false,
	} {
		if got := p.Takes(path, path[strings.LastIndexByte(path, '/')+1:], false, nil); got != want {
			t.Errorf("takes %s: %v", path, got)
		}
	}
	if p.Enters("src/x/vendor", "vendor", nil) || !p.Enters("src/x", "x", nil) || p.Enters("src/.git", ".git", nil) ||
		p.Enters("src/gen", "gen", nil) || !p.Enters("src/x/gen", "gen", nil) {
		t.Error("it enters the wrong directories")
	}
}

const ignoreRules = "# comment\n*.o\n!keep.o\n/build\nlogs/\ndoc/*.txt\n**/deep/x\na/**/z\nfoo/**\n\\#hash\n\\!bang\ntrail  \nesc\\ \nsp ace\n[ab].c\n{x,y}\n*~\ntmp*\r\n" +
	"[[:digit:]]z\n!/logs/keep\nq?\n[!n]ot\n[\n/top/only\nmid/dle\n**/\u00fc\n/**/lead\ntail/**/\n"

// The rules mean what git says they mean.
func TestIgnoreEqualsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("skipped: host: it lacks git")
	}
	dir := t.TempDir()
	if out, err := exec.Command(git, "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(ignoreRules), 0o644); err != nil {
		t.Fatal(err)
	}
	elems := []string{
		"a.o", "keep.o", "build", "logs", "doc", "x.txt", "deep", "x", "y", "a", "z", "foo", "#hash", "!bang", "trail", "trail ", "esc ", "esc",
		"sp ace", "a.c", "c.c", "{x,y}", "b~", "tmpx", "1z", "keep", "qq", "q", "not", "pot", "[", "top", "only", "mid", "dle", "\u00fc", "lead", "tail",
	}
	var paths []string
	for _, one := range elems {
		paths = append(paths, one)
		for _, two := range elems {
			paths = append(paths, one+"/"+two, "sub/"+one+"/"+two)
		}
	}
	cmd := exec.Command(git, "-C", dir, "check-ignore", "--no-index", "--stdin", "-z")
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ignored := map[string]bool{}
	for _, path := range strings.Split(string(out), "\x00") {
		ignored[path] = true
	}
	var none *Ignore
	ig := none.With(".", []byte(ignoreRules))
	for _, path := range paths {
		if got := walkIgnores(ig, path); got != ignored[path] {
			t.Errorf("%q: ignored %v, git says %v", path, got, ignored[path])
		}
	}
}

// walkIgnores asks as a walk does: for each directory on the way. The last
// element is a file.
func walkIgnores(ig *Ignore, path string) bool {
	for i := range len(path) {
		if path[i] == '/' && ig.Ignores(path[:i], true) {
			return true
		}
	}
	return ig.Ignores(path, false)
}

func TestIgnoreFilesBelow(t *testing.T) {
	var none *Ignore
	top := none.With(".", []byte("*.log\nsecret\n"))
	sub := top.With("a/b", []byte("!keep.log\n/here\n"))
	for path, want := range map[string]bool{
		"a/b/x.log": true, "a/b/keep.log": false, "a/b/here": true, "a/b/c/here": false, "a/b/c/keep.log": false, "a/b/secret": true,
	} {
		if got := sub.Ignores(path, false); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if top.With("x", []byte("# nothing\n\n")) != top {
		t.Error("a file without rules is kept")
	}
}

func FuzzGlob(f *testing.F) {
	for _, p := range []string{"**/*.go", "{a,b}/[a-c]*", "a/**/b", ".x/*", `\{`, "*"} {
		f.Add(p, "a/b.go")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if !driver.ValidName(path) || len(path) > 200 || len(pattern) > 60 || strings.ContainsRune(pattern, '\ufffd') {
			return
		}
		g, err := NewGlob(pattern)
		if err != nil {
			if code := fault.Of(err); code != fault.InvalidArgument && code != fault.SandboxViolation {
				t.Fatal(err)
			}
			return
		}
		want := doublestar.MatchUnvalidated(g.pattern, path)
		if got := g.Match(path); got != want {
			t.Errorf("%q matches %q: %v, doublestar says %v", pattern, path, got, want)
		}
		if !want {
			return
		}
		// What matches is never pruned, and is below the base.
		for i := range len(path) {
			if path[i] == '/' && !g.Descends(path[:i]) {
				t.Errorf("%q matches %q but does not descend into %q", pattern, path, path[:i])
			}
		}
		if base := g.Base(); base != "." && !strings.HasPrefix(path, base+"/") {
			t.Errorf("%q matches %q, which is not below %q", pattern, path, base)
		}
	})
}

func FuzzIgnore(f *testing.F) {
	f.Add([]byte(ignoreRules), "a/b.o")
	f.Add([]byte("[[:alpha:]"), "x")
	f.Fuzz(func(t *testing.T, content []byte, path string) {
		if !driver.ValidName(path) || path == "." || len(content) > 1000 || len(path) > 200 {
			return
		}
		var none *Ignore
		got := none.With(".", content).Ignores(path, false)
		// The rules of a file below hold for the same paths below it.
		if below := none.With("d/e", content).Ignores("d/e/"+path, false); below != got {
			t.Errorf("%q ignores %q: %v, but below d/e %v", content, path, got, below)
		}
		// Rules without a "!" never take anything back.
		if !bytes.Contains(content, []byte("!")) && got {
			if !none.With(".", append(bytes.Clone(content), "\nunrelated-rule\n"...)).Ignores(path, false) {
				t.Errorf("a rule more takes %q back", path)
			}
		}
	})
}
