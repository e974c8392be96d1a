package profile

import (
	"fmt"
	"path"
	"strings"
)

// A Profile is what was found in a workspace. It is never changed after it was
// returned, and may be shared; whoever wants another one makes a copy.
type Profile struct {
	Projects  []Project `json:"projects"`            // those in the root first, then by depth and name
	Warnings  []Warning `json:"warnings,omitempty"`  // what could not be looked at
	Truncated bool      `json:"truncated,omitempty"` // a limit of [Options] ended the walk early
	Evidence  Evidence  `json:"-"`                   // what was looked at
}

// A Project is one thing that is built, tested and installed on its own. Paths
// are relative to the workspace.
type Project struct {
	Dir                 string    `json:"dir"`                           // "." is the root of the workspace
	Name                string    `json:"name,omitempty"`                // what its manifest calls it
	Ecosystem           Ecosystem `json:"ecosystem"`                     //
	Language            string    `json:"language,omitempty"`            // lower case: "go", "typescript", "kotlin"
	Proof               string    `json:"proof"`                         // the manifest that makes it a project
	PackageManager      string    `json:"packageManager,omitempty"`      // "pnpm", "uv", "cargo"
	PackageManagerProof string    `json:"packageManagerProof,omitempty"` // the file that says so
	DepsDir             string    `json:"depsDir,omitempty"`             // exists once dependencies are installed; empty where they live elsewhere
	Members             []string  `json:"members,omitempty"`             // directories of the members of a workspace
	Install             Command   `json:"install,omitzero"`
	Build               Command   `json:"build,omitzero"`
	Format              Command   `json:"format,omitzero"`    // rewrites files
	Lint                Command   `json:"lint,omitzero"`      // reports, changes nothing
	Typecheck           Command   `json:"typecheck,omitzero"` // the compiler or type checker, without running tests
	Test                Command   `json:"test,omitzero"`      // all tests, once, never in watch mode
	// ScopedTest narrows the run to the files given: test files where the runner
	// takes files or classes, any source file where it takes packages.
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
	Make   Ecosystem = "make" // a Makefile or justfile with no other manifest beside it
)

// A Warning says what is wrong with a file that was looked at.
type Warning struct {
	File    string `json:"file"`
	Message string `json:"message"`
}

func (w Warning) String() string { return w.File + ": " + w.Message }

// Primary returns the first project in the root, or the first of all where the
// root has none. It is false for a workspace without projects.
func (p Profile) Primary() (Project, bool) {
	if len(p.Projects) == 0 {
		return Project{}, false
	}
	return p.Projects[0], true
}

// For returns the project that file belongs to: of the projects around it that
// have a command for such a file the innermost, or else the innermost of all.
func (p Profile) For(file string) (Project, bool) {
	best, bestSays := -1, false
	for i, q := range p.Projects {
		if !isInside(q.Dir, file) {
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

// isAbout reports whether a command that is meant for certain files names this one.
func (p Project) isAbout(file string) bool {
	for _, c := range []Command{p.Format, p.Lint, p.Typecheck, p.Test, p.ScopedTest} {
		if len(c.Match) > 0 && c.About(file) {
			return true
		}
	}
	return false
}

// Plain reports whether a file is of a kind that no formatter, linter or compiler
// of any ecosystem takes, such as notes and logs, so that nobody needs to know
// which project it belongs to.
func Plain(file string) bool {
	switch strings.ToLower(path.Ext(file)) {
	case ".txt", ".text", ".log", ".csv", ".tsv", ".out", ".diff", ".patch", ".bak", ".tmp":
		return true
	}
	return false
}

// PromptLines returns what a model should be told about the primary project.
func (p Profile) PromptLines() []string {
	q, ok := p.Primary()
	if !ok {
		return nil
	}
	return q.PromptLines()
}

// PromptLines returns what a model should be told about the project: how to
// repair formatting, and which package manager to use. Unknown things are left out.
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

// commands lists the commands of p in a fixed order, for passes over all of them.
func (p *Project) commands() []*Command {
	return []*Command{&p.Install, &p.Build, &p.Format, &p.Lint, &p.Typecheck, &p.Test, &p.ScopedTest}
}

func (p *Project) warn(file, format string, args ...any) {
	p.Warnings = append(p.Warnings, Warning{File: file, Message: strings.TrimSpace(fmt.Sprintf(format, args...))})
}

// command makes a command that runs in the directory of p.
func (p *Project) command(proof string, argv ...string) Command {
	if len(argv) == 0 || argv[0] == "" {
		return Command{}
	}
	return Command{Dir: p.Dir, Argv: argv, Proof: proof}
}

// matching narrows a command to files with such base names.
func (c Command) matching(patterns []string) Command {
	if !c.IsZero() {
		c.Match = patterns
	}
	return c
}

// withWhole says what to run for the whole project.
func (c Command) withWhole(argv ...string) Command {
	if !c.IsZero() {
		c.Whole = argv
	}
	return c
}
