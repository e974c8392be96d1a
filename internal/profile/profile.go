package profile

import (
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/internal/paths"
)

// A Profile lists the projects of a workspace. It is immutable and may be shared.
type Profile struct {
	Projects  []Project `json:"projects"`            // those in the root first, then by depth and name
	Warnings  []Warning `json:"warnings,omitempty"`  // what could not be read
	Truncated bool      `json:"truncated,omitempty"` // a limit of [Options] ended the walk early
	Evidence  Evidence  `json:"-"`                   // what was read
}

// A Project is a unit that is built, tested and installed on its own. Paths are relative to
// the workspace.
type Project struct {
	Dir                 string    `json:"dir"`                           // "." is the root of the workspace
	Name                string    `json:"name,omitempty"`                // from its manifest
	Ecosystem           Ecosystem `json:"ecosystem"`                     //
	Language            string    `json:"language,omitempty"`            // lower case: "go", "typescript", "kotlin"
	Proof               string    `json:"proof"`                         // its manifest
	PackageManager      string    `json:"packageManager,omitempty"`      // "pnpm", "uv", "cargo"
	PackageManagerProof string    `json:"packageManagerProof,omitempty"` // the file that it was detected by
	DepsDir             string    `json:"depsDir,omitempty"`             // exists once dependencies are installed; empty if they are elsewhere
	Members             []string  `json:"members,omitempty"`             // directories of the members of a workspace
	Install             Command   `json:"install,omitzero"`
	Build               Command   `json:"build,omitzero"`
	Format              Command   `json:"format,omitzero"`    // rewrites files
	Lint                Command   `json:"lint,omitzero"`      // reports, changes nothing
	Typecheck           Command   `json:"typecheck,omitzero"` // the compiler or type checker, without running tests
	Test                Command   `json:"test,omitzero"`      // all tests, once, never in watch mode
	// ScopedTest runs the tests for some files: test files if the runner takes files or
	// classes, any source file if it takes packages.
	ScopedTest Command   `json:"scopedTest,omitzero"`
	Warnings   []Warning `json:"warnings,omitempty"`
}

// An Ecosystem is a family of tools around one kind of manifest.
type Ecosystem string

// The ecosystems.
const (
	Go     Ecosystem = "go"
	Rust   Ecosystem = "rust"
	JVM    Ecosystem = "java"
	Dotnet Ecosystem = "dotnet"
	Elixir Ecosystem = "elixir"
	Ruby   Ecosystem = "ruby"
	PHP    Ecosystem = "php"
	Python Ecosystem = "python"
	Deno   Ecosystem = "deno"
	Node   Ecosystem = "node"
	Native Ecosystem = "cpp"
	Make   Ecosystem = "make"   // a Makefile or justfile with no other manifest beside it
	Custom Ecosystem = "custom" // nothing was detected, and the configuration has commands
)

// A Warning says what is wrong with a file.
type Warning struct {
	File    string `json:"file"`
	Message string `json:"message"`
}

func (w Warning) String() string { return w.File + ": " + w.Message }

// Primary returns the first project in the root, else the first of all; false if there is
// none.
func (p Profile) Primary() (Project, bool) {
	if len(p.Projects) == 0 {
		return Project{}, false
	}
	return p.Projects[0], true
}

// For returns the project of a file: the innermost project around it that has a command for
// such a file, else the innermost one.
func (p Profile) For(file string) (Project, bool) {
	best, bestSays := -1, false
	for i, q := range p.Projects {
		if !paths.InsideName(q.Dir, file) {
			continue
		}
		says := q.isAbout(file)
		deeper := best < 0 || len(q.Dir) > len(p.Projects[best].Dir) && q.Dir != "."
		if best < 0 || says && !bestSays || says == bestSays && deeper && p.Projects[best].Dir != q.Dir {
			best, bestSays = i, says
		}
	}
	if best < 0 {
		return Project{}, false
	}
	return p.Projects[best], true
}

// isAbout reports whether a command with file patterns matches the file.
func (p Project) isAbout(file string) bool {
	for _, c := range []Command{p.Format, p.Lint, p.Typecheck, p.Test, p.ScopedTest} {
		if len(c.Match) > 0 && c.About(file) {
			return true
		}
	}
	return false
}

// Plain reports whether no formatter, linter or compiler of any ecosystem takes such a
// file, as with notes and logs.
func Plain(file string) bool {
	switch strings.ToLower(path.Ext(file)) {
	case ".txt", ".text", ".log", ".csv", ".tsv", ".out", ".diff", ".patch", ".bak", ".tmp":
		return true
	}
	return false
}

// PromptLines returns lines for a prompt about the primary project.
func (p Profile) PromptLines() []string {
	q, ok := p.Primary()
	if !ok {
		return nil
	}
	return q.PromptLines()
}

// PromptLines returns lines for a prompt about the project: how to fix formatting, and
// which package manager to use. Unknown facts are left out.
func (p Project) PromptLines() []string {
	var lines []string
	if !p.Format.IsZero() {
		lines = append(lines, fmt.Sprintf("Format command: `%s`. Run this to auto-fix lint or format issues before manual repairs.", p.Format))
	}
	if p.PackageManager != "" {
		lines = append(lines, fmt.Sprintf("This project uses %s. Use it for install and run commands.", p.PackageManager))
	}
	return lines
}

// commands lists the commands of p in a fixed order.
func (p *Project) commands() []*Command {
	return []*Command{&p.Install, &p.Build, &p.Format, &p.Lint, &p.Typecheck, &p.Test, &p.ScopedTest}
}

func (p *Project) warn(file, format string, args ...any) {
	p.Warnings = append(p.Warnings, Warning{File: file, Message: strings.TrimSpace(fmt.Sprintf(format, args...))})
}

// command returns a command that runs in the directory of p.
func (p *Project) command(proof string, argv ...string) Command {
	if len(argv) == 0 || argv[0] == "" {
		return Command{}
	}
	return Command{Dir: p.Dir, Argv: argv, Proof: proof}
}

// matching restricts a command to files with these base names.
func (c Command) matching(patterns []string) Command {
	if !c.IsZero() {
		c.Match = patterns
	}
	return c
}

// withWhole sets the argv for the whole project.
func (c Command) withWhole(argv ...string) Command {
	if !c.IsZero() {
		c.Whole = argv
	}
	return c
}
