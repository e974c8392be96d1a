package profile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsReplaceDetectedOnes(t *testing.T) {
	p := detect(t, tree("go.mod", "module m\n", "web/package.json", script("vitest")))
	own := Commands{Install: []string{"make", "deps"}, Lint: []string{"staticcheck", Packages}, Test: []string{"make", "check"}}
	got := p.With(own.Over(Commands{Install: []string{"never"}, Format: []string{"gofumpt", "-w", Files}})).Projects
	for _, c := range []struct {
		what          string
		got           Command
		whole, scoped string
	}{
		{"install", got[0].Install, "make deps", "make deps"},
		{"lint", got[0].Lint, "staticcheck ./...", "staticcheck ./a"},
		{"format", got[0].Format, "gofumpt -w .", "gofumpt -w a/x.go"},
		{"test", got[0].Test, "make check", "make check"},
	} {
		whole, _ := c.got.All()
		scoped, _ := c.got.Expand([]string{"a/x.go"})
		if strings.Join(whole, " ") != c.whole || strings.Join(scoped, " ") != c.scoped || c.got.Proof != Configured {
			t.Errorf("%s = %q, for a file %q, by %s; want %q and %q by %s", c.what, whole, scoped, c.got.Proof, c.whole, c.scoped, Configured)
		}
	}
	if _, ok := got[0].Format.Expand([]string{"README.md"}); ok {
		t.Error("another formatter takes other files than the detected one")
	}
	if d := cmp.Diff(p.Projects[1:], got[1:]); d != "" {
		t.Errorf("another project changed (-before +after):\n%s", d)
	}
	if d := cmp.Diff(p.Projects[0].ScopedTest, got[0].ScopedTest); d != "" {
		t.Errorf("a command that is not replaced changed (-before +after):\n%s", d)
	}
	if !p.Projects[0].Test.IsZero() && p.Projects[0].Test.Argv[0] != "go" {
		t.Error("the detected profile changed")
	}
}

func TestCommandsWithoutAProject(t *testing.T) {
	empty := detect(t, tree("notes", ""))
	if got := empty.With(Commands{}); len(got.Projects) != 0 {
		t.Errorf("no commands give %d projects", len(got.Projects))
	}
	got := empty.With(Commands{Test: []string{"./check.sh"}}).Projects
	if len(got) != 1 || got[0].Ecosystem != Custom || got[0].Dir != "." || got[0].Test.String() != "./check.sh" {
		t.Errorf("projects = %+v, want one with the command", got)
	}
}

func TestCacheAffected(t *testing.T) {
	c, fsys := NewCache(), tree("go.mod", "module m\n")
	if c.Affected("k", "go.mod") {
		t.Error("a workspace whose profile nothing asked for is affected")
	}
	get(t, c, "k", fsys)
	for name, want := range map[string]bool{"go.mod": true, "package.json": true, "notes.txt": false, "": true} {
		if got := c.Affected("k", name); got != want {
			t.Errorf("Affected(%q) = %t, want %t", name, got, want)
		}
	}
}
