package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
)

// A nodePackage is a package.json of the workspace.
type nodePackage struct {
	Name    string
	Main    string
	Module  string
	Source  string
	Exports any

	Dependencies, DevDependencies, PeerDependencies, OptionalDependencies map[string]any

	dir string
}

func (p *nodePackage) dependsOn(name string) bool {
	for _, m := range []map[string]any{p.Dependencies, p.DevDependencies, p.PeerDependencies, p.OptionalDependencies} {
		if _, ok := m[name]; ok {
			return true
		}
	}
	return false
}

// readPackages reads the package.json files below a directory, and Mocha's configurations.
func (g *importGraph) readPackages(ctx context.Context, ws *workspace.Workspace) error {
	const manifests = "**/{package.json,.mocharc.json,.mocharc.jsonc,.mocharc.yml,.mocharc.yaml}"
	res, err := ws.Glob(ctx, manifests, &workspace.GlobOptions{Path: g.dir, GitIgnore: true, Limit: maxSources})
	if err != nil {
		return err
	}
	for _, e := range res.Entries {
		data, err := ws.ReadFileMax(ctx, e.Path, maxSource)
		if err != nil || strings.Contains("/"+e.Path, "/node_modules/") {
			continue // removed meanwhile
		}
		if path.Base(e.Path) != "package.json" {
			g.configs = append(g.configs, runnerConfig{path.Dir(e.Path), string(data)})
			continue
		}
		p := &nodePackage{dir: path.Dir(e.Path)}
		var keys map[string]json.RawMessage
		if json.Unmarshal(data, &keys) != nil {
			continue
		}
		_ = json.Unmarshal(data, p) // a key of a wrong type is left out
		g.packages = append(g.packages, p)
		for _, key := range []string{"scripts", "jest", "mocha", "ava", "vitest"} {
			g.configs = append(g.configs, runnerConfig{p.dir, string(keys[key])})
		}
	}
	// The longest name first.
	slices.SortFunc(g.packages, func(a, b *nodePackage) int { return cmp.Or(len(b.Name)-len(a.Name), strings.Compare(a.dir, b.dir)) })
	return nil
}

// A runnerConfig is text that configures a test runner.
type runnerConfig struct{ dir, text string }

// packageOf returns the innermost package of a file, nil if there is none.
func (g *importGraph) packageOf(file string) *nodePackage {
	var best *nodePackage
	for _, p := range g.packages {
		if paths.InsideName(p.dir, file) && (best == nil || paths.InsideName(best.dir, p.dir)) {
			best = p
		}
	}
	return best
}

var (
	scriptExts = []string{".js", ".ts", ".tsx", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte"}

	nodeImport = lazyregexp.New(`(?m)(?:\bfrom\s*|\bimport\s*\(?\s*(?:/\*.*?\*/\s*)?|\brequire\s*\(\s*|` +
		`\b(?:mock|unmock|doMock|requireActual|importActual|requireMock|importMock|resolve|URL)\s*\(\s*)["']([^"'\n]+)["']`)

	// nodeDynamic matches an import whose target is computed.
	nodeDynamic = lazyregexp.New("\\brequire\\s*\\(\\s*[^\"'\\s)]|\\bimport\\s*\\(\\s*(?:/\\*.*?\\*/\\s*)?[^\"'\\s/)]|" +
		"\\brequire\\.context\\s*\\(|\\bimport\\.meta\\.glob\\w*\\s*\\(")

	nodeData = lazyregexp.New(`\.(?:json5?|css|s[ac]ss|less|styl|svg|png|jpe?g|gif|webp|avif|ico|woff2?|ttf|` +
		`html?|mdx?|txt|ya?ml|toml|graphql|gql|wasm|node|sql|csv|pem)$`)
	nodeBuilt = lazyregexp.New(`(?:^|/)(?:dist|build|out)/`)

	// nodeConfig matches files by which a runner is configured: what they import, all tests do.
	nodeConfig = lazyregexp.New(`(?:^|/)(?:(?:vitest|vite|jest|ava)\.[\w.]*|\.mocharc\.\w+)$`)
)

// nodeBuiltins are modules of Node without the prefix "node:".
var nodeBuiltins = strings.Fields("assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain " +
	"events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl stream string_decoder " +
	"sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib")

func (g *importGraph) readNode(name string, data []byte) {
	if nodeConfig.MatchString(name) {
		g.configs = append(g.configs, runnerConfig{path.Dir(name), string(data)})
	}
	for _, m := range nodeImport.FindAllSubmatch(data, -1) {
		target, _, _ := strings.Cut(string(m[1]), "?") // of a bundler
		if strings.HasPrefix(target, ".") {
			g.addRelative(name, target)
		} else if !strings.Contains(target, ":") {
			g.addBare(name, target)
		}
	}
	if nodeDynamic.Match(data) {
		g.addUnknown(name)
	}
}

// addRelative adds an import of a path. One of a file that is not there, because it is
// generated or built, is one of all the package.
func (g *importGraph) addRelative(name, target string) {
	base := path.Join(path.Dir(name), target)
	found := g.scriptAt(base)
	for _, f := range found {
		g.addFound(name, f)
	}
	switch {
	case len(found) > 0:
	case nodeData.MatchString(base):
		g.addImport(name, base)
	default:
		g.addPackage(name, g.packageOf(base))
	}
}

// addFound adds an import of a file. What a built file was built from is not known.
func (g *importGraph) addFound(name, found string) {
	g.addImport(name, found)
	if nodeBuilt.MatchString(found) {
		g.addPackage(name, g.packageOf(found))
	}
}

// scriptAt returns the files that an import of a path may mean: the file, with another
// extension, or the index or the main file of a directory.
func (g *importGraph) scriptAt(base string) []string {
	var out []string
	add := func(file string) {
		if g.files[file] && !slices.Contains(out, file) {
			out = append(out, file)
		}
	}
	add(base)
	stems := []string{base, path.Join(base, "index")}
	if ext := path.Ext(base); slices.Contains(scriptExts, ext) { // "./x.js" may be x.ts
		stems = append(stems, strings.TrimSuffix(base, ext))
	}
	for _, stem := range stems {
		for _, ext := range scriptExts {
			add(stem + ext)
		}
	}
	for _, p := range g.packages {
		if p.dir == base && p.Main != "" {
			for _, f := range g.scriptAt(path.Join(base, p.Main)) {
				add(f)
			}
		}
	}
	return out
}

// addBare adds an import by a name: of a package of the workspace, by an alias, or of a
// directory that a configuration names. One of another package is none.
func (g *importGraph) addBare(name, target string) {
	for _, p := range g.packages {
		sub, ok := strings.CutPrefix(target, p.Name)
		if p.Name == "" || !ok || sub != "" && sub[0] != '/' {
			continue
		}
		found := g.entries(p, sub)
		for _, f := range found {
			g.addFound(name, f)
		}
		if len(found) == 0 {
			g.addPackage(name, p)
		}
		return
	}
	first, rest, _ := strings.Cut(target, "/")
	alias := strings.HasPrefix(target, "#") || first == "@" || strings.HasPrefix(target, "~")
	module := first
	if strings.HasPrefix(first, "@") && !alias {
		second, _, _ := strings.Cut(rest, "/")
		module += "/" + second
	}
	switch {
	case !alias && slices.Contains(nodeBuiltins, module):
		return
	case !alias && slices.ContainsFunc(g.packages, func(p *nodePackage) bool { return paths.InsideName(p.dir, name) && p.dependsOn(module) }):
		return
	}
	var found []string
	if alias {
		found = g.filesEnding(strings.TrimLeft(rest, "/"))
		found = append(found, g.filesEnding(strings.TrimLeft(target, "#~@/"))...)
	} else {
		found = g.filesEnding(target)
	}
	for _, f := range found {
		g.addFound(name, f)
	}
	if alias && len(found) == 0 {
		g.addUnknown(name)
	}
}

// entries returns the files that a package of the workspace, or a path in it, stands for.
func (g *importGraph) entries(p *nodePackage, sub string) []string {
	var targets []string
	if sub == "" {
		targets = []string{p.Main, p.Module, p.Source, "index"}
	} else {
		targets = []string{sub}
	}
	byPath, isMap := p.Exports.(map[string]any)
	if isMap && slices.ContainsFunc(slices.Collect(maps.Keys(byPath)), func(k string) bool { return strings.HasPrefix(k, ".") }) {
		for key, v := range byPath {
			before, after, star := strings.Cut(key, "*")
			at := "." + sub
			switch {
			case key == at:
				targets = append(targets, allStrings(v)...)
			case star && strings.HasPrefix(at, before) && strings.HasSuffix(at, after) && len(at) >= len(before)+len(after):
				for _, s := range allStrings(v) {
					targets = append(targets, strings.ReplaceAll(s, "*", at[len(before):len(at)-len(after)]))
				}
			}
		}
	} else if sub == "" {
		targets = append(targets, allStrings(p.Exports)...)
	}
	var out []string
	for _, t := range targets {
		if t == "" || strings.HasSuffix(t, ".d.ts") {
			continue
		}
		for _, f := range g.scriptAt(path.Join(p.dir, t)) {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// allStrings returns the strings in a JSON value.
func allStrings(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, x := range v {
			out = append(out, allStrings(x)...)
		}
		return out
	case map[string]any:
		var out []string
		for _, x := range v {
			out = append(out, allStrings(x)...)
		}
		return out
	}
	return nil
}

// filesEnding returns the files at the end of whose path a path without extension is.
func (g *importGraph) filesEnding(target string) []string {
	target = strings.Trim(target, "/")
	if target == "" {
		return nil
	}
	if g.byStem == nil {
		g.byStem = map[string][]string{}
		for f := range g.files {
			g.byStem[path.Base(scriptStem(f))] = append(g.byStem[path.Base(scriptStem(f))], f)
		}
	}
	stem := scriptStem(target)
	var out []string
	for _, f := range g.byStem[path.Base(stem)] {
		if s := scriptStem(f); s == stem || strings.HasSuffix(s, "/"+stem) {
			out = append(out, f)
		}
	}
	return out
}

// scriptStem returns a path without its extension, and without "index" or "__init__".
func scriptStem(file string) string {
	if ext := path.Ext(file); ext == ".py" || slices.Contains(scriptExts, ext) {
		file = strings.TrimSuffix(file, ext)
	}
	return strings.TrimSuffix(strings.TrimSuffix(file, "/index"), "/__init__")
}

// allOf ends the name of the node that imports all sources of a package.
const allOf = " [all]"

// addPackage adds an import of all sources of a package.
func (g *importGraph) addPackage(name string, p *nodePackage) {
	if p == nil {
		p = &nodePackage{dir: g.dir}
	}
	node := p.dir + allOf
	if _, ok := g.importers[node]; !ok {
		for f := range g.files {
			if q := g.packageOf(f); q == p || q != nil && q.dir == p.dir || q == nil && p.dir == g.dir {
				g.addImport(node, f)
			}
		}
	}
	g.addImport(name, node)
}

// addUnknown adds an import of something in the package of a file, or in those that it
// depends on.
func (g *importGraph) addUnknown(name string) {
	own := g.packageOf(name)
	g.addPackage(name, own)
	for _, p := range g.packages {
		if own != nil && p.Name != "" && p != own && own.dependsOn(p.Name) {
			g.addPackage(name, p)
		}
	}
}

// isConfigured reports whether the configuration of a runner is a file, imports it or names
// it, so that the runner may load it for every test.
func (g *importGraph) isConfigured(file string) bool {
	if nodeConfig.MatchString(file) || path.Base(file) == "package.json" || strings.HasPrefix(path.Base(file), ".mocharc.") {
		return true
	}
	for _, c := range g.configs {
		if rel := scriptStem(relativeTo(c.dir, file)); paths.InsideName(c.dir, file) {
			has := func(s string) bool { return strings.Contains(c.text, s) }
			if strings.Contains(rel, "/") && has(rel) || has("./"+rel) || has("<rootDir>/"+rel) {
				return true
			}
		}
	}
	return slices.ContainsFunc(g.importers[file], nodeConfig.MatchString)
}

// nodeRoot is the directory whose sources are read for a project: that of the outermost
// package around it, whose other packages may import its files.
func nodeRoot(p profile.Profile, q profile.Project) string {
	root := q.Dir
	for _, o := range p.Projects {
		if o.Ecosystem == profile.Node && paths.InsideName(o.Dir, root) {
			root = o.Dir
		}
	}
	return root
}
