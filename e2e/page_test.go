package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// pictures is where the pictures of the documents are.
const pictures = "docs/page"

// TestPageInChromium drives the page of croft up in Chromium: each view, with real sandboxes. The checks are
// in testdata/page/page.mjs; CROFT_CHECK is a regular expression of those to run. With -update it
// writes the pictures of the documents.
//
//croft:slow
func TestPageInChromium(t *testing.T) {
	node, chromium, modules := testenv.NeedsChromium(t)
	root := t.TempDir()
	p := &pageTest{t: t, hostRoot: filepath.Join(root, "host")}
	p.writeProject()
	data := filepath.Join(root, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	bin := buildCroft(t)
	suite, runs := p.writeEvaluations(root), filepath.Join(root, "runs")
	for range 2 {
		// Its third case fails, so the exit status is not 0.
		out, err := exec.Command(filepath.Join(bin, "croft"), "eval", "run", suite, "--output-dir", runs).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "fetches-page") {
			t.Fatalf("croft eval run: %v\n%s", err, out)
		}
	}
	writeConfig(t, data, fmt.Sprintf("version: 1\nhostRoots: [%s]\nserver: {providers: [sandbox, local, memory]}\nevals: {dir: %s, suites: [%s]}\n", p.hostRoot, runs, suite))
	p.server = startUp(t, bin, data)
	cmd := exec.CommandContext(t.Context(), node, filepath.Join("e2e", "testdata", "page", "page.mjs"))
	cmd.Env = append(os.Environ(), "CROFT_URL=http://"+strings.Replace(p.server.addr, "127.0.0.1", "localhost", 1), "CROFT_TOKEN="+testToken,
		"CROFT_WEB="+filepath.Dir(modules), "CHROMIUM="+chromium, "CROFT_HOST_ROOT="+p.hostRoot)
	if *update {
		if err := os.MkdirAll(pictures, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "CROFT_PICTURES="+pictures)
	}
	p.run(cmd)
}

// pageTest is a run of the checks.
type pageTest struct {
	t        *testing.T
	server   *upServer
	hostRoot string // directory of the host to which changes may be applied
}

// writeProject writes the project of the host that the review is applied to.
func (p *pageTest) writeProject() {
	p.t.Helper()
	dir := filepath.Join(p.hostRoot, "project")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 40 {
		fmt.Fprintf(&lines, "line %d\n", i+1)
	}
	for name, text := range map[string]string{"a.txt": lines.String(), "gone.txt": "bye\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// writeEvaluations writes a suite and its agent, and returns the suite.
func (p *pageTest) writeEvaluations(root string) string {
	p.t.Helper()
	dir := filepath.Join(root, "evals")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("e2e", "testdata", "page", "eval"))); err != nil {
		p.t.Fatal(err)
	}
	return filepath.Join(dir, "page.suite.yaml")
}

// run runs the checks, each as a subtest, and does what they ask for.
func (p *pageTest) run(cmd *exec.Cmd) {
	p.t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	checks := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct {
			Ask, Name, Error string
			MS               int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			p.t.Errorf("%v: %s", err, lines.Text())
			continue
		}
		if line.Ask != "" {
			fmt.Fprintln(in, p.answer(line.Ask))
			continue
		}
		checks++
		p.t.Run(line.Name, func(t *testing.T) {
			t.Logf("%d ms", line.MS)
			if line.Error != "" {
				t.Error(line.Error)
			}
		})
	}
	if err := cmd.Wait(); err != nil || checks == 0 {
		p.t.Errorf("the checks ended after %d: %v", checks, err)
	}
}

// answer does what a check asks for.
func (p *pageTest) answer(what string) string {
	verb, name, _ := strings.Cut(what, " ")
	switch verb {
	case "restart":
		p.server.kill9()
		p.server.start()
		return "restarted"
	case "stop":
		p.server.kill9()
		return "stopped"
	case "start":
		p.server.start()
		return "started"
	case "sh": // as in a terminal of the server's user
		cmd := exec.CommandContext(p.t.Context(), "sh", "-c", name)
		cmd.Env = append(os.Environ(), "PATH="+p.server.bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = fmt.Append(out, err)
		}
		text, _ := json.Marshal(string(out))
		return string(text)
	case "e2b": // a program for E2B's SDK, whose first line has its variables
		var text string
		if err := json.Unmarshal([]byte(name), &text); err != nil {
			return err.Error()
		}
		dir := p.t.TempDir()
		file := filepath.Join(dir, "snippet.mjs")
		err := errors.Join(os.Symlink(testenv.NeedsE2B(p.t), filepath.Join(dir, "node_modules")), os.WriteFile(file, []byte(text), 0o600))
		if err != nil {
			p.t.Error(err)
		}
		first, _, _ := strings.Cut(text, "\n")
		cmd := exec.CommandContext(p.t.Context(), "node", file)
		cmd.Env = append(os.Environ(), strings.Fields(strings.TrimPrefix(first, "//"))...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = fmt.Append(out, err)
		}
		answer, _ := json.Marshal(string(out))
		return string(answer)
	case "read":
		data, err := os.ReadFile(filepath.Join(p.hostRoot, filepath.FromSlash(name)))
		if err != nil {
			return err.Error()
		}
		text, _ := json.Marshal(string(data))
		return string(text)
	}
	p.t.Errorf("a check asked for %q", what)
	return ""
}
