package profile

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var pyFiles = []string{"*.py", "*.pyi"}

// A python is a Python project while it is being looked at.
type python struct {
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

// loosePython is a directory with tests in Python and without any manifest.
func loosePython(s *scan, dir string) *Project {
	tests := (&python{s: s, Project: &Project{Dir: dir}}).testFiles()
	if len(tests) == 0 {
		return nil
	}
	return newPython(s, dir, tests[0])
}

func newPython(s *scan, dir, proof string) *Project {
	p := &python{s: s, Project: &Project{Dir: dir, Ecosystem: Python, Language: "python", Proof: proof}}
	usable := p.readManifests()
	root := s.workspaceOf(Python, dir)
	p.findManager(root, usable)
	p.lint()
	p.format()
	p.typecheck()
	p.tests(usable)
	if p.toml.has("tool", "uv", "workspace") {
		patterns := p.toml.list("tool", "uv", "workspace", "members")
		for _, x := range p.toml.list("tool", "uv", "workspace", "exclude") {
			patterns = append(patterns, "!"+x)
		}
		s.declare(p.Project, "pyproject.toml", patterns)
	}
	if root != nil {
		inherit(p.Project, root)
	}
	return p.Project
}

// pythonManifest returns what makes dir a Python project. Below the root, where
// a requirements.txt may serve some tool or document, it takes code beside it.
func pythonManifest(s *scan, dir string) string {
	if m := s.first(dir, "pyproject.toml", "setup.py", "Pipfile", "Pipfile.lock"); m != "" {
		return m
	}
	requirements, cfg := s.first(dir, "requirements.txt"), s.first(dir, "setup.cfg")
	if dir == "." {
		for _, m := range []string{cfg, requirements, s.first(dir, "ruff.toml", ".ruff.toml")} {
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

// readManifests is false if the project's manifest is broken.
func (p *python) readManifests() bool {
	usable := true
	if m := p.s.first(p.Dir, "pyproject.toml"); m != "" {
		p.toml, usable = p.s.load(p.Project, m, parseTOML)
		p.Name = p.toml.text("project", "name")
		if p.Name == "" {
			p.Name = p.toml.text("tool", "poetry", "name")
		}
		p.requires += strings.Join(dependencies(p.toml, false), "\n")
	}
	p.cfg, p.tox = p.sections("setup.cfg"), p.sections("tox.ini")
	files := append(p.s.glob(p.Dir, "requirements*.txt", "*-requirements.txt"), p.s.first(p.Dir, "Pipfile"), p.s.first(p.Dir, "setup.cfg"), p.s.first(p.Dir, "setup.py"))
	for _, f := range files {
		p.requires += "\n" + uncomment(p.s.text(p.Project, f), "#")
	}
	return usable
}

// dependencies returns what the tables and lists of a pyproject.toml that hold
// dependencies name, whatever tool they are for.
func dependencies(v any, listed bool) []string {
	var out []string
	switch v := v.(type) {
	case string:
		if listed {
			out = append(out, v)
		}
	case []any:
		for _, item := range v {
			out = append(out, dependencies(item, listed)...)
		}
	case table:
		return dependencies(map[string]any(v), listed)
	case map[string]any:
		for key, item := range v {
			if listed {
				out = append(out, key)
			}
			out = append(out, dependencies(item, listed || strings.Contains(key, "dependenc"))...)
		}
	}
	return out
}

func (p *python) sections(name string) map[string]bool {
	file := p.s.first(p.Dir, name)
	if file == "" {
		return nil
	}
	return iniSections([]byte(p.s.text(p.Project, file)))
}

var pythonLocks = []struct{ file, manager string }{
	{"uv.lock", "uv"}, {"poetry.lock", "poetry"}, {"Pipfile.lock", "pipenv"}, {"pdm.lock", "pdm"},
}

func (p *python) findManager(root *Project, usable bool) {
	name, proof := "", p.Proof
	for _, l := range pythonLocks {
		if found := p.s.first(p.Dir, l.file); found != "" && name == "" {
			name, proof = l.manager, found
		}
	}
	for _, m := range []string{"uv", "poetry", "pdm"} {
		if name == "" && p.toml.has("tool", m) {
			name = m
		}
	}
	pipfile := p.s.first(p.Dir, "Pipfile")
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
		p.install(proof)
	}
}

func (p *python) install(proof string) {
	switch p.PackageManager {
	case "uv":
		p.Install = p.at(proof, "uv", "sync")
	case "poetry":
		p.Install = p.at(proof, "poetry", "install")
	case "pipenv":
		p.Install = p.at(proof, "pipenv", "install", "--dev")
	case "pdm":
		p.Install = p.at(proof, "pdm", "install")
	default:
		p.pipInstall()
	}
}

// pipInstall picks what pip can install: a package it can build, or a list. A
// pyproject.toml that only configures tools is neither.
func (p *python) pipInstall() {
	setup, list := p.s.first(p.Dir, "setup.py"), p.s.first(p.Dir, "requirements.txt")
	switch {
	case p.toml.has("project"), p.toml.has("build-system"):
		p.Install = p.at(path.Join(p.Dir, "pyproject.toml"), "pip", "install", "-e", ".")
	case setup != "":
		p.Install = p.at(setup, "pip", "install", "-e", ".")
	case list != "":
		p.Install = p.at(list, "pip", "install", "-r", "requirements.txt")
	}
}

// tool returns argv for a program of the project's environment, never changing
// that environment.
func (p *python) tool(name string, args ...string) []string {
	var prefix []string
	switch p.PackageManager {
	case "uv":
		prefix = []string{"uv", "run", "--no-sync", name}
	case "poetry", "pipenv", "pdm":
		prefix = []string{p.PackageManager, "run", name}
	default:
		prefix = []string{name}
		for _, dir := range []string{".venv/bin/", "venv/bin/"} {
			if p.s.has(p.Dir, dir+name) {
				prefix = []string{dir + name}
				break
			}
		}
		if name == "python" && prefix[0] == name {
			prefix = []string{"python3"} // the name that is there without an environment
		}
	}
	return append(prefix, args...)
}

// onFiles makes a command that takes files, or "." for all.
func (p *python) onFiles(proof string, argv []string) Command {
	return p.at(proof, append(slices.Clone(argv), Files)...).on(pyFiles).whole(append(slices.Clone(argv), ".")...)
}

// config returns the file that configures a tool: one of names, the table
// [tool.KEY] of pyproject.toml, or a section of setup.cfg or tox.ini.
func (p *python) config(key string, sections []string, names ...string) string {
	if f := p.s.first(p.Dir, names...); f != "" {
		return f
	}
	if p.toml.has("tool", key) {
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

func (p *python) ruff() string {
	for _, name := range []string{"ruff.toml", ".ruff.toml"} {
		if f := p.s.first(p.Dir, name); f != "" {
			p.s.load(p.Project, f, parseTOML) // for the warning: its presence is proof enough
		}
	}
	return p.config("ruff", nil, "ruff.toml", ".ruff.toml")
}

func (p *python) lint() {
	if f := p.ruff(); f != "" {
		p.Lint = p.onFiles(f, p.tool("ruff", "check"))
	} else if f := p.config("flake8", []string{"flake8"}, ".flake8"); f != "" {
		p.Lint = p.onFiles(f, p.tool("flake8"))
	} else if f := p.config("pylint", p.pylintSections(), ".pylintrc", "pylintrc", ".pylintrc.toml", "pylintrc.toml"); f != "" {
		p.Lint = p.onFiles(f, p.tool("pylint"))
		p.Lint.Whole = append(p.tool("pylint", "--recursive=y"), ".")
	}
}

// pylintSections are those sections of an INI file that belong to pylint; it
// reads any that starts with its name.
func (p *python) pylintSections() []string {
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

// format prefers ruff to black, unless black is both configured and installed
// and nothing speaks for ruff's formatter: such projects use ruff for linting only.
func (p *python) format() {
	ruff, black := p.ruff(), p.config("black", nil, ".black")
	var hooks string
	if f := p.s.first(p.Dir, ".pre-commit-config.yaml"); f != "" {
		hooks = uncomment(p.s.text(p.Project, f), "#")
	}
	formats := p.toml.has("tool", "ruff", "format") || hasWord(hooks, "ruff-format")
	switch {
	case black != "" && (ruff == "" || !formats && (p.needs("black") || hasWord(hooks, "id: black"))):
		p.Format = p.onFiles(black, p.tool("black"))
	case ruff != "":
		p.Format = p.onFiles(ruff, p.tool("ruff", "format"))
	case p.needs("black"):
		p.Format = p.onFiles(p.Proof, p.tool("black"))
	}
}

func (p *python) typecheck() {
	pyright := p.s.first(p.Dir, "pyrightconfig.json")
	if f := p.config("mypy", []string{"mypy"}, "mypy.ini", ".mypy.ini"); f != "" {
		p.Typecheck = p.onFiles(f, p.tool("mypy"))
	} else if f := p.config("basedpyright", nil); f != "" {
		p.Typecheck = p.onFiles(f, p.tool("basedpyright"))
	} else if f := p.config("pyright", nil, "pyrightconfig.json"); f != "" {
		if pyright != "" {
			p.s.load(p.Project, pyright, parseJSONC)
		}
		p.Typecheck = p.onFiles(f, p.tool("pyright"))
	} else if p.needs("mypy") {
		p.Typecheck = p.onFiles(p.Proof, p.tool("mypy"))
	}
}

// needs reports whether a list of dependencies names a package.
func (p *python) needs(name string) bool {
	re := regexp.MustCompile(`(?im)(^|["'\s\[,])` + regexp.QuoteMeta(name) + `\s*($|["'<>=~!;\[,])`)
	return re.MatchString(p.requires)
}

func (p *python) tests(usable bool) {
	if f := p.pytestProof(); f != "" {
		p.pytest(f)
		return
	}
	if p.toml.has("tool", "nose2") {
		f := path.Join(p.Dir, "pyproject.toml")
		p.Test = p.at(f, p.tool("nose2")...).on(pyFiles)
		return
	}
	if f := p.s.first(p.Dir, "manage.py"); f != "" {
		p.Test = p.at(f, p.tool("python", "manage.py", "test")...).on(pyFiles)
		return
	}
	if f := p.unittestProof(); f != "" {
		p.Test = p.at(f, p.tool("python", "-m", "unittest", "discover")...).on(pyFiles)
		if dir := path.Dir(f); dir != p.Dir {
			p.Test.Argv = append(p.Test.Argv, "-s", relative(p.Dir, dir), "-t", ".")
		}
		p.ScopedTest = p.at(f, p.tool("python", "-m", "unittest", Files)...).on([]string{"*.py"}).whole(p.Test.Argv...)
		return
	}
	// pytest runs whatever kind of test there is, so it is what a package gets, and
	// what has tests and nothing else.
	f := p.s.first(p.Dir, "pyproject.toml", "setup.py", "setup.cfg")
	if f == "" && strings.HasSuffix(p.Proof, ".py") {
		f = p.Proof
	}
	if f != "" && usable {
		p.pytest(f)
	}
}

func (p *python) pytest(proof string) {
	p.Test = p.at(proof, p.tool("pytest")...).on(pyFiles)
	p.ScopedTest = p.at(proof, p.tool("pytest", Files)...).on([]string{"*.py"}).whole(p.tool("pytest")...)
}

func (p *python) pytestProof() string {
	if f := p.config("pytest", []string{"tool:pytest", "pytest"}, "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "conftest.py", "tests/conftest.py", "test/conftest.py"); f != "" {
		return f
	}
	if p.needs("pytest") {
		return p.Proof
	}
	for _, f := range p.testFiles() {
		if hasWord(p.s.text(p.Project, f), "pytest") {
			return f
		}
	}
	return ""
}

func (p *python) unittestProof() string {
	for _, f := range p.testFiles() {
		if hasWord(p.s.text(p.Project, f), "unittest") {
			return f
		}
	}
	return ""
}

// testFiles returns a few test modules: enough to see how tests are written.
func (p *python) testFiles() []string {
	out := p.s.glob(p.Dir, "test_*.py", "*_test.py")
	for _, d := range []string{"tests", "test"} {
		if p.s.hasDir(p.Dir, d) {
			out = append(out, p.s.glob(path.Join(p.Dir, d), "test_*.py", "*_test.py")...)
		}
	}
	return out[:min(len(out), 5)]
}
