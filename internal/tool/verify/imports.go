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
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
)

// maxSources bounds the files that are read for their imports.
const maxSources = 20_000

// Importing returns the tests that may reach a file of a project by imports; nothing is run.
// For Go these are packages, for other languages files, for Node also those of other packages
// of the workspace.
func Importing(ctx context.Context, ws *workspace.Workspace, p profile.Profile, q profile.Project, file string) ([]TestRef, error) {
	g, err := readImports(ctx, ws, p, q)
	if err != nil {
		return nil, fmt.Errorf("verify: tests covering %s: %w", file, err)
	}
	return g.testsReaching(path.Clean(file)), nil
}

// hasImports reports whether the imports of an ecosystem are read.
func hasImports(e profile.Ecosystem) bool {
	return e == profile.Go || e == profile.Node || e == profile.Python
}

// readImports reads the imports of the sources of a project and, for Node, of the packages
// beside it.
func readImports(ctx context.Context, ws *workspace.Workspace, p profile.Profile, q profile.Project) (*importGraph, error) {
	g := &importGraph{project: q, dir: q.Dir, importers: map[string][]string{}, files: map[string]bool{}}
	var read func(name string, data []byte)
	var pattern string
	switch q.Ecosystem {
	case profile.Go:
		pattern, read = "**/*.go", g.readGo
	case profile.Node:
		g.dir = nodeRoot(p, q)
		pattern, read = "**/*.{js,cjs,mjs,jsx,ts,cts,mts,tsx,vue,svelte}", g.readNode
		if err := g.readPackages(ctx, ws); err != nil {
			return nil, err
		}
	case profile.Python:
		pattern, read = "**/*.py", g.readPython
	default:
		return nil, fmt.Errorf("%w: imports are read for go, node and python only", fault.Unsupported)
	}
	res, err := ws.Glob(ctx, pattern, &workspace.GlobOptions{Path: g.dir, GitIgnore: true, Limit: maxSources})
	if err != nil {
		return nil, err
	}
	g.partial = res.Truncated
	list := slices.DeleteFunc(res.Entries, func(e workspace.Info) bool { return strings.Contains("/"+e.Path, "/node_modules/") })
	for _, e := range list {
		g.files[e.Path] = true
	}
	for _, e := range list {
		data, err := ws.ReadFileMax(ctx, e.Path, maxSource)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // removed meanwhile, or too large
		}
		read(e.Path, data)
	}
	return g, nil
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
	dir       string // below which sources are read
	partial   bool   // there are more files than are read
	files     map[string]bool
	importers map[string][]string // by imported node
	testDirs  map[string]bool     // directories of Go packages with tests

	packages []*nodePackage
	configs  []runnerConfig
	byStem   map[string][]string // files by the last element of their path, without extension
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

var pythonImport = lazyregexp.New(`(?m)^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n]*))|import[ \t]+([\w., \t]+))`)

var (
	pythonComment = lazyregexp.New(`#[^\n]*`)
	pythonJoined  = lazyregexp.New(`\\\r?\n`)
)

func (g *importGraph) readPython(name string, data []byte) {
	data = pythonJoined.ReplaceAll(pythonComment.ReplaceAll(data, nil), []byte(" "))
	for _, m := range pythonImport.FindAllSubmatch(data, -1) {
		for module := range strings.SplitSeq(string(m[4]), ",") {
			module, _, _ = strings.Cut(strings.TrimSpace(module), " ")
			g.addPythonImport(name, module)
		}
		if len(m[1]) == 0 {
			continue
		}
		from := string(m[1])
		g.addPythonImport(name, from)
		for item := range strings.SplitSeq(string(m[2])+string(m[3]), ",") {
			if words := strings.Fields(item); len(words) > 0 && words[0] != "*" {
				g.addPythonImport(name, strings.TrimSuffix(from, ".")+"."+words[0])
			}
		}
	}
}

// addPythonImport adds an edge to a module and to the packages around it, searched next to
// the file, below the project and below its src directory. A module that is not there is
// searched at the end of every path: the directory may be one that a configuration adds.
func (g *importGraph) addPythonImport(name, module string) {
	if module == "" {
		return
	}
	bases := []string{g.project.Dir, path.Join(g.project.Dir, "src"), path.Dir(name)}
	dots := len(module) - len(strings.TrimLeft(module, "."))
	if dots > 0 {
		up := path.Dir(name)
		for range dots - 1 {
			up = path.Dir(up)
		}
		bases, module = []string{up}, module[dots:]
	}
	var parts []string
	if module != "" {
		parts = strings.Split(module, ".")
	}
	any := false
	for _, b := range bases {
		found := g.pythonModule(name, path.Join(b, path.Join(parts...)))
		for n := range parts {
			if found && path.Join(parts[:n]...) != "" {
				g.pythonModule(name, path.Join(b, path.Join(parts[:n]...)))
			}
		}
		any = any || found
	}
	if any || dots > 0 {
		return
	}
	for n := range parts {
		for _, f := range g.filesEnding(path.Join(parts[:n+1]...)) {
			g.addImport(name, f)
		}
	}
}

// pythonModule adds an edge to the file of a module, if there is one.
func (g *importGraph) pythonModule(name, base string) bool {
	any := false
	for _, found := range []string{base + ".py", path.Join(base, "__init__.py")} {
		if g.files[found] {
			g.addImport(name, found)
			any = true
		}
	}
	return any
}

// testsReaching walks from a file to all its importers and returns the tests.
func (g *importGraph) testsReaching(file string) []TestRef {
	if g.project.Ecosystem == profile.Go {
		file = path.Dir(file)
	}
	seen, queue := map[string]bool{file: true}, []string{file}
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

const testNames = `(?:^|/)(?:test_[^/]*\.py|[^/]*_test\.py|[^/]*[.\-_](?:test|spec)\.[cm]?[jt]sx?|test(?:-[^/]*)?\.[cm]?[jt]sx?)$`

var (
	testName = lazyregexp.New(testNames)
	testFile = lazyregexp.New(testNames + `|(?:^|/)(?:tests?|specs?|__tests__)/(?:[^/]+/)*[^/]+\.[cm]?[jt]sx?$`)
)

// isTestFile reports whether a file of the graph has tests. One that is a test by its
// directory alone, and that another file imports or a configuration names, has help for tests.
func (g *importGraph) isTestFile(file string) bool {
	if !testFile.MatchString(file) || testName.MatchString(file) || g.project.Ecosystem != profile.Node {
		return testFile.MatchString(file)
	}
	imported := slices.ContainsFunc(g.importers[file], func(by string) bool { return !strings.HasSuffix(by, allOf) })
	return !imported && !g.isConfigured(file)
}

// testRef returns the test that a node is, or false.
func (g *importGraph) testRef(node string) (TestRef, bool) {
	if g.project.Ecosystem != profile.Go {
		return TestRef{Package: node}, g.files[node] && g.isTestFile(node)
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
