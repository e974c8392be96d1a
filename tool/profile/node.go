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

// A node is a project with a package.json while it is being looked at.
type node struct {
	*Project
	s        *scan
	manifest table
	scripts  table
	deps     map[string]bool
	berry    bool // Yarn 2 or later
}

func detectNode(s *scan, dir string) *Project {
	manifest := s.first(dir, "package.json")
	if manifest == "" {
		return nil
	}
	n := &node{s: s, Project: &Project{Dir: dir, Ecosystem: Node, Language: "javascript", Proof: manifest}, deps: map[string]bool{}}
	m, ok := s.load(n.Project, manifest, parseJSON)
	n.manifest = m
	n.readManifest()
	root := s.workspaceOf(Node, dir)
	n.findManager(root, ok)
	if n.deps["typescript"] || s.has(dir, "tsconfig.json") {
		n.Language = "typescript"
	}
	n.lintAndFormat()
	if !ok {
		return n.Project // without its scripts and dependencies the rest would be guesses
	}
	n.typecheck()
	n.tests()
	if n.script("build") != "" {
		n.Build = n.at(manifest, n.runScript("build")...)
	}
	n.scriptFallbacks()
	n.declareMembers()
	if root != nil {
		inherit(n.Project, root)
	}
	return n.Project
}

func (n *node) readManifest() {
	n.Name = n.manifest.text("name")
	n.scripts = n.manifest.table("scripts")
	for _, key := range []string{"dependencies", "devDependencies", "peerDependencies", "optionalDependencies"} {
		for d := range n.manifest.table(key) {
			n.deps[d] = true
		}
	}
	for _, key := range []string{"scripts", "dependencies", "devDependencies"} {
		if n.manifest.has(key) && n.manifest.table(key) == nil {
			n.warn(n.Proof, "%s is not an object", key)
		}
	}
}

func (n *node) script(name string) string { return n.scripts.text(name) }

// anyScript reports whether a script runs a program of that name.
func (n *node) anyScript(program string) bool {
	for name := range n.scripts {
		for _, words := range splitScript(n.script(name)) {
			if rest, _ := unwrap(words); len(rest) > 0 && path.Base(rest[0]) == program {
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

func (n *node) findManager(root *Project, readable bool) {
	name, version, _ := strings.Cut(n.manifest.text("packageManager"), "@")
	name = cmp.Or(name, n.manifest.text("devEngines", "packageManager", "name"))
	if name != "" && !slices.Contains(managers, name) {
		n.warn(n.Proof, "packageManager %q is none of %s", name, strings.Join(managers, ", "))
		name = ""
	}
	proof := n.Proof
	for _, l := range lockFiles {
		if found := n.s.first(n.Dir, l.file); found != "" && name == "" {
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
		n.Install = n.at(proof, name, "install")
	}
}

// isBerry tells Yarn 2 and later from Yarn 1 by the version that the manifest
// pins, the configuration only the later one reads, or the form of the lock file.
func (s *scan) isBerry(dir, version string) bool {
	if version != "" {
		return !strings.HasPrefix(version, "1.") && version != "1" && version != "classic"
	}
	if s.has(dir, ".yarnrc.yml") {
		return true
	}
	lock := s.first(dir, "yarn.lock")
	if lock == "" {
		return false
	}
	data, err := s.read(lock)
	return err == nil && strings.Contains(string(data), "__metadata:")
}

// depsName returns what exists once dependencies are installed. Yarn 2 and
// later keeps them outside of node_modules unless it is told otherwise.
func (n *node) depsName() string {
	if !n.berry {
		return "node_modules"
	}
	rc := n.s.first(n.Dir, ".yarnrc.yml")
	if rc == "" {
		return ".pnp.cjs"
	}
	t, ok := n.s.load(n.Project, rc, parseYAML)
	if linker := t.text("nodeLinker"); !ok || linker != "" && linker != "pnp" {
		return "node_modules"
	}
	return ".pnp.cjs"
}

// exec returns argv for a program that a dependency brings, never fetching it.
func (n *node) exec(tool string, args ...string) []string {
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
		case n.script(tool) != "": // Yarn 1 would run the script of that name instead
			prefix = []string{"npx", "--no-install"}
		}
	case "npm":
		prefix = []string{"npx", "--no-install"}
	default:
		return nil
	}
	return append(append(prefix, tool), args...)
}

func (n *node) runScript(name string) []string {
	if n.PackageManager == "" {
		return nil
	}
	return []string{n.PackageManager, "run", name}
}

func (n *node) lintAndFormat() {
	n.biome()
	n.oxlint()
	n.eslint()
	n.prettier()
}

func (n *node) biome() {
	config := n.s.first(n.Dir, "biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc")
	if config == "" {
		return
	}
	t, _ := n.s.load(n.Project, config, parseJSONC)
	check := n.exec("biome", "check", "--no-errors-on-unmatched")
	write := n.exec("biome", "check", "--write", "--no-errors-on-unmatched")
	if t.at("linter", "enabled") != false {
		n.Lint = n.filesOf(config, biomeFiles, check)
	}
	if t.at("formatter", "enabled") != false {
		n.Format = n.filesOf(config, biomeFiles, write)
	}
}

// filesOf makes a command that takes files, or "." for all.
func (n *node) filesOf(proof string, match, argv []string) Command {
	if argv == nil {
		return Command{}
	}
	return n.at(proof, append(slices.Clone(argv), Files)...).on(match).whole(append(slices.Clone(argv), ".")...)
}

func (n *node) oxlint() {
	config := n.s.first(n.Dir, ".oxlintrc.json", ".oxlintrc.jsonc", "oxlintrc.json", "oxlint.config.ts")
	if config == "" || !n.Lint.IsZero() {
		return
	}
	var args []string
	switch base := path.Base(config); {
	case base == "oxlintrc.json": // not a name it looks for by itself
		args = []string{"-c", base}
	case strings.Contains(base, ".json"):
		n.s.load(n.Project, config, parseJSONC)
	}
	n.Lint = n.filesOf(config, pageFiles, n.exec("oxlint", args...))
}

func (n *node) eslint() {
	config := n.s.first(n.Dir, eslintNames...)
	if config == "" && n.manifest.has("eslintConfig") {
		config = n.Proof
	}
	if config == "" || !n.Lint.IsZero() {
		return
	}
	if strings.HasSuffix(config, ".json") && config != n.Proof {
		n.s.load(n.Project, config, parseJSONC)
	}
	n.Lint = n.filesOf(config, pageFiles, n.exec("eslint"))
}

func (n *node) prettier() {
	config := n.s.first(n.Dir, prettierNames...)
	if config == "" && (n.manifest.has("prettier") || n.deps["prettier"] && n.anyScript("prettier")) {
		config = n.Proof // it works without a configuration
	}
	if config == "" || !n.Format.IsZero() {
		return
	}
	switch path.Base(config) {
	case ".prettierrc", ".prettierrc.yml", ".prettierrc.yaml", ".prettierrc.json":
		n.s.load(n.Project, config, parseYAML) // JSON is YAML too
	case ".prettierrc.toml":
		n.s.load(n.Project, config, parseTOML)
	}
	// Prettier knows best which files it can write; plugins add to them.
	n.Format = n.filesOf(config, nil, n.exec("prettier", "--write", "--ignore-unknown"))
}

func (n *node) typecheck() {
	for _, name := range []string{"typecheck", "type-check", "check-types", "check:types", "types:check"} {
		if n.script(name) != "" {
			n.Typecheck = n.at(n.Proof, n.runScript(name)...).on(pageFiles)
			return
		}
	}
	config := n.s.first(n.Dir, "tsconfig.json")
	if config == "" {
		return
	}
	t, ok := n.s.load(n.Project, config, parseJSONC)
	if !ok {
		return
	}
	tool, args := "tsc", []string{"--noEmit"}
	if n.deps["vue-tsc"] {
		tool = "vue-tsc"
	}
	// A configuration with nothing but references checks nothing unless it is built.
	files, isList := t.at("files").([]any)
	if t.has("references") && isList && len(files) == 0 {
		args = []string{"--build"}
	}
	n.Typecheck = n.at(config, n.exec(tool, args...)...).on(pageFiles)
}

// scriptFallbacks takes the project's own scripts where no tool was recognised.
func (n *node) scriptFallbacks() {
	if n.Lint.IsZero() && n.script("lint") != "" {
		n.Lint = n.at(n.Proof, n.runScript("lint")...).on(pageFiles)
	}
	for _, name := range []string{"format", "fmt"} {
		if n.Format.IsZero() && n.script(name) != "" {
			n.Format = n.at(n.Proof, n.runScript(name)...)
		}
	}
}

func (n *node) declareMembers() {
	patterns := n.manifest.list("workspaces")
	if patterns == nil {
		patterns = n.manifest.list("workspaces", "packages")
	}
	if file := n.s.first(n.Dir, "pnpm-workspace.yaml"); file != "" {
		if t, ok := n.s.load(n.Project, file, parseYAML); ok {
			patterns = t.list("packages")
		}
	}
	n.s.declare(n.Project, "package.json", patterns)
}
