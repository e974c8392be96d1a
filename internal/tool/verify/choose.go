package verify

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
)

// A Choice is what a run with Options.Files runs of a project.
type Choice struct {
	Project profile.Project

	files []string // tests, or what a command that takes packages takes
	all   bool     // everything runs
	notes []string
}

// maxChosenBytes bounds the names of files in a command. Above it everything runs.
const maxChosenBytes = 64 << 10

// Choose returns what covers files: the tests that are among them and those that cover the
// others, of the given projects of p and, for Node, of other packages of the workspace.
// Options.Coverage decides, else the imports; where neither knows a file, everything runs. A
// source that no test reaches is a note, or an error if nothing else is left.
func Choose(ctx context.Context, ws *workspace.Workspace, p profile.Profile, projects []profile.Project, opts *Options) ([]Choice, error) {
	o := opts.orZero()
	var out []Choice
	var first error
	done := map[string]bool{} // roots of Node
	for _, q := range projects {
		if q.Ecosystem == profile.Node {
			root := nodeRoot(p, q)
			if done[root] {
				continue
			}
			done[root] = true
		}
		of := *o
		of.Files = slices.DeleteFunc(slices.Clone(o.Files), func(f string) bool { return isOfAnother(p, projects, q, path.Clean(f)) })
		list, err := chooseIn(ctx, ws, p, q, &of)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		out = append(out, list...)
	}
	if len(out) == 0 {
		return nil, first
	}
	return out, nil
}

// isOfAnother reports whether a file belongs to another one of several projects.
func isOfAnother(p profile.Profile, projects []profile.Project, q profile.Project, file string) bool {
	own, ok := p.For(file)
	isOwner := func(o profile.Project) bool { return o.Dir == own.Dir && o.Ecosystem == own.Ecosystem }
	if !ok || len(projects) < 2 || !slices.ContainsFunc(projects, isOwner) {
		return false
	}
	if own.Ecosystem == profile.Node && q.Ecosystem == profile.Node {
		return nodeRoot(p, own) != nodeRoot(p, q)
	}
	return own.Dir != q.Dir || own.Ecosystem != q.Ecosystem
}

// A chooser finds the tests that cover files.
type chooser struct {
	ws       *workspace.Workspace
	profile  profile.Profile
	project  profile.Project
	o        *Options
	graph    *importGraph // nil until it is needed
	choices  []*Choice
	measured bool
	sources  []string // whose tests were looked for
	unknown  []string // files of which it is not known what covers them
	none     []string // files that no test reaches
}

func chooseIn(ctx context.Context, ws *workspace.Workspace, p profile.Profile, q profile.Project, o *Options) ([]Choice, error) {
	c := &chooser{ws: ws, profile: p, project: q, o: o}
	for _, file := range o.Files {
		if err := c.choose(ctx, path.Clean(file)); err != nil {
			return nil, err
		}
	}
	if len(c.choices) == 0 && len(c.none) > 0 {
		const text = "verify: test %s: %w: no test covers %s: none imports it, directly or not; without files all tests run"
		return nil, fmt.Errorf(text, q.Dir, fault.NotFound, strings.Join(c.none, ", "))
	}
	slices.SortStableFunc(c.choices, func(a, b *Choice) int { return c.rank(a) - c.rank(b) })
	var out []Choice
	for i, ch := range c.choices {
		size := 0
		for _, f := range ch.files {
			size += len(f) + 1
		}
		if size > maxChosenBytes && !ch.all {
			ch.all = true
			ch.notes = append(ch.notes, fmt.Sprintf("%d test files were chosen, too many for one command; all ran", len(ch.files)))
		}
		c.explain(ch)
		if i == 0 && len(c.none) > 0 {
			ch.notes = append(ch.notes, fmt.Sprintf("no test covers %s: none imports it, directly or not", strings.Join(c.none, ", ")))
		}
		out = append(out, *ch)
	}
	return out, nil
}

// rank sorts the projects of the files before others.
func (c *chooser) rank(ch *Choice) int {
	if slices.ContainsFunc(c.o.Files, func(f string) bool { return paths.InsideName(ch.Project.Dir, path.Clean(f)) }) {
		return 0
	}
	return 1
}

// choose adds what covers a file.
func (c *chooser) choose(ctx context.Context, file string) error {
	q := c.project
	if !hasImports(q.Ecosystem) {
		if q.ScopedTest.IsZero() || q.ScopedTest.About(file) {
			c.add(q, file)
		} else {
			c.addAll(q, file)
		}
		return nil
	}
	owner := c.ownerOf(file)
	if c.graph == nil {
		var err error
		if c.graph, err = readImports(ctx, c.ws, c.profile, q); err != nil {
			return fmt.Errorf("verify: tests covering %s: %w", file, err)
		}
	}
	isSource := c.graph.files[file]
	wholly := owner.ScopedTest.IsZero() // its command takes no files
	switch {
	case wholly:
		c.add(owner, file)
	case q.Ecosystem == profile.Go && strings.HasSuffix(file, "_test.go"), isSource && q.Ecosystem != profile.Go && c.graph.isTestFile(file):
		c.add(owner, file)
		return nil
	case c.graph.partial:
		c.addAll(owner, file)
		return nil
	case q.Ecosystem == profile.Node && c.graph.isConfigured(file), path.Base(file) == "conftest.py":
		c.addAll(owner, file)
	}
	tests, err := c.testsOf(file)
	if err != nil {
		return err
	}
	for _, test := range tests {
		name := testFileOf(q, test)
		c.add(c.ownerOf(name), name)
	}
	switch {
	case wholly && len(tests) == 0:
	case len(tests) > 0:
		c.sources = append(c.sources, file)
	case slices.Contains(c.unknown, file):
	case !isSource:
		if _, err := c.ws.Stat(ctx, file, nil); fault.Of(err) == fault.NotFound {
			return fmt.Errorf("verify: test %s: %w: there is no file %s", q.Dir, fault.NotFound, file)
		}
		c.addAll(owner, file)
	case testDir.MatchString(file) && q.Ecosystem != profile.Go:
		c.add(owner, file) // a test whose name only the runner's configuration knows
	default:
		c.none = append(c.none, file)
	}
	return nil
}

var testDir = lazyregexp.New(`(?:^|/)(?:tests?|specs?|__tests__)/`)

// ownerOf returns the project whose command runs a test file: for Node that of its package.
func (c *chooser) ownerOf(file string) profile.Project {
	if c.project.Ecosystem == profile.Node {
		if q, ok := c.profile.For(file); ok && q.Ecosystem == profile.Node && q.ScopedTest.About(file) {
			return q
		}
	}
	return c.project
}

func (c *chooser) choiceOf(q profile.Project) *Choice {
	for _, ch := range c.choices {
		if ch.Project.Dir == q.Dir {
			return ch
		}
	}
	ch := &Choice{Project: q}
	c.choices = append(c.choices, ch)
	return ch
}

func (c *chooser) add(q profile.Project, file string) {
	ch := c.choiceOf(q)
	if !slices.Contains(ch.files, file) {
		ch.files = append(ch.files, file)
	}
}

// addAll lets everything of a project run for a file.
func (c *chooser) addAll(q profile.Project, file string) {
	ch := c.choiceOf(q)
	ch.all = true
	ch.notes = append(ch.notes, fmt.Sprintf("which tests cover %s is not known; all ran", file))
	c.unknown = append(c.unknown, file)
}

// testsOf returns the tests that cover a source file.
func (c *chooser) testsOf(file string) ([]TestRef, error) {
	for _, cov := range c.o.Coverage {
		if cov.Knows(file) {
			c.measured = true
			return cov.Tests(file, 0), nil
		}
	}
	tests := c.graph.testsReaching(file)
	own := slices.IndexFunc(tests, func(r TestRef) bool {
		return c.project.Ecosystem == profile.Go && path.Dir(testFileOf(c.project, r)) == path.Dir(file)
	})
	if own < 0 {
		return tests, nil
	}
	if more := len(tests) - 1; more > 0 {
		ch := c.choiceOf(c.project)
		text := fmt.Sprintf("the tests of its package cover %s; those of %d other packages that import it did not run", file, more)
		ch.notes = append(ch.notes, text)
	}
	return tests[own : own+1], nil
}

// explain notes which tests were chosen for source files, and how.
func (c *chooser) explain(ch *Choice) {
	if len(c.sources) == 0 || ch.all || ch.Project.ScopedTest.IsZero() {
		return
	}
	how := "by imports"
	if c.measured {
		how = "by measured coverage, else by imports"
	}
	names, what := ch.files, "test files"
	total := 0
	if c.project.Ecosystem == profile.Go {
		what, total = "packages with tests", len(c.graph.testDirs)
		names = nil
		for _, f := range ch.files {
			if dir := path.Dir(f); !slices.Contains(names, dir) {
				names = append(names, dir)
			}
		}
	} else {
		for f := range c.graph.files {
			if c.graph.isTestFile(f) && c.ownerOf(f).Dir == ch.Project.Dir {
				total++
			}
		}
	}
	text := fmt.Sprintf("chosen %s: %d of %d %s: %s", how, len(names), max(total, len(names)), what, firstNames(names))
	if len(names) < total {
		text += "; tests that reach the source in another way, such as by a program that they start, did not run"
	}
	ch.notes = append(ch.notes, text)
}
