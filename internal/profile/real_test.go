package profile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The go command is here wherever this test runs, so what is offered for Go is
// tried on it: every command must succeed in a workspace without faults, and the
// scoped ones must find the fault that is put in the package they are scoped to.
func TestGoCommandsWork(t *testing.T) {
	for _, c := range []struct{ name, work string }{
		{"a module with a module inside", ""},
		{"a workspace without a module in its root", "go 1.24\n\nuse (\n\t./one\n\t./two\n)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, m := range []string{"one", "two"} {
				write(t, dir, m+"/go.mod", "module example.com/"+m+"\n\ngo 1.24\n", 0)
				write(t, dir, m+"/a/a.go", "package a\n\nfunc A() int { return 1 }\n", 0)
				write(t, dir, m+"/a/a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif A() != 1 {\n\t\tt.Error(A())\n\t}\n}\n", 0)
				write(t, dir, m+"/b/b.go", "package b\n", 0)
			}
			if c.work != "" {
				write(t, dir, "go.work", c.work, 0)
			} else {
				write(t, dir, "go.mod", "module example.com/top\n\ngo 1.24\n", 0)
				write(t, dir, "top.go", "package top\n", 0)
			}
			p := detect(t, os.DirFS(dir))
			for _, q := range p.Projects {
				for _, cmd := range q.commands() {
					if argv, ok := cmd.All(); ok {
						mustRun(t, dir, *cmd, argv, true)
					}
				}
			}
			file := "one/a/a_test.go"
			q, _ := p.For(file)
			scoped, _ := q.ScopedTest.Expand([]string{file})
			mustRun(t, dir, q.ScopedTest, scoped, true)
			write(t, dir, "one/a/a.go", "package a\n\nfunc A() int { return 2 }\n", 0)
			mustRun(t, dir, q.ScopedTest, scoped, false)
			other, _ := q.ScopedTest.Expand([]string{"one/b/b.go"})
			mustRun(t, dir, q.ScopedTest, other, true)
		})
	}
}

func mustRun(t *testing.T, root string, c Command, argv []string, good bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(c.Dir))
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=", "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	if (err == nil) != good {
		t.Errorf("%s in %s: %v, want success %t\n%s", strings.Join(argv, " "), c.Dir, err, good, out)
	}
}
