package profile

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

var (
	scriptFiles = []string{"*.js", "*.cjs", "*.mjs", "*.jsx", "*.ts", "*.cts", "*.mts", "*.tsx"}
	pageFiles   = append([]string{"*.vue", "*.svelte", "*.astro"}, scriptFiles...)
	biomeFiles  = append([]string{"*.json", "*.jsonc", "*.css", "*.graphql", "*.gql", "*.html"}, pageFiles...)

	eslintNames = []string{
		"eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", "eslint.config.mts", "eslint.config.cts",
		".eslintrc.js", ".eslintrc.cjs", ".eslintrc.mjs", ".eslintrc.yaml", ".eslintrc.yml", ".eslintrc.json", ".eslintrc",
	}
	prettierNames = []string{
		".prettierrc", ".prettierrc.json", ".prettierrc.yml", ".prettierrc.yaml", ".prettierrc.json5", ".prettierrc.js",
		".prettierrc.cjs", ".prettierrc.mjs", ".prettierrc.ts", ".prettierrc.cts", ".prettierrc.mts", ".prettierrc.toml",
		"prettier.config.js", "prettier.config.cjs", "prettier.config.mjs", "prettier.config.ts", "prettier.config.cts", "prettier.config.mts",
	}
)

// A nodeProject is a project with a package.json during detection.
type nodeProject struct {
	*Project
	s        *scan
	manifest table
	scripts  table
	deps     map[string]bool
	berry    bool // Yarn 2 or later
}

func detectNode(s *scan, dir string) *Project {
	manifest := s.firstFile(dir, "package.json")
	if manifest == "" {
		return nil
	}
	n := &nodeProject{s: s, Project: &Project{Dir: dir, Ecosystem: Node, Language: "javascript", Proof: manifest}, deps: map[string]bool{}}
	m, ok := s.loadTable(n.Project, manifest, parseJSON)
	n.manifest = m
	n.readManifest()
	root := s.workspaceOf(Node, dir)
	n.findManager(root, ok)
	if n.deps["typescript"] || s.hasFile(dir, "tsconfig.json") {
		n.Language = "typescript"
	}
	n.lintAndFormat()
	if !ok {
		return n.Project // the rest needs scripts and dependencies
	}
	n.detectTypecheck()
	n.detectTests()
	if n.scriptText("build") != "" {
		n.Build = n.command(manifest, n.runScript("build")...)
	}
	n.scriptFallbacks()
	n.declareMembers()
	if root != nil {
		inheritCommands(n.Project, root)
	}
	return n.Project
}

func (n *nodeProject) readManifest() {
	n.Name = n.manifest.stringAt("name")
	n.scripts = n.manifest.subtable("scripts")
	for _, key := range []string{"dependencies", "devDependencies", "peerDependencies", "optionalDependencies"} {
		for d := range n.manifest.subtable(key) {
			n.deps[d] = true
		}
	}
	for _, key := range []string{"scripts", "dependencies", "devDependencies"} {
		if n.manifest.hasKey(key) && n.manifest.subtable(key) == nil {
			n.warn(n.Proof, "%s is not an object", key)
		}
	}
}

func (n *nodeProject) scriptText(name string) string { return n.scripts.stringAt(name) }

// anyScript reports whether a script runs a program of that name.
func (n *nodeProject) anyScript(program string) bool {
	for name := range n.scripts {
		for _, words := range splitScript(n.scriptText(name)) {
			if rest, _ := unwrapCommand(words); len(rest) > 0 && path.Base(rest[0]) == program {
				return true
			}
		}
	}
	return false
}

// managers are the package managers, by name and by lock file.
var managers = []string{"bun", "pnpm", "yarn", "npm"}

var lockFiles = []struct{ file, manager string }{
	{"bun.lock", "bun"}, {"bun.lockb", "bun"}, {"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"},
	{"package-lock.json", "npm"}, {"npm-shrinkwrap.json", "npm"}, {"pnpm-workspace.yaml", "pnpm"},
}

func (n *nodeProject) findManager(root *Project, readable bool) {
	name, version, _ := strings.Cut(n.manifest.stringAt("packageManager"), "@")
	name = cmp.Or(name, n.manifest.stringAt("devEngines", "packageManager", "name"))
	if name != "" && !slices.Contains(managers, name) {
		n.warn(n.Proof, "packageManager %q is unknown; known are %s", name, strings.Join(managers, ", "))
		name = ""
	}
	proof := n.Proof
	for _, l := range lockFiles {
		if found := n.s.firstFile(n.Dir, l.file); found != "" && name == "" {
			name, proof = l.manager, found
		}
	}
	switch {
	case name == "" && root != nil && root.PackageManager != "":
		name, proof = root.PackageManager, root.PackageManagerProof
		n.berry = name == "yarn" && n.s.isBerry(root.Dir, "")
	case name == "yarn":
		n.berry = n.s.isBerry(n.Dir, version)
	case name == "" && readable:
		name = "npm"
	}
	if name == "" {
		return
	}
	n.PackageManager, n.PackageManagerProof = name, proof
	if root == nil {
		n.DepsDir = path.Join(n.Dir, n.depsName())
	}
	if readable && root == nil {
		n.Install = n.command(proof, name, "install")
	}
}

// isBerry distinguishes Yarn 2 and later from Yarn 1 by the pinned version, a configuration
// file that only Yarn 2 reads, or the format of the lock file.
func (s *scan) isBerry(dir, version string) bool {
	if version != "" {
		return !strings.HasPrefix(version, "1.") && version != "1" && version != "classic"
	}
	if s.hasFile(dir, ".yarnrc.yml") {
		return true
	}
	lock := s.firstFile(dir, "yarn.lock")
	if lock == "" {
		return false
	}
	data, err := s.read(lock)
	return err == nil && strings.Contains(string(data), "__metadata:")
}

// depsName returns the path that exists once dependencies are installed. Yarn 2 and later
// keeps them outside of node_modules unless configured otherwise.
func (n *nodeProject) depsName() string {
	if !n.berry {
		return "node_modules"
	}
	rc := n.s.firstFile(n.Dir, ".yarnrc.yml")
	if rc == "" {
		return ".pnp.cjs"
	}
	t, ok := n.s.loadTable(n.Project, rc, parseYAML)
	if linker := t.stringAt("nodeLinker"); !ok || linker != "" && linker != "pnp" {
		return "node_modules"
	}
	return ".pnp.cjs"
}

// execArgv returns the argv of a program from a dependency, without fetching it.
func (n *nodeProject) execArgv(tool string, args ...string) []string {
	var prefix []string
	switch n.PackageManager {
	case "bun":
		prefix = []string{"bunx", "--no-install"}
	case "pnpm":
		prefix = []string{"pnpm", "exec"}
	case "yarn":
		prefix = []string{"yarn", "run"}
		switch {
		case n.berry:
			prefix = []string{"yarn", "exec"}
		case n.scriptText(tool) != "": // Yarn 1 would run the script of that name instead
			prefix = []string{"npx", "--no-install"}
		}
	case "npm":
		prefix = []string{"npx", "--no-install"}
	default:
		return nil
	}
	return append(append(prefix, tool), args...)
}

func (n *nodeProject) runScript(name string) []string {
	if n.PackageManager == "" {
		return nil
	}
	return []string{n.PackageManager, "run", name}
}

func (n *nodeProject) lintAndFormat() {
	n.detectBiome()
	n.detectOxlint()
	n.detectESLint()
	n.detectPrettier()
}

func (n *nodeProject) detectBiome() {
	config := n.s.firstFile(n.Dir, "biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc")
	if config == "" {
		return
	}
	t, _ := n.s.loadTable(n.Project, config, parseJSONC)
	check := n.execArgv("biome", "check", "--no-errors-on-unmatched")
	write := n.execArgv("biome", "check", "--write", "--no-errors-on-unmatched")
	if t.valueAt("linter", "enabled") != false {
		n.Lint = n.filesOf(config, biomeFiles, check)
	}
	if t.valueAt("formatter", "enabled") != false {
		n.Format = n.filesOf(config, biomeFiles, write)
	}
}

// filesOf returns a command that takes files, or "." for all.
func (n *nodeProject) filesOf(proof string, match, argv []string) Command {
	if argv == nil {
		return Command{}
	}
	return n.command(proof, append(slices.Clone(argv), Files)...).matching(match).withWhole(append(slices.Clone(argv), ".")...)
}

func (n *nodeProject) detectOxlint() {
	config := n.s.firstFile(n.Dir, ".oxlintrc.json", ".oxlintrc.jsonc", "oxlintrc.json", "oxlint.config.ts")
	if config == "" || !n.Lint.IsZero() {
		return
	}
	var args []string
	switch base := path.Base(config); {
	case base == "oxlintrc.json": // not a default name
		args = []string{"-c", base}
	case strings.Contains(base, ".json"):
		n.s.loadTable(n.Project, config, parseJSONC)
	}
	n.Lint = n.filesOf(config, pageFiles, n.execArgv("oxlint", args...))
}

func (n *nodeProject) detectESLint() {
	config := n.s.firstFile(n.Dir, eslintNames...)
	if config == "" && n.manifest.hasKey("eslintConfig") {
		config = n.Proof
	}
	if config == "" || !n.Lint.IsZero() {
		return
	}
	if strings.HasSuffix(config, ".json") && config != n.Proof {
		n.s.loadTable(n.Project, config, parseJSONC)
	}
	n.Lint = n.filesOf(config, pageFiles, n.execArgv("eslint"))
}

func (n *nodeProject) detectPrettier() {
	config := n.s.firstFile(n.Dir, prettierNames...)
	if config == "" && (n.manifest.hasKey("prettier") || n.deps["prettier"] && n.anyScript("prettier")) {
		config = n.Proof // it needs no configuration
	}
	if config == "" || !n.Format.IsZero() {
		return
	}
	switch path.Base(config) {
	case ".prettierrc", ".prettierrc.yml", ".prettierrc.yaml", ".prettierrc.json":
		n.s.loadTable(n.Project, config, parseYAML) // JSON is valid YAML
	case ".prettierrc.toml":
		n.s.loadTable(n.Project, config, parseTOML)
	}
	// Prettier ignores unknown files itself; plugins add types.
	n.Format = n.filesOf(config, nil, n.execArgv("prettier", "--write", "--ignore-unknown"))
}

func (n *nodeProject) detectTypecheck() {
	for _, name := range []string{"typecheck", "type-check", "check-types", "check:types", "types:check"} {
		if n.scriptText(name) != "" {
			n.Typecheck = n.command(n.Proof, n.runScript(name)...).matching(pageFiles)
			return
		}
	}
	config := n.s.firstFile(n.Dir, "tsconfig.json")
	if config == "" {
		return
	}
	t, ok := n.s.loadTable(n.Project, config, parseJSONC)
	if !ok {
		return
	}
	tool, args := "tsc", []string{"--noEmit"}
	if n.deps["vue-tsc"] {
		tool = "vue-tsc"
	}
	// A configuration with only references checks nothing without --build.
	files, isList := t.valueAt("files").([]any)
	if t.hasKey("references") && isList && len(files) == 0 {
		args = []string{"--build"}
	}
	n.Typecheck = n.command(config, n.execArgv(tool, args...)...).matching(pageFiles)
}

// scriptFallbacks uses the project's own scripts if no tool was detected.
func (n *nodeProject) scriptFallbacks() {
	if n.Lint.IsZero() && n.scriptText("lint") != "" {
		n.Lint = n.command(n.Proof, n.runScript("lint")...).matching(pageFiles)
	}
	for _, name := range []string{"format", "fmt"} {
		if n.Format.IsZero() && n.scriptText(name) != "" {
			n.Format = n.command(n.Proof, n.runScript(name)...)
		}
	}
}

func (n *nodeProject) declareMembers() {
	patterns := n.manifest.stringsAt("workspaces")
	if patterns == nil {
		patterns = n.manifest.stringsAt("workspaces", "packages")
	}
	if file := n.s.firstFile(n.Dir, "pnpm-workspace.yaml"); file != "" {
		if t, ok := n.s.loadTable(n.Project, file, parseYAML); ok {
			patterns = t.stringsAt("packages")
		}
	}
	n.s.declareMembers(n.Project, "package.json", patterns)
}
