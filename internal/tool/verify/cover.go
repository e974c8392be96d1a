package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
)

// Method is how coverage was determined.
type Method string

// Methods.
const (
	// Measured: the lines that ran during each test were recorded.
	Measured Method = "measured"

	// Imports: derived from import statements; a test may reach the file, but need not.
	Imports Method = "imports"
)

// A Coverage maps the lines of a project to the tests that run them.
type Coverage struct {
	Language string
	Dir      string
	Notes    []string

	At time.Time

	blocks map[string][]coveredLines // by file; a file that no test runs has an empty entry
}

// coveredLines is a range of lines that a test runs.
type coveredLines struct {
	first, last int
	test        TestRef
}

// A TestRef names a test.
type TestRef struct {
	Package string `json:"package"`        // an import path, or a file
	Test    string `json:"test,omitempty"` // empty is all its tests
}

// Tests returns the tests that run a line of a file, or any line if line is 0, sorted.
func (c *Coverage) Tests(file string, line int) []TestRef {
	var out []TestRef
	for _, b := range c.blocks[path.Clean(file)] {
		if (line == 0 || b.first <= line && line <= b.last) && !slices.Contains(out, b.test) {
			out = append(out, b.test)
		}
	}
	sortTests(out)
	return out
}

func sortTests(list []TestRef) {
	slices.SortFunc(list, func(a, b TestRef) int {
		if n := strings.Compare(a.Package, b.Package); n != 0 {
			return n
		}
		return strings.Compare(a.Test, b.Test)
	})
}

func (c *Coverage) add(file string, list ...coveredLines) {
	if c.blocks == nil {
		c.blocks = map[string][]coveredLines{}
	}
	c.blocks[file] = append(c.blocks[file], list...)
}

// Cover runs the tests of a project and records the lines that each test runs: for Go each
// test alone, for pytest with a tracer.
func Cover(ctx context.Context, ws *workspace.Workspace, p profile.Project, opts *Options) (*Coverage, error) {
	o := opts.orZero()
	p = withVenv(ctx, ws, p)
	argv, _ := p.Test.All()
	r, known := findRunner(argv)
	c := &Coverage{Language: string(p.Ecosystem), Dir: p.Dir, At: time.Now()}
	switch {
	case known && r.name == "go test":
		return c, c.coverGo(ctx, ws, p, argv, o)
	case known && r.name == "pytest":
		return c, c.coverPytest(ctx, ws, p, argv, o)
	}
	return nil, fmt.Errorf("verify: cover %s: %w: coverage of single tests is known for go test and pytest only", p.Dir, fault.Unsupported)
}

// goScript builds the tests of each package once and runs each test alone. Each coverage
// profile is preceded by a line with its test.
const goScript = `set -u
d=` + scratch + `
for p in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "$@"); do
  dir=$(go list -f '{{.Dir}}' "$p")
  go test -c -covermode=set -coverpkg="$C" -o "$d/t" "$p" >&2 || continue
  n=0
  for t in $(cd "$dir" && "$d/t" -test.list '^(Test|Example|Fuzz)' | grep -E '^(Test|Example|Fuzz)'); do
    n=$((n+1))
    (cd "$dir" && "$d/t" -test.run "^$t\$" -test.coverprofile="$d/c" >/dev/null 2>&1)
    [ -e "$d/c" ] || continue
    [ $n -gt 1 ] || sed -n 's/^\(.*\.go\):.*/file: \1/p' "$d/c" | sort -u >> "$d/report/cover"
    { echo "test: $p $t"; grep -v ' 0$' "$d/c"; } >> "$d/report/cover"
    rm -f "$d/c"
    echo "$t"
  done
  rm -f "$d/t"
done`

func (c *Coverage) coverGo(ctx context.Context, ws *workspace.Workspace, p profile.Project, argv []string, o *Options) error {
	patterns := argv[slices.Index(argv, "test")+1:]
	if len(o.Files) > 0 {
		if scoped, ok := p.ScopedTest.Expand(o.Files); ok {
			patterns = scoped[slices.Index(scoped, "test")+1:]
		}
	}
	all := argv[slices.Index(argv, "test")+1:]
	j := job{
		argv: append([]string{"bash", "-c", goScript, "bash"}, patterns...), dir: p.Test.Dir,
		env: map[string]string{"C": strings.Join(all, ",")},
	}
	ran, output, err := c.run(ctx, ws, &j, o)
	if err != nil {
		return err
	}
	for _, report := range ran.reports {
		c.readGo(report, runLocation{root: ws.Traits().Root, dir: p.Test.Dir, module: p.Name})
	}
	if len(c.blocks) == 0 && output != "" {
		return fmt.Errorf("verify: cover %s: %w: %s", p.Dir, fault.Unavailable, truncateEnd(output, 1<<10))
	}
	return nil
}

// readGo parses coverage profiles, each after a line with its test.
func (c *Coverage) readGo(report []byte, t runLocation) {
	var test TestRef
	for line := range bytes.Lines(report) {
		s := strings.TrimSpace(string(line))
		if rest, ok := strings.CutPrefix(s, "test: "); ok {
			test.Package, test.Test, _ = strings.Cut(rest, " ")
			continue
		}
		if rest, ok := strings.CutPrefix(s, "file: "); ok {
			c.add(t.goFile(rest))
			continue
		}
		name, span, ok := cutLast(s, ":")
		if !ok || test.Test == "" || strings.HasPrefix(s, "mode:") {
			continue
		}
		var first, last int
		var a, b, statements, count int
		if n, _ := fmt.Sscanf(span, "%d.%d,%d.%d %d %d", &first, &a, &last, &b, &statements, &count); n != 6 || count == 0 {
			continue
		}
		c.add(t.goFile(name), coveredLines{first, last, test})
	}
}

// goFile converts the import path of a file in a profile to its path.
func (t runLocation) goFile(name string) string {
	if rel, ok := strings.CutPrefix(name, t.module+"/"); ok && t.module != "" {
		name = path.Join(t.dir, rel)
	}
	return path.Clean(name)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// pytestPlugin records which lines of the project run during each test. It needs only the
// standard library of Python.
const pytestPlugin = `import json
import os
import sys
import threading

import pytest

_root = os.getcwd() + os.sep
_seen = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    lines = set()

    def trace(frame, event, arg):
        name = frame.f_code.co_filename
        if not name.startswith(_root) or "/site-packages/" in name or "/.venv/" in name:
            return None
        if event == "line":
            lines.add((name, frame.f_lineno))
        return trace

    old = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    yield
    sys.settrace(old)
    threading.settrace(None)
    for name, line in lines:
        _seen.setdefault(name, {}).setdefault(line, []).append(item.nodeid)


def pytest_sessionfinish(session):
    with open(os.environ["CROFT_COVERAGE"], "w") as f:
        json.dump(_seen, f)
`

func (c *Coverage) coverPytest(ctx context.Context, ws *workspace.Workspace, p profile.Project, argv []string, o *Options) error {
	j := job{
		argv:  append(slices.Clone(argv), "-p", "croft_coverage", "-q", "--continue-on-collection-errors"),
		dir:   p.Test.Dir,
		env:   map[string]string{"PYTHONPATH": scratch, "CROFT_COVERAGE": scratch + "/report/lines.json"},
		files: map[string]string{"croft_coverage.py": pytestPlugin},
	}
	ran, output, err := c.run(ctx, ws, &j, o)
	if err != nil {
		return err
	}
	for _, report := range ran.reports {
		c.readPytest(report, runLocation{root: ws.Traits().Root, dir: p.Test.Dir})
	}
	if len(c.blocks) == 0 && ran.ExitCode != 0 {
		return fmt.Errorf("verify: cover %s: %w: pytest ran no test: exit status %d: %s", p.Dir, fault.Unavailable, ran.ExitCode, truncateStart(output, 1<<10))
	}
	if broken := pytestBroken.FindAllStringSubmatch(output, -1); len(broken) > 0 {
		var names []string
		for _, m := range broken {
			names = append(names, m[1])
		}
		c.Notes = append(c.Notes, "coverage lacks the tests of files that could not be loaded: "+strings.Join(names, ", "))
	}
	return nil
}

// pytestBroken matches a file that could not be loaded, in pytest's short summary.
var pytestBroken = lazyregexp.New(`(?m)^ERROR ([^\s:]+\.py)(?: - .*)?$`)

// readPytest parses the output of the plugin: test ids by file and line.
func (c *Coverage) readPytest(report []byte, t runLocation) {
	var files map[string]map[string][]string
	if json.Unmarshal(report, &files) != nil {
		return
	}
	for name, seen := range files {
		for line, ids := range seen {
			for _, id := range ids {
				file, test, ok := strings.Cut(id, "::")
				if n := atoiOrZero(line); ok && n > 0 {
					c.add(t.relPath(name), coveredLines{n, n, TestRef{t.relPath(file), test}})
				}
			}
		}
	}
}

func (c *Coverage) run(ctx context.Context, ws *workspace.Workspace, j *job, o *Options) (jobResult, string, error) {
	stdout, stderr := newCapture(16<<10), newCapture(16<<10)
	show := lineWriter{limit: 1 << 20, each: func(line []byte) {
		if o.Progress != nil {
			o.Progress(Progress{Line: "coverage: " + plainText(string(line))})
		}
	}}
	ran, err := j.run(ctx, ws, o, func(data []byte) { show.write(data); stdout.Add(data) }, stderr.Add)
	show.flush()
	if err = unsupportedIfMissing(ws, j.argv, ran.Result, stdout, stderr, err); err != nil {
		return ran, "", err
	}
	if ran.Cause != "" {
		c.Notes = append(c.Notes, fmt.Sprintf("coverage is not known: it was cut short: %s", ran.Cause))
	}
	return ran, strings.TrimSpace(stdout.String() + "\n" + stderr.String()), nil
}

// Knows reports whether a file was measured.
func (c *Coverage) Knows(file string) bool {
	_, ok := c.blocks[path.Clean(file)]
	return ok
}
