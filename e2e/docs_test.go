package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
	"mvdan.cc/sh/v3/syntax"

	"github.com/croft-run/croft/internal/testenv"
)

// maxNotRun bounds the blocks of the documents that say of themselves that they are not run by
// the tests, because they need a network or a login. Find a way to run a new one.
const maxNotRun = 15

// TestDocs runs the code blocks of README.md and docs/, page by page, as a user who pastes
// them from top to bottom would: in one shell, in a fresh home, with no variables but HOME
// and PATH.
//
//   - sh: commands. A comment "exit status N" says how a command ends;
//     without one it is 0. A text block after a line "prints" is what the block writes, where
//     "..." stands for any text.
//   - A block after a line that ends with "save this as `NAME`:" is saved as that file instead.
//   - go: a program, whose output is the block after "prints"; another package is compiled.
//   - yaml, json, toml: must be valid; a croft.yaml is checked.
//   - A block after a line with "not run by the tests" is counted, and no more.
func TestDocs(t *testing.T) {
	bin := buildCroft(t)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	agentPages, err := filepath.Glob("docs/agents/*.md")
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, name := range slices.Concat(pages, agentPages, []string{"README.md"}) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		page := &docPage{name: name, bin: bin}
		for _, b := range blocksOf(string(text)) {
			if strings.Contains(strings.ToLower(b.before), "not run by the tests") {
				left++
				continue
			}
			if strings.Contains(b.before, twoCommands) {
				continue // the tests of the agents run it
			}
			page.blocks = append(page.blocks, b)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page.runShell(t)
			page.runGo(t)
			page.checkData(t)
		})
	}
	if left > maxNotRun {
		t.Errorf("%d blocks are not run by the tests, want at most %d", left, maxNotRun)
	}
}

type docPage struct {
	name, bin string
	blocks    []block
	addrs     map[string]string // free addresses by those of the page
}

type block struct {
	lang, body string
	before     string // the line of text before the block
	line       int
}

// file returns the name of the file that a block is.
func (b block) file() string {
	if m := fileBlock.FindStringSubmatch(b.before); m != nil {
		return m[1]
	}
	return ""
}

var fileBlock = regexp.MustCompile("[Ss]ave (?:this )?as `([\\w./-]+)`:$")

func blocksOf(text string) []block {
	var list []block
	var before, fence string
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			lang := strings.TrimLeft(line, "`")
			fence = strings.TrimSuffix(line, lang)
			list = append(list, block{lang: lang, before: before, line: n})
		case fence == "" && line != "":
			before = line
		case fence != "" && line == fence:
			fence, before = "", ""
		case fence != "":
			list[len(list)-1].body += line + "\n"
		}
	}
	return list
}

// prints returns the output that the page says block i has.
func (p *docPage) prints(i int) (want string, ok bool) {
	if i+1 == len(p.blocks) || p.blocks[i+1].before != "prints" {
		return "", false
	}
	return p.blocks[i+1].body, true
}

func (p *docPage) runShell(t *testing.T) {
	t.Helper()
	home, outputs := t.TempDir(), t.TempDir()
	work := filepath.Join(home, "work")
	if err := os.CopyFS(filepath.Join(work, "docs"), os.DirFS("docs")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", p.script(t, outputs))
	cmd.Dir = work
	cmd.Env = append(p.facilities(t, home), "HOME="+home)
	err := cmd.Run()
	for i, b := range p.blocks {
		if b.lang != "sh" || b.file() != "" {
			continue
		}
		out, readErr := os.ReadFile(filepath.Join(outputs, strconv.Itoa(i)))
		if readErr != nil {
			break // the script ended before
		}
		if err != nil {
			t.Logf("line %d prints\n%s", b.line, out[max(0, len(out)-4000):])
		}
		if want, ok := p.prints(i); ok && !outputPattern(p.local(t, want)).Match(out) {
			t.Errorf("the block of line %d prints\n%s, want\n%s", b.line, out, want)
		}
	}
	if err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
}

func outputPattern(want string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, ".*") + "$")
}

// script is a page as one script of bash, which checks how each command ends. The output of
// block N goes to the file N in outputs.
func (p *docPage) script(t *testing.T, outputs string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n")
	for i, f := range p.blocks {
		out := filepath.Join(outputs, strconv.Itoa(i))
		if name := f.file(); name != "" {
			if err := os.WriteFile(out, []byte(p.local(t, f.body)), 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "mkdir -p \"$(dirname %[1]s)\" && cp %[2]s %[1]s && chmod +x %[1]s\n", name, out)
			continue
		}
		if f.lang != "sh" {
			continue
		}
		fmt.Fprintf(&b, "exec >%s 2>&1\n", out)
		for _, command := range commandsOf(t, f) {
			want := "0"
			if m := exits.FindStringSubmatch(command); m != nil {
				want = m[1]
			}
			fmt.Fprintf(&b, "%s\nrc=$?; [ $rc = %s ] || { echo \"exit status $rc, want %s: \"%s; exit 1; }\n",
				p.local(t, command), want, want, quote(command))
		}
	}
	return b.String()
}

var exits = regexp.MustCompile(`#.*exit status (\d+)`)

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// commandsOf returns the commands of a shell block, each with its lines.
func commandsOf(t *testing.T, f block) []string {
	t.Helper()
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(f.body), "")
	if err != nil {
		t.Fatalf("line %d: %v", f.line, err)
	}
	starts := make(map[int]bool)
	for _, s := range parsed.Stmts {
		starts[int(s.Pos().Line())] = true
	}
	var list []string
	n := 0
	for line := range strings.Lines(f.body) {
		n++
		if starts[n] || len(list) == 0 {
			list = append(list, "")
		}
		list[len(list)-1] += line
	}
	return list
}

var (
	pageAddr  = regexp.MustCompile(`(127\.0\.0\.1|localhost):707\d`)
	serverUp  = regexp.MustCompile(`\bcroft up\b`)
	addrGiven = regexp.MustCompile(`\bcroft up\b.*--addr`)
)

// local replaces the addresses of a page by free ones, so that pages run at the same time.
func (p *docPage) local(t *testing.T, text string) string {
	t.Helper()
	if serverUp.MatchString(text) && !addrGiven.MatchString(text) {
		text = serverUp.ReplaceAllString(text, "croft up --addr 127.0.0.1:7070")
	}
	return pageAddr.ReplaceAllStringFunc(text, func(addr string) string {
		host, port, _ := strings.Cut(addr, ":")
		if p.addrs == nil {
			p.addrs = make(map[string]string)
		}
		if p.addrs[port] == "" {
			free, err := testenv.Loopback()
			if err != nil {
				t.Fatal(err)
			}
			_, p.addrs[port], _ = strings.Cut(free, ":")
		}
		return host + ":" + p.addrs[port]
	})
}

// facilities prepares what a page needs of the host, and returns the variables: PATH, and the
// address of a container engine for the page about containers.
func (p *docPage) facilities(t *testing.T, home string) []string {
	t.Helper()
	path := p.bin + ":" + os.Getenv("PATH")
	switch p.name {
	case "docs/e2b.md": // as after npm install e2b
		if err := os.Symlink(testenv.NeedsE2B(t), filepath.Join(home, "node_modules")); err != nil {
			t.Fatal(err)
		}
		path = filepath.Dir(testenv.NeedsNode(t)) + ":" + path
	case "docs/ssh.md": // a machine to which "ssh me@machine" connects
		testenv.NeedsSSHD(t)
		s, err := testenv.StartSSHD(t.Context(), filepath.Join(home, "sshd"), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		path = s.Bin + ":" + path
	case "docs/docker.md":
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
		return []string{"PATH=" + path, "DOCKER_HOST=" + d.Host()}
	}
	return []string{"PATH=" + path}
}

func (p *docPage) runGo(t *testing.T) {
	t.Helper()
	for i, b := range p.blocks {
		if b.lang != "go" || b.file() != "" {
			continue
		}
		// The program must be inside the module to find its packages.
		dir, err := os.MkdirTemp(".", ".doc-program-") //nolint:usetesting // it is in the module on purpose
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		pkg := "./" + filepath.Base(dir)
		if !strings.HasPrefix(b.body, "package main\n") {
			if err := os.WriteFile(filepath.Join(dir, "doc_test.go"), []byte(b.body), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), "go", "vet", pkg).CombinedOutput(); err != nil {
				t.Errorf("the block of line %d: %v\n%s", b.line, err, out)
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(b.body), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "go", "run", pkg).CombinedOutput()
		if err != nil {
			t.Errorf("the program of line %d: %v\n%s", b.line, err, out)
			continue
		}
		want, ok := p.prints(i)
		if !ok {
			t.Errorf("the program of line %d: no block says what it prints", b.line)
		} else if !outputPattern(want).Match(out) {
			t.Errorf("the program of line %d prints\n%s, want\n%s", b.line, out, want)
		}
	}
}

// checkData checks the blocks that are neither commands nor programs.
func (p *docPage) checkData(t *testing.T) {
	t.Helper()
	for _, b := range p.blocks {
		var err error
		switch b.lang {
		case "sh", "go", "text", "dockerfile":
		case "json":
			if !json.Valid([]byte(b.body)) {
				err = fmt.Errorf("not JSON")
			}
		case "toml":
			err = toml.Unmarshal([]byte(b.body), new(any))
		case "yaml":
			err = p.checkYAML(t, b.body)
		default:
			if b.file() == "" {
				err = fmt.Errorf("no test runs a block of language %q: save it as a file that a command runs", b.lang)
			}
		}
		if err != nil {
			t.Errorf("the block of line %d: %v", b.line, err)
		}
	}
}

func (p *docPage) checkYAML(t *testing.T, text string) error {
	t.Helper()
	if !strings.HasPrefix(text, "version: 1\n") {
		return yaml.Unmarshal([]byte(text), new(any))
	}
	file := filepath.Join(t.TempDir(), "croft.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.bin, "croft"), "config", "check", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("croft config check: %w\n%s", err, out)
	}
	return nil
}

// TestDocLinks follows the relative links of all documents: the file exists, and so does the
// heading.
func TestDocLinks(t *testing.T) {
	var pages []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (name == "bin" || d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		for _, link := range linksOf(t, page) {
			target, anchor, _ := strings.Cut(link, "#")
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", page, link, err)
				continue
			}
			if anchor != "" && !info.IsDir() && strings.HasSuffix(file, ".md") && !headingsOf(t, file)[anchor] {
				t.Errorf("%s: the link %s: there is no such heading", page, link)
			}
		}
	}
	if len(pages) < 30 {
		t.Errorf("%d pages: not all were found", len(pages))
	}
}

var (
	mdLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	htmlLink   = regexp.MustCompile(`\b(?:src|href)="([^"]+)"`)
	inlineCode = regexp.MustCompile("`[^`\n]*`")
)

// prose is the text of a page without its code blocks.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fence := ""
	for line := range strings.Lines(string(text)) {
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence = ticks
		case fence != "" && strings.TrimSpace(line) == fence:
			fence = ""
		case fence == "":
			b.WriteString(line)
		}
	}
	return b.String()
}

func linksOf(t *testing.T, page string) []string {
	t.Helper()
	text := inlineCode.ReplaceAllString(prose(t, page), "`code`")
	var list []string
	for _, m := range append(mdLink.FindAllStringSubmatch(text, -1), htmlLink.FindAllStringSubmatch(text, -1)...) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			list = append(list, m[1])
		}
	}
	return list
}

// headingsOf returns the anchors of a page's headings, as GitHub makes them.
func headingsOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	anchors := make(map[string]bool)
	for line := range strings.Lines(prose(t, page)) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		heading = mdLinkText.ReplaceAllString(strings.TrimSpace(heading), "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, heading)
		for n, unique := 1, anchor; ; n++ {
			if !anchors[unique] {
				anchors[unique] = true
				break
			}
			unique = fmt.Sprintf("%s-%d", anchor, n)
		}
	}
	return anchors
}

var mdLinkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
