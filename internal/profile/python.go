package profile

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var pyFiles = []string{"*.py", "*.pyi"}

// A pythonProject is a Python project during detection.
type pythonProject struct {
	*Project
	s        *scan
	toml     table           // pyproject.toml
	cfg, tox map[string]bool // sections of setup.cfg and tox.ini
	requires string          // text of the files that list dependencies
}

func detectPython(s *scan, dir string) *Project {
	proof := pythonManifest(s, dir)
	if proof == "" {
		return nil
	}
	return newPython(s, dir, proof)
}

// loosePython detects a directory with Python tests and no manifest.
func loosePython(s *scan, dir string) *Project {
	tests := (&pythonProject{s: s, Project: &Project{Dir: dir}}).testFiles()
	if len(tests) == 0 {
		return nil
	}
	return newPython(s, dir, tests[0])
}

func newPython(s *scan, dir, proof string) *Project {
	p := &pythonProject{s: s, Project: &Project{Dir: dir, Ecosystem: Python, Language: "python", Proof: proof}}
	usable := p.readManifests()
	root := s.workspaceOf(Python, dir)
	p.findManager(root, usable)
	p.detectLint()
	p.detectFormat()
	p.detectTypecheck()
	p.detectTests(usable)
	if p.toml.hasKey("tool", "uv", "workspace") {
		patterns := p.toml.stringsAt("tool", "uv", "workspace", "members")
		for _, x := range p.toml.stringsAt("tool", "uv", "workspace", "exclude") {
			patterns = append(patterns, "!"+x)
		}
		s.declareMembers(p.Project, "pyproject.toml", patterns)
	}
	if root != nil {
		inheritCommands(p.Project, root)
	}
	return p.Project
}

// pythonManifest returns the manifest of a Python project. Below the root a
// requirements.txt counts only next to code, since it may serve a tool or document.
func pythonManifest(s *scan, dir string) string {
	if m := s.firstFile(dir, "pyproject.toml", "setup.py", "Pipfile", "Pipfile.lock"); m != "" {
		return m
	}
	requirements, cfg := s.firstFile(dir, "requirements.txt"), s.firstFile(dir, "setup.cfg")
	if dir == "." {
		for _, m := range []string{cfg, requirements, s.firstFile(dir, "ruff.toml", ".ruff.toml")} {
			if m != "" {
				return m
			}
		}
		return ""
	}
	if cfg != "" {
		if data, err := s.read(cfg); err == nil && iniSections(data)["metadata"] {
			return cfg
		}
	}
	if base := path.Base(dir); requirements != "" && base != "docs" && base != "doc" && len(s.glob(dir, "*.py")) > 0 {
		return requirements
	}
	return ""
}

// readManifests returns false if the project's manifest is broken.
func (p *pythonProject) readManifests() bool {
	usable := true
	if m := p.s.firstFile(p.Dir, "pyproject.toml"); m != "" {
		p.toml, usable = p.s.loadTable(p.Project, m, parseTOML)
		p.Name = p.toml.stringAt("project", "name")
		if p.Name == "" {
			p.Name = p.toml.stringAt("tool", "poetry", "name")
		}
		p.requires += strings.Join(dependencyNames(p.toml, false), "\n")
	}
	p.cfg, p.tox = p.sectionsOf("setup.cfg"), p.sectionsOf("tox.ini")
	files := append(p.s.glob(p.Dir, "requirements*.txt", "*-requirements.txt"), p.s.firstFile(p.Dir, "Pipfile"), p.s.firstFile(p.Dir, "setup.cfg"), p.s.firstFile(p.Dir, "setup.py"))
	for _, f := range files {
		p.requires += "\n" + stripComments(p.s.readText(p.Project, f), "#")
	}
	return usable
}

// dependencyNames returns the names in all dependency tables and lists of a pyproject.toml,
// for any tool.
func dependencyNames(v any, listed bool) []string {
	var out []string
	switch v := v.(type) {
	case string:
		if listed {
			out = append(out, v)
		}
	case []any:
		for _, item := range v {
			out = append(out, dependencyNames(item, listed)...)
		}
	case table:
		return dependencyNames(map[string]any(v), listed)
	case map[string]any:
		for key, item := range v {
			if listed {
				out = append(out, key)
			}
			out = append(out, dependencyNames(item, listed || strings.Contains(key, "dependenc"))...)
		}
	}
	return out
}

func (p *pythonProject) sectionsOf(name string) map[string]bool {
	file := p.s.firstFile(p.Dir, name)
	if file == "" {
		return nil
	}
	return iniSections([]byte(p.s.readText(p.Project, file)))
}

var pythonLocks = []struct{ file, manager string }{
	{"uv.lock", "uv"}, {"poetry.lock", "poetry"}, {"Pipfile.lock", "pipenv"}, {"pdm.lock", "pdm"},
}

func (p *pythonProject) findManager(root *Project, usable bool) {
	name, proof := "", p.Proof
	for _, l := range pythonLocks {
		if found := p.s.firstFile(p.Dir, l.file); found != "" && name == "" {
			name, proof = l.manager, found
		}
	}
	for _, m := range []string{"uv", "poetry", "pdm"} {
		if name == "" && p.toml.hasKey("tool", m) {
			name = m
		}
	}
	pipfile := p.s.firstFile(p.Dir, "Pipfile")
	switch {
	case name == "" && root != nil && root.PackageManager != "":
		name, proof = root.PackageManager, root.PackageManagerProof
	case name == "" && pipfile != "":
		name, proof = "pipenv", pipfile
	case name == "" && usable:
		name = "pip"
	}
	p.PackageManager = name
	if name == "" {
		return
	}
	p.PackageManagerProof = proof
	if root == nil {
		p.DepsDir = path.Join(p.Dir, ".venv")
	}
	if usable && root == nil {
		p.setInstall(proof)
	}
}

func (p *pythonProject) setInstall(proof string) {
	switch p.PackageManager {
	case "uv":
		p.Install = p.command(proof, "uv", "sync")
	case "poetry":
		p.Install = p.command(proof, "poetry", "install")
	case "pipenv":
		p.Install = p.command(proof, "pipenv", "install", "--dev")
	case "pdm":
		p.Install = p.command(proof, "pdm", "install")
	default:
		p.pipInstall()
	}
}

// pipInstall picks what pip can install: a package, or a requirements file. A
// pyproject.toml that only configures tools is neither.
func (p *pythonProject) pipInstall() {
	setup, list := p.s.firstFile(p.Dir, "setup.py"), p.s.firstFile(p.Dir, "requirements.txt")
	switch {
	case p.toml.hasKey("project"), p.toml.hasKey("build-system"):
		p.Install = p.command(path.Join(p.Dir, "pyproject.toml"), "pip", "install", "-e", ".")
	case setup != "":
		p.Install = p.command(setup, "pip", "install", "-e", ".")
	case list != "":
		p.Install = p.command(list, "pip", "install", "-r", "requirements.txt")
	}
}

// toolArgv returns the argv of a program in the project's environment, without changing
// that environment.
func (p *pythonProject) toolArgv(name string, args ...string) []string {
	var prefix []string
	switch p.PackageManager {
	case "uv":
		prefix = []string{"uv", "run", "--no-sync", name}
	case "poetry", "pipenv", "pdm":
		prefix = []string{p.PackageManager, "run", name}
	default:
		prefix = []string{name}
		for _, dir := range []string{".venv/bin/", "venv/bin/"} {
			if p.s.hasFile(p.Dir, dir+name) {
				prefix = []string{dir + name}
				break
			}
		}
		if name == "python" && prefix[0] == name {
			prefix = []string{"python3"} // the name outside an environment
		}
	}
	return append(prefix, args...)
}

// onFiles returns a command that takes files, or "." for all.
func (p *pythonProject) onFiles(proof string, argv []string) Command {
	return p.command(proof, append(slices.Clone(argv), Files)...).matching(pyFiles).withWhole(append(slices.Clone(argv), ".")...)
}

// configFile returns the file that configures a tool: one of names, the table [tool.KEY] of
// pyproject.toml, or a section of setup.cfg or tox.ini.
func (p *pythonProject) configFile(key string, sections []string, names ...string) string {
	if f := p.s.firstFile(p.Dir, names...); f != "" {
		return f
	}
	if p.toml.hasKey("tool", key) {
		return path.Join(p.Dir, "pyproject.toml")
	}
	for _, sec := range sections {
		if p.cfg[sec] {
			return path.Join(p.Dir, "setup.cfg")
		}
		if p.tox[sec] {
			return path.Join(p.Dir, "tox.ini")
		}
	}
	return ""
}

func (p *pythonProject) ruffConfig() string {
	for _, name := range []string{"ruff.toml", ".ruff.toml"} {
		if f := p.s.firstFile(p.Dir, name); f != "" {
			p.s.loadTable(p.Project, f, parseTOML) // for a possible warning
		}
	}
	return p.configFile("ruff", nil, "ruff.toml", ".ruff.toml")
}

func (p *pythonProject) detectLint() {
	if f := p.ruffConfig(); f != "" {
		p.Lint = p.onFiles(f, p.toolArgv("ruff", "check"))
	} else if f := p.configFile("flake8", []string{"flake8"}, ".flake8"); f != "" {
		p.Lint = p.onFiles(f, p.toolArgv("flake8"))
	} else if f := p.configFile("pylint", p.pylintSections(), ".pylintrc", "pylintrc", ".pylintrc.toml", "pylintrc.toml"); f != "" {
		p.Lint = p.onFiles(f, p.toolArgv("pylint"))
		p.Lint.Whole = append(p.toolArgv("pylint", "--recursive=y"), ".")
	}
}

// pylintSections returns the sections of INI files that belong to pylint: all that start
// with its name.
func (p *pythonProject) pylintSections() []string {
	var out []string
	for _, sections := range []map[string]bool{p.cfg, p.tox} {
		for name := range sections {
			if name == "pylint" || strings.HasPrefix(name, "pylint.") {
				out = append(out, name)
			}
		}
	}
	return out
}

// detectFormat prefers ruff to black, unless black is configured and installed and ruff's
// formatter is not: such projects use ruff only for linting.
func (p *pythonProject) detectFormat() {
	ruff, black := p.ruffConfig(), p.configFile("black", nil, ".black")
	var hooks string
	if f := p.s.firstFile(p.Dir, ".pre-commit-config.yaml"); f != "" {
		hooks = stripComments(p.s.readText(p.Project, f), "#")
	}
	formats := p.toml.hasKey("tool", "ruff", "format") || hasWord(hooks, "ruff-format")
	switch {
	case black != "" && (ruff == "" || !formats && (p.dependsOn("black") || hasWord(hooks, "id: black"))):
		p.Format = p.onFiles(black, p.toolArgv("black"))
	case ruff != "":
		p.Format = p.onFiles(ruff, p.toolArgv("ruff", "format"))
	case p.dependsOn("black"):
		p.Format = p.onFiles(p.Proof, p.toolArgv("black"))
	}
}

func (p *pythonProject) detectTypecheck() {
	pyright := p.s.firstFile(p.Dir, "pyrightconfig.json")
	if f := p.configFile("mypy", []string{"mypy"}, "mypy.ini", ".mypy.ini"); f != "" {
		p.Typecheck = p.onFiles(f, p.toolArgv("mypy"))
	} else if f := p.configFile("basedpyright", nil); f != "" {
		p.Typecheck = p.onFiles(f, p.toolArgv("basedpyright"))
	} else if f := p.configFile("pyright", nil, "pyrightconfig.json"); f != "" {
		if pyright != "" {
			p.s.loadTable(p.Project, pyright, parseJSONC)
		}
		p.Typecheck = p.onFiles(f, p.toolArgv("pyright"))
	} else if p.dependsOn("mypy") {
		p.Typecheck = p.onFiles(p.Proof, p.toolArgv("mypy"))
	}
}

// dependsOn reports whether the dependencies include a package.
func (p *pythonProject) dependsOn(name string) bool {
	re := regexp.MustCompile(`(?im)(^|["'\s\[,])` + regexp.QuoteMeta(name) + `\s*($|["'<>=~!;\[,])`)
	return re.MatchString(p.requires)
}

func (p *pythonProject) detectTests(usable bool) {
	if f := p.pytestProof(); f != "" {
		p.usePytest(f)
		return
	}
	if p.toml.hasKey("tool", "nose2") {
		f := path.Join(p.Dir, "pyproject.toml")
		p.Test = p.command(f, p.toolArgv("nose2")...).matching(pyFiles)
		return
	}
	if f := p.s.firstFile(p.Dir, "manage.py"); f != "" {
		p.Test = p.command(f, p.toolArgv("python", "manage.py", "test")...).matching(pyFiles)
		return
	}
	if f := p.unittestProof(); f != "" {
		p.Test = p.command(f, p.toolArgv("python", "-m", "unittest", "discover")...).matching(pyFiles)
		if dir := path.Dir(f); dir != p.Dir {
			p.Test.Argv = append(p.Test.Argv, "-s", relativeTo(p.Dir, dir), "-t", ".")
		}
		p.ScopedTest = p.command(f, p.toolArgv("python", "-m", "unittest", Files)...).matching([]string{"*.py"}).withWhole(p.Test.Argv...)
		return
	}
	// pytest runs every kind of test, so it is the default of a package, and
	// of a directory with tests only.
	f := p.s.firstFile(p.Dir, "pyproject.toml", "setup.py", "setup.cfg")
	if f == "" && strings.HasSuffix(p.Proof, ".py") {
		f = p.Proof
	}
	if f != "" && usable {
		p.usePytest(f)
	}
}

func (p *pythonProject) usePytest(proof string) {
	p.Test = p.command(proof, p.toolArgv("pytest")...).matching(pyFiles)
	p.ScopedTest = p.command(proof, p.toolArgv("pytest", Files)...).matching([]string{"*.py"}).withWhole(p.toolArgv("pytest")...)
}

func (p *pythonProject) pytestProof() string {
	if f := p.configFile("pytest", []string{"tool:pytest", "pytest"}, "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "conftest.py", "tests/conftest.py", "test/conftest.py"); f != "" {
		return f
	}
	if p.dependsOn("pytest") {
		return p.Proof
	}
	for _, f := range p.testFiles() {
		if hasWord(p.s.readText(p.Project, f), "pytest") {
			return f
		}
	}
	return ""
}

func (p *pythonProject) unittestProof() string {
	for _, f := range p.testFiles() {
		if hasWord(p.s.readText(p.Project, f), "unittest") {
			return f
		}
	}
	return ""
}

// testFiles returns a few test modules, enough to see how tests are written.
func (p *pythonProject) testFiles() []string {
	out := p.s.glob(p.Dir, "test_*.py", "*_test.py")
	for _, d := range []string{"tests", "test"} {
		if p.s.hasDir(p.Dir, d) {
			out = append(out, p.s.glob(path.Join(p.Dir, d), "test_*.py", "*_test.py")...)
		}
	}
	return out[:min(len(out), 5)]
}
