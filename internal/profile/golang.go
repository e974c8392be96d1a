package profile

import (
	"path"
	"strings"
)

var goFiles = []string{"*.go"}

// golangciNames are the configuration files of golangci-lint.
var golangciNames = []string{".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"}

func detectGo(s *scan, dir string) *Project {
	mod, work := s.firstFile(dir, "go.mod"), s.firstFile(dir, "go.work")
	if mod == "" && work == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Go, Language: "go", Proof: mod, PackageManager: "go", PackageManagerProof: mod}
	patterns := []string{"./..."}
	if mod != "" {
		p.Name = goDirective(s.readText(p, mod), "module")
		if p.Name == "" {
			p.warn(mod, "no module directive")
		}
	}
	if work != "" {
		uses := goUses(s.readText(p, work))
		s.declareMembers(p, "go.mod", uses)
		patterns = goPatterns(p, uses)
		if mod == "" {
			p.Proof, p.PackageManagerProof = work, work
		}
		if len(patterns) == 0 {
			p.warn(work, "no use directive names a module in the workspace")
			return p
		}
	}
	p.goCommands(s, p.Proof, patterns)
	return p
}

func (p *Project) goCommands(s *scan, proof string, patterns []string) {
	all := func(argv ...string) []string { return append(argv, patterns...) }
	p.Install = p.command(proof, "go", "mod", "download")
	p.Build = p.command(proof, all("go", "build")...).matching(goFiles)
	p.Format = p.command(proof, "gofmt", "-w", Files).matching(goFiles).withWhole("gofmt", "-w", ".")
	p.Typecheck = p.command(proof, "go", "vet", Packages).matching(goFiles).withWhole(all("go", "vet")...)
	p.Lint = p.Typecheck
	p.Test = p.command(proof, all("go", "test")...).matching(goFiles)
	p.ScopedTest = p.command(proof, "go", "test", Packages).matching(goFiles).withWhole(all("go", "test")...)
	config := s.firstFile(p.Dir, golangciNames...)
	for up := p.Dir; config == "" && up != "."; {
		up = path.Dir(up) // golangci-lint searches parent directories
		config = s.firstFile(up, golangciNames...)
	}
	if config != "" {
		p.Lint = p.command(config, "golangci-lint", "run", Packages).matching(goFiles).withWhole(all("golangci-lint", "run")...)
	}
}

// goPatterns returns patterns for all packages of a go.work: "./..." matches nothing in a
// directory that is not a module.
func goPatterns(p *Project, uses []string) []string {
	var out []string
	for _, use := range uses {
		if path.Clean(use) == "." {
			out = append(out, "./...")
		}
	}
	for _, m := range p.Members {
		out = append(out, "./"+relativeTo(p.Dir, m)+"/...")
	}
	return out
}

// goDirective returns the argument of the first directive of that name in a go.mod.
func goDirective(text, word string) string {
	for line := range strings.Lines(stripComments(text, "//")) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == word {
			return strings.Trim(f[1], "\"`")
		}
	}
	return ""
}

// goUses returns the directories of a go.work's use directives.
func goUses(text string) []string {
	var out []string
	block := false
	for line := range strings.Lines(stripComments(text, "//")) {
		f := strings.Fields(strings.ReplaceAll(line, "(", " ( "))
		switch {
		case len(f) == 0:
		case block && f[0] == ")":
			block = false
		case block:
			out = append(out, strings.Trim(f[0], "\"`"))
		case f[0] == "use" && len(f) > 1 && f[1] == "(":
			block = true
		case f[0] == "use" && len(f) == 2:
			out = append(out, strings.Trim(f[1], "\"`"))
		}
	}
	return out
}
