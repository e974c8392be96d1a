package profile

import (
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/paths"
)

var (
	nativeFiles = []string{"*.c", "*.h", "*.cc", "*.cpp", "*.cxx", "*.hh", "*.hpp", "*.hxx", "*.ipp", "*.m", "*.mm"}
	unitFiles   = []string{"*.c", "*.cc", "*.cpp", "*.cxx"}

	cmakeProject = lazyregexp.New(`(?is)\bproject\s*\(\s*([A-Za-z0-9_.+-]+)([^)]*)\)`)
	cmakeTests   = lazyregexp.New(`(?i)\b(enable_testing\s*\(|include\s*\(\s*CTest\s*\)|add_test\s*\()`)
)

func detectCMake(s *scan, dir string) *Project {
	manifest := s.firstFile(dir, "CMakeLists.txt")
	if manifest == "" || s.nearestProject(Native, dir) != nil {
		return nil // part of the project above
	}
	text := stripComments(string(s.readQuietly(manifest)), "#")
	p := &Project{Dir: dir, Ecosystem: Native, Language: "cpp", Proof: manifest}
	s.readText(p, manifest)
	if m := cmakeProject.FindStringSubmatch(text); m != nil {
		p.Name = m[1]
		if f := strings.Fields(m[2]); slices.Contains(f, "C") && !slices.Contains(f, "CXX") {
			p.Language = "c"
		}
	} else if dir != "." {
		return nil
	}
	build := p.cmakeCommands(s, cmakeTests.MatchString(text))
	p.clangTools(s, build)
	return p
}

func (s *scan) readQuietly(name string) []byte {
	data, _ := s.read(name) // readText reports the error
	return data
}

// A presetNames has the first usable preset of each kind.
type presetNames struct{ configure, build, test, binaryDir, proof string }

// cmakeCommands returns the build directory.
func (p *Project) cmakeCommands(s *scan, tested bool) string {
	pr := s.readPresets(p)
	dir := "build"
	p.Install = p.command(p.Proof, "cmake", "-S", ".", "-B", dir)
	if pr.configure != "" {
		p.Install = p.command(pr.proof, "cmake", "--preset", pr.configure)
		dir = pr.binaryDir
	}
	p.Build = p.command(p.Proof, "cmake", "--build", dir).matching(nativeFiles)
	if pr.build != "" {
		p.Build = p.command(pr.proof, "cmake", "--build", "--preset", pr.build).matching(nativeFiles)
	} else if dir == "" {
		p.Build = Command{} // the build directory is unknown
	}
	p.Typecheck = p.Build
	switch {
	case pr.test != "":
		p.Test = p.command(pr.proof, "ctest", "--preset", pr.test, "--output-on-failure").matching(nativeFiles)
	case tested && dir != "":
		p.Test = p.command(p.Proof, "ctest", "--test-dir", dir, "--output-on-failure").matching(nativeFiles)
	}
	if dir != "" {
		p.DepsDir = path.Join(p.Dir, dir)
	}
	return dir
}

func (s *scan) readPresets(p *Project) (out presetNames) {
	file := s.firstFile(p.Dir, "CMakePresets.json")
	if file == "" {
		return out
	}
	t, ok := s.loadTable(p, file, parseJSON)
	if !ok {
		return out
	}
	out.proof = file
	configure := firstPreset(t, "configurePresets")
	out.configure = configure.stringAt("name")
	out.build = firstPreset(t, "buildPresets").stringAt("name")
	out.test = firstPreset(t, "testPresets").stringAt("name")
	binary := strings.ReplaceAll(configure.stringAt("binaryDir"), "${presetName}", out.configure)
	binary = strings.TrimPrefix(binary, "${sourceDir}/")
	if binary != "" && !strings.Contains(binary, "$") && !path.IsAbs(binary) {
		out.binaryDir = path.Clean(binary)
	}
	return out
}

func firstPreset(t table, kind string) table {
	items, _ := t.valueAt(kind).([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok && m["hidden"] != true && table(m).stringAt("name") != "" {
			return m
		}
	}
	return nil
}

func (p *Project) clangTools(s *scan, build string) {
	if f := s.firstFile(p.Dir, ".clang-format", "_clang-format"); f != "" {
		p.Format = p.command(f, "clang-format", "-i", Files).matching(nativeFiles)
	}
	if f := s.firstFile(p.Dir, ".clang-tidy"); f != "" {
		argv := []string{"clang-tidy"}
		if build != "" {
			argv = append(argv, "-p", build)
		}
		p.Lint = p.command(f, append(argv, Files)...).matching(unitFiles)
	}
}

// detectMake accepts a Makefile or a justfile as a project only if no other project covers
// the directory.
func detectMake(s *scan, dir string) *Project {
	makefile := s.firstFile(dir, "GNUmakefile", "makefile", "Makefile")
	justfile := s.firstFile(dir, "justfile", "Justfile", ".justfile")
	if makefile == "" && justfile == "" || s.coveredByAny(dir) {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Make, Proof: makefile}
	program := "make"
	if makefile == "" {
		p.Proof, program = justfile, "just"
	}
	if p.Language = s.nativeLanguage(dir); p.Language != "" {
		p.Ecosystem = Native
	}
	targets := makeTargets(s.readText(p, p.Proof))
	run := func(names ...string) Command {
		for _, n := range names {
			if targets[n] {
				return p.command(p.Proof, program, n)
			}
		}
		return Command{}
	}
	p.Install = run("deps", "setup", "bootstrap")
	p.Build = run("build", "all")
	p.Format, p.Lint = run("fmt", "format"), run("lint")
	p.Typecheck, p.Test = run("typecheck", "type-check"), run("test", "tests", "check")
	if p.Ecosystem == Native {
		makeNative(s, p)
	}
	return p
}

func makeNative(s *scan, p *Project) {
	if p.Build.IsZero() && path.Base(p.Proof) != "justfile" {
		p.Build = p.command(p.Proof, "make")
	}
	for _, c := range []*Command{&p.Build, &p.Lint, &p.Test} {
		*c = c.matching(nativeFiles)
	}
	own := *p
	p.clangTools(s, "")
	if !own.Lint.IsZero() {
		p.Lint = own.Lint // clang-tidy needs a compilation database, which make does not write
	}
}

// coveredByAny reports whether dir is inside another project.
func (s *scan) coveredByAny(dir string) bool {
	return slices.ContainsFunc(s.found, func(p *Project) bool { return paths.InsideName(p.Dir, dir) })
}

func (s *scan) nativeLanguage(dir string) string {
	dirs := []string{dir}
	if s.hasDir(dir, "src") {
		dirs = append(dirs, path.Join(dir, "src"))
	}
	language := ""
	for _, d := range dirs {
		if len(s.glob(d, "*.cc", "*.cpp", "*.cxx")) > 0 {
			return "cpp"
		}
		if len(s.glob(d, "*.c")) > 0 {
			language = "c"
		}
	}
	return language
}

// makeTargets returns the targets of a Makefile or the recipes of a justfile.
func makeTargets(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(stripComments(text, "#")) {
		names, rest, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(rest, "=") || strings.ContainsAny(line[:1], " \t") || strings.Contains(names, "=") && !strings.Contains(names, "='") {
			continue // a recipe line or an assignment
		}
		for _, n := range strings.Fields(names) {
			out[strings.TrimPrefix(n, "@")] = true
		}
	}
	return out
}
