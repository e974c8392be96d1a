package verify

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/tool/profile"
	"github.com/croft-run/croft/workspace"
)

// maxSources bounds the files that are read for their imports.
const maxSources = 20_000

// Importing returns the tests that may reach a file by imports; nothing is run. For Go
// these are packages, for other languages files.
func Importing(ctx context.Context, ws *workspace.Workspace, p profile.Project, file string) ([]TestRef, error) {
	g := &importGraph{project: p, importers: map[string][]string{}, files: map[string]bool{}}
	var read func(name string, data []byte)
	var pattern string
	switch p.Ecosystem {
	case profile.Go:
		pattern, read = "**/*.go", g.readGo
	case profile.Node:
		pattern, read = "**/*.{js,cjs,mjs,jsx,ts,cts,mts,tsx,vue,svelte}", g.readNode
	case profile.Python:
		pattern, read = "**/*.py", g.readPython
	default:
		return nil, fmt.Errorf("verify: tests covering %s: %w: imports are read for go, node and python only", file, fault.Unsupported)
	}
	res, err := ws.Glob(ctx, pattern, &workspace.GlobOptions{Path: p.Dir, GitIgnore: true, Limit: maxSources})
	if err != nil {
		return nil, fmt.Errorf("verify: tests covering %s: %w", file, err)
	}
	for _, e := range res.Entries {
		g.files[e.Path] = true
	}
	for _, e := range res.Entries {
		if strings.Contains("/"+e.Path, "/node_modules/") {
			continue
		}
		data, err := ws.ReadFileMax(ctx, e.Path, maxSource)
		if err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("verify: tests covering %s: %w", file, ctx.Err())
			}
			continue // removed meanwhile, or too large
		}
		read(e.Path, data)
	}
	return g.testsReaching(path.Clean(file)), nil
}

// coveringFiles replaces each source file of the options by the test files that cover it:
// those that Options.Coverage names, else those that import it. For Go, a file stands for
// its package, and a package with tests covers itself. A source file that no test covers
// is a note; if no file remains, it is an error.
func (t *testRun) coveringFiles(ctx context.Context) ([]string, error) {
	p, files := t.project, t.o.Files
	if p.Ecosystem != profile.Go && p.Ecosystem != profile.Node && p.Ecosystem != profile.Python {
		return files, nil
	}
	var out, uncovered []string
	for _, file := range files {
		if isTest(p, file) || !p.ScopedTest.About(file) {
			out = append(out, file)
			continue
		}
		tests, err := t.testsOf(ctx, file)
		if err != nil {
			return nil, err
		}
		for _, test := range tests {
			if name := testFileOf(p, test); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
		switch {
		case len(tests) > 0:
		case testDir.MatchString(file):
			out = append(out, file) // a test whose name only the runner's configuration knows
		default:
			uncovered = append(uncovered, file)
		}
	}
	if len(uncovered) == 0 {
		return out, nil
	}
	text := fmt.Sprintf("no test covers %s: none imports it, directly or not", strings.Join(uncovered, ", "))
	if len(out) == 0 {
		return nil, fmt.Errorf("verify: test %s: %w: %s", p.Dir, fault.NotFound, text)
	}
	t.report.Notes = append(t.report.Notes, text)
	return out, nil
}

// testsOf returns the tests that cover a source file.
func (t *testRun) testsOf(ctx context.Context, file string) ([]TestRef, error) {
	for _, c := range t.o.Coverage {
		if c.Knows(file) {
			return c.Tests(file, 0), nil
		}
	}
	tests, err := Importing(ctx, t.ws, t.project, file)
	own := slices.IndexFunc(tests, func(r TestRef) bool {
		return t.project.Ecosystem == profile.Go && path.Dir(testFileOf(t.project, r)) == path.Dir(file)
	})
	if own >= 0 {
		return tests[own : own+1], err
	}
	return tests, err
}

var testDir = lazyregexp.New(`(?:^|/)(?:tests?|specs?|__tests__)/`)

// isTest reports whether a file has tests, by its name.
func isTest(p profile.Project, file string) bool {
	if p.Ecosystem == profile.Go {
		return strings.HasSuffix(file, "_test.go")
	}
	return testFile.MatchString(file)
}

// testFileOf returns the file of a test; for Go, the name of a test file in its package.
func testFileOf(p profile.Project, test TestRef) string {
	if p.Ecosystem != profile.Go {
		return test.Package
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(test.Package, p.Name), "/")
	return path.Join(p.Dir, rel, "x_test.go")
}

// maxSource bounds a source file or manifest that is read.
const maxSource = 16 << 20

// importGraph maps imported nodes to their importers. A node is a file or, for Go, a
// package directory.
type importGraph struct {
	project   profile.Project
	files     map[string]bool
	importers map[string][]string // by imported node
	testDirs  map[string]bool     // directories of Go packages with tests
}

func (g *importGraph) addImport(from, to string) {
	if from != to && !slices.Contains(g.importers[to], from) {
		g.importers[to] = append(g.importers[to], from)
	}
}

func (g *importGraph) readGo(name string, data []byte) {
	dir := path.Dir(name)
	if strings.HasSuffix(name, "_test.go") {
		if g.testDirs == nil {
			g.testDirs = map[string]bool{}
		}
		g.testDirs[dir] = true
		// What only tests import is reached by these tests, and by no importer of
		// the package.
		dir += " [test]"
		g.addImport(dir, path.Dir(name))
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ImportsOnly)
	if f == nil || err != nil && len(f.Imports) == 0 {
		return
	}
	for _, spec := range f.Imports {
		target := strings.Trim(spec.Path.Value, "`\"")
		if rel, ok := strings.CutPrefix(target, g.project.Name+"/"); ok && g.project.Name != "" {
			g.addImport(dir, path.Join(g.project.Dir, rel))
		} else if target == g.project.Name {
			g.addImport(dir, g.project.Dir)
		}
	}
}

var nodeImport = lazyregexp.New(`(?m)(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*|\bmock\s*\(\s*)["']([^"'\n]+)["']`)

func (g *importGraph) readNode(name string, data []byte) {
	for _, m := range nodeImport.FindAllSubmatch(data, -1) {
		target := string(m[1])
		if !strings.HasPrefix(target, ".") {
			continue
		}
		base := path.Join(path.Dir(name), target)
		stem := strings.TrimSuffix(base, path.Ext(base)) // "./x.js" may be x.ts
		for _, ext := range []string{"", ".js", ".ts", ".tsx", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte", "/index.js", "/index.ts", "/index.tsx"} {
			for _, found := range []string{base + ext, stem + ext} {
				if g.files[found] {
					g.addImport(name, found)
				}
			}
		}
	}
}

var pythonImport = lazyregexp.New(`(?m)^\s*(?:from\s+(\.*[\w.]*)\s+import\s+\(?([\w ,.*]*)|import\s+([\w., ]+))`)

func (g *importGraph) readPython(name string, data []byte) {
	for _, m := range pythonImport.FindAllSubmatch(data, -1) {
		if len(m[3]) > 0 {
			for module := range strings.SplitSeq(string(m[3]), ",") {
				module, _, _ = strings.Cut(strings.TrimSpace(module), " ")
				g.addPythonImport(name, module)
			}
			continue
		}
		from := string(m[1])
		g.addPythonImport(name, from)
		for item := range strings.SplitSeq(string(m[2]), ",") {
			item, _, _ = strings.Cut(strings.TrimSpace(item), " ")
			if item != "" && item != "*" {
				g.addPythonImport(name, strings.TrimSuffix(from, ".")+"."+item)
			}
		}
	}
}

// addPythonImport adds an edge to a module, searched next to the file, below the project
// and below its src directory.
func (g *importGraph) addPythonImport(name, module string) {
	if strings.Trim(module, ".") == "" {
		return
	}
	bases := []string{g.project.Dir, path.Join(g.project.Dir, "src"), path.Dir(name)}
	if dots := len(module) - len(strings.TrimLeft(module, ".")); dots > 0 {
		up := path.Dir(name)
		for range dots - 1 {
			up = path.Dir(up)
		}
		bases, module = []string{up}, module[dots:]
	}
	rel := strings.ReplaceAll(module, ".", "/")
	for _, b := range bases {
		for _, found := range []string{path.Join(b, rel+".py"), path.Join(b, rel, "__init__.py")} {
			if g.files[found] {
				g.addImport(name, found)
			}
		}
	}
}

// testsReaching walks from a file to all its importers and returns the tests.
func (g *importGraph) testsReaching(file string) []TestRef {
	start := file
	if g.project.Ecosystem == profile.Go {
		start = path.Dir(file)
	}
	seen, queue := map[string]bool{start: true}, []string{start}
	var out []TestRef
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if ref, ok := g.testRef(at); ok && !slices.Contains(out, ref) {
			out = append(out, ref)
		}
		for _, next := range g.importers[at] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	sortTests(out)
	return out
}

var testFile = lazyregexp.New(`(?:^|/)(?:test_[^/]*\.py|[^/]*_test\.py|[^/]*[.\-_](?:test|spec)\.[cm]?[jt]sx?|(?:test|tests|__tests__)/(?:[^/]+/)*[^/]+\.[cm]?[jt]sx?)$`)

// testRef returns the test that a node is, or false.
func (g *importGraph) testRef(node string) (TestRef, bool) {
	if g.project.Ecosystem != profile.Go {
		return TestRef{Package: node}, testFile.MatchString(node)
	}
	dir := strings.TrimSuffix(node, " [test]")
	if !g.testDirs[dir] || node == dir && !slices.Contains(g.importers[dir], dir+" [test]") {
		return TestRef{}, false
	}
	name := g.project.Name
	if rel := strings.TrimPrefix(strings.TrimPrefix(dir, g.project.Dir), "/"); rel != "" && dir != "." {
		name = path.Join(name, rel)
	}
	return TestRef{Package: name}, true
}
