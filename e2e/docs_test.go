package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// TestDocs runs what the documents show: every line of a console block that
// begins with a dollar sign, in a fresh home, and every Go program, whose output
// must be the block that follows "prints". A line says with "exit status N" in
// its comment how it ends; others end with 0.
func TestDocs(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "./cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(docs, "README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		blocks := fences(string(text))
		t.Run(doc, func(t *testing.T) {
			runConsole(t, bin, blocks, facilities(t, doc))
			runPrograms(t, blocks)
		})
	}
}

type fence struct {
	lang, body, before string // before is the line before the block
}

var fenced = regexp.MustCompile("(?ms)^([^\n]*)\n+^```(\\w*)\n(.*?)^```$")

func fences(text string) []fence {
	var list []fence
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		list = append(list, fence{lang: m[2], body: m[3], before: m[1]})
	}
	return list
}

var exits = regexp.MustCompile(`#.*exit status (\d+)`)

// script turns the console blocks of a document into one shell script that
// checks how each line ends.
func script(blocks []fence, addr string) string {
	var b strings.Builder
	b.WriteString("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n")
	for _, f := range blocks {
		if f.lang != "console" {
			continue
		}
		for line := range strings.Lines(f.body) {
			cmd, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			want := "0"
			if m := exits.FindStringSubmatch(cmd); m != nil {
				want = m[1]
			}
			cmd = strings.TrimSpace(strings.ReplaceAll(cmd, "127.0.0.1:7070", addr))
			if strings.HasPrefix(cmd, "croft up &") {
				fmt.Fprintf(&b, "croft up --addr %s >up.log 2>&1 &\nfor i in $(seq 1200); do curl -fs http://%s/healthz >/dev/null && break; sleep 0.1; done\n", addr, addr)
				continue
			}
			fmt.Fprintf(&b, "%s\nrc=$?; [ $rc = %s ] || { echo \"exit status $rc, want %s: \"%s; exit 1; }\n", cmd, want, want, quote(cmd))
		}
	}
	return b.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// facilities starts what a document needs of the host, and returns the variables
// by which it is found.
func facilities(t *testing.T, doc string) []string {
	t.Helper()
	if doc != "docs/docker.md" {
		return nil
	}
	testenv.NeedsDocker(t)
	d, err := testenv.StartDockerd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Errorf("stop dockerd: %v", err)
		}
	})
	return []string{"DOCKER_HOST=" + d.Host()}
}

func runConsole(t *testing.T, bin string, blocks []fence, env []string) {
	t.Helper()
	home := t.TempDir()
	work := filepath.Join(home, "work")
	if err := os.CopyFS(filepath.Join(work, "docs"), os.DirFS("docs")); err != nil {
		t.Fatal(err)
	}
	addr, err := testenv.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", script(blocks, addr))
	cmd.Dir = work
	cmd.Env = append(env, "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "CROFT_DATA="+filepath.Join(home, ".local/share/croft"), "LANG=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("console: %v\n%s", err, out)
	}
}

func runPrograms(t *testing.T, blocks []fence) {
	t.Helper()
	for i, f := range blocks {
		if f.lang != "go" || !strings.HasPrefix(f.body, "package main") {
			continue
		}
		// The program must be inside the module to find its packages.
		dir, err := os.MkdirTemp(".", ".doc-program-") //nolint:usetesting // it is in the module on purpose
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(f.body), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", "run", "./"+filepath.Base(dir)).CombinedOutput()
		if err != nil {
			t.Errorf("program %d: %v\n%s", i, err, out)
			continue
		}
		if i+1 == len(blocks) || blocks[i+1].before != "prints" {
			t.Errorf("program %d: no block that says what it prints", i)
			continue
		}
		if want := blocks[i+1].body; string(out) != want {
			t.Errorf("program %d prints\n%s, want\n%s", i, out, want)
		}
	}
}
