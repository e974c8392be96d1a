package toolchain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/internal/paths"
)

// findGo finds the Go installation that is on PATH, those of golang.org/dl in ~/sdk, the
// programs of go install, and the caches.
func (f *finder) findGo(t *Toolchain) {
	env := f.goEnv()
	if program := f.lookPath("go"); program != "" {
		if real, err := filepath.EvalSymlinks(program); err == nil && paths.Inside(f.home, real) {
			t.addRoot(filepath.Dir(filepath.Dir(real)))
		}
	} else {
		t.addRoot(f.firstDir("GOROOT", ".local/go", ".go", "go-sdk"))
	}
	sdk := f.below("sdk")
	if v := f.chooseVersion(sdk, nil, nil); strings.HasPrefix(v, "go") {
		t.add(sdk)
		if len(t.Path) == 0 && f.lookPath("go") == "" {
			t.addPath(filepath.Join(sdk, v, "bin"))
		}
	}
	gopath := env("GOPATH")
	if gopath == "" {
		gopath = f.below("go")
	}
	gopath = filepath.SplitList(gopath)[0]
	if bin := filepath.Join(gopath, "bin"); paths.Inside(f.home, bin) {
		t.add(bin)
		t.addPath(bin)
	}
	modules, build := env("GOMODCACHE"), env("GOCACHE")
	if modules == "" {
		modules = filepath.Join(gopath, "pkg", "mod")
	}
	if build == "" {
		build = filepath.Join(f.cacheDir(), "go-build")
	}
	// The VCS cache has clones, whose configuration may have credentials in URLs.
	t.addCache(f.cacheBelow(Cache{Dir: modules, Var: "GOMODCACHE", Hide: []string{"cache/vcs"}, ReadOnly: true}))
	t.addCache(f.cacheBelow(Cache{Dir: build, Var: "GOCACHE"}))
}

// addRoot adds a Go installation.
func (t *Toolchain) addRoot(root string) {
	if root == "" {
		return
	}
	if _, err := os.Stat(filepath.Join(root, "bin", "go")); err == nil {
		t.add(root)
		t.addPath(filepath.Join(root, "bin"))
	}
}

// goEnv returns the settings of Go: variables, and what go env -w has written.
func (f *finder) goEnv() func(string) string {
	written := map[string]string{}
	config := f.getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = f.below(".config")
	}
	for _, words := range lines(filepath.Join(config, "go", "env")) {
		if k, v, ok := strings.Cut(words[0], "="); ok {
			written[k] = v
		}
	}
	return func(name string) string {
		if v := f.getenv(name); v != "" {
			return v
		}
		return written[name]
	}
}

// cacheDir returns the user's directory of caches.
func (f *finder) cacheDir() string {
	if dir := f.getenv("XDG_CACHE_HOME"); dir != "" {
		return dir
	}
	return f.below(".cache")
}

// cacheBelow returns c if it lies below the home, else no cache. A cache elsewhere may be
// shared with other users.
func (f *finder) cacheBelow(c Cache) Cache {
	if c.Dir == "" || c.Dir == "off" || !filepath.IsAbs(c.Dir) || !paths.Inside(f.home, c.Dir) || filepath.Clean(c.Dir) == f.home {
		return Cache{}
	}
	return c
}

func (f *finder) findNvm(t *Toolchain) {
	root := f.firstDir("NVM_DIR", ".nvm", ".config/nvm")
	if root == "" {
		return
	}
	versions := filepath.Join(root, "versions", "node")
	f.addNode(t, versions, "bin", nvmAlias(root, "default", 0))
}

// nvmAlias returns the versions that an alias of nvm stands for. An alias may name another.
func nvmAlias(root, name string, depth int) []string {
	const most = 5
	if depth > most || !filepath.IsLocal(name) {
		return nil
	}
	var list []string
	for _, words := range lines(filepath.Join(root, "alias", name)) {
		list = append(list, words[0])
		list = append(list, nvmAlias(root, words[0], depth+1)...)
	}
	return list
}

func (f *finder) findFnm(t *Toolchain) {
	root := f.firstDir("FNM_DIR", ".local/share/fnm", ".fnm")
	if root == "" {
		return
	}
	var defaults []string
	if target, err := os.Readlink(filepath.Join(root, "aliases", "default")); err == nil {
		defaults = []string{filepath.Base(filepath.Dir(target))} // .../node-versions/VERSION/installation
	}
	f.addNode(t, filepath.Join(root, "node-versions"), "installation/bin", defaults)
}

// addNode adds a directory of versions of Node, and the one that the project uses to PATH.
func (f *finder) addNode(t *Toolchain, versions, bin string, defaults []string) {
	if v := f.chooseVersion(versions, f.projectVersions(".nvmrc", ".node-version"), defaults); v != "" {
		t.add(versions)
		t.addPath(filepath.Join(versions, v, bin))
	}
}

// findVolta adds the programs of Volta themselves: its shims need to write to its home.
func (f *finder) findVolta(t *Toolchain) {
	root := f.firstDir("VOLTA_HOME", ".volta")
	if root == "" {
		return
	}
	type platform struct {
		Node any    `json:"node"` // {"runtime": VERSION} of the user, VERSION of a project
		Npm  string `json:"npm"`
		Pnpm string `json:"pnpm"`
		Yarn string `json:"yarn"`
	}
	var project struct {
		Volta platform `json:"volta"`
	}
	var user platform
	readJSON(filepath.Join(root, "tools", "user", "platform.json"), &user)
	if f.project != "" {
		readJSON(filepath.Join(f.project, "package.json"), &project)
	}
	image := filepath.Join(root, "tools", "image")
	for _, x := range []struct {
		tool         string
		wanted, user string
	}{
		{"npm", project.Volta.Npm, user.Npm}, {"pnpm", project.Volta.Pnpm, user.Pnpm},
		{"yarn", project.Volta.Yarn, user.Yarn}, {"node", voltaNode(project.Volta.Node), voltaNode(user.Node)},
	} {
		versions := filepath.Join(image, x.tool)
		if v := f.chooseVersion(versions, []string{x.wanted}, []string{x.user}); v != "" {
			t.add(image)
			t.addPath(filepath.Join(versions, v, "bin"))
		}
	}
}

func voltaNode(v any) string {
	if m, ok := v.(map[string]any); ok {
		v = m["runtime"]
	}
	text, _ := v.(string)
	return text
}

// readJSON reads a small file; v stays as it is if the file can't be read.
func readJSON(path string, v any) {
	const most = 1 << 20
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return
	}
	if data, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(data, v) // what can't be parsed names no version
	}
}

// findPyenv adds the versions of pyenv, without its shims: the version's own programs are on
// PATH.
func (f *finder) findPyenv(t *Toolchain) {
	root := f.firstDir("PYENV_ROOT", ".pyenv")
	if root == "" {
		return
	}
	versions := filepath.Join(root, "versions")
	var defaults []string
	for _, words := range lines(filepath.Join(root, "version")) {
		defaults = append(defaults, words...)
	}
	if v := f.chooseVersion(versions, f.projectVersions(".python-version"), defaults); v != "" {
		t.add(versions)
		t.addPath(filepath.Join(versions, v, "bin"))
	}
}

// findUv adds the Pythons and tools of uv, and the directory that uv itself is in. Versions
// are chosen by uv. Its cache is on another file system than the workspace, so that uv must
// copy instead of making hard links.
func (f *finder) findUv(t *Toolchain) {
	pythons := f.firstDir("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python")
	program := f.lookPath("uv")
	if program == "" {
		for _, dir := range []string{".local/bin", ".cargo/bin"} {
			if _, err := os.Stat(f.below(dir, "uv")); err == nil {
				program = f.below(dir, "uv")
			}
		}
	}
	if pythons == "" && (program == "" || !paths.Inside(f.home, program)) {
		return
	}
	if program != "" && paths.Inside(f.home, program) {
		t.add(filepath.Dir(program))
		t.addPath(filepath.Dir(program))
		t.Env["UV_LINK_MODE"] = "copy"
	}
	if tools := f.firstDir("UV_TOOL_DIR", ".local/share/uv/tools"); tools != "" {
		t.add(tools)
	}
	if pythons != "" {
		t.add(pythons)
		t.Env["UV_PYTHON_INSTALL_DIR"] = pythons
		if v := f.chooseVersion(pythons, f.projectVersions(".python-version"), nil); v != "" {
			t.addPath(filepath.Join(pythons, v, "bin"))
		}
	}
	t.addCache(f.cacheBelow(Cache{Dir: f.varOr("UV_CACHE_DIR", filepath.Join(f.cacheDir(), "uv")), Var: "UV_CACHE_DIR"}))
}

// varOr returns the value of a variable, or else def.
func (f *finder) varOr(name, def string) string {
	if v := f.getenv(name); v != "" {
		return v
	}
	return def
}

// findRust adds the toolchains of rustup, and of cargo's home the programs and the registry.
func (f *finder) findRust(t *Toolchain) {
	if rustup := f.firstDir("RUSTUP_HOME", ".rustup"); rustup != "" {
		t.add(rustup)
		t.Env["RUSTUP_HOME"] = rustup
	}
	cargo := f.firstDir("CARGO_HOME", ".cargo")
	if cargo == "" {
		return
	}
	bin := filepath.Join(cargo, "bin")
	t.add(bin)
	t.addPath(bin)
	t.addCache(Cache{Dir: filepath.Join(cargo, "registry"), Home: cargo, Var: "CARGO_HOME"})
}

func (f *finder) findSdkman(t *Toolchain) {
	root := f.firstDir("SDKMAN_DIR", ".sdkman")
	if root == "" {
		return
	}
	candidates := filepath.Join(root, "candidates")
	for _, tool := range versionsIn(candidates) {
		current := filepath.Join(candidates, tool, "current")
		if !isDir(current) {
			continue
		}
		t.add(candidates)
		t.addPath(filepath.Join(current, "bin"))
		if tool == "java" {
			t.Env["JAVA_HOME"] = current
		}
	}
}

func (f *finder) findMise(t *Toolchain) {
	if root := f.firstDir("MISE_DATA_DIR", ".local/share/mise"); root != "" {
		f.addInstalls(t, filepath.Join(root, "installs"))
	}
}

func (f *finder) findAsdf(t *Toolchain) {
	if root := f.firstDir("ASDF_DATA_DIR", ".asdf"); root != "" {
		f.addInstalls(t, filepath.Join(root, "installs"))
	}
}

// addInstalls adds a directory of installations, TOOL/VERSION, as mise and asdf have it.
// Their shims are not used: they need the settings of the user.
func (f *finder) addInstalls(t *Toolchain, installs string) {
	for _, tool := range versionsIn(installs) {
		versions := filepath.Join(installs, tool)
		v := f.chooseVersion(versions, f.toolVersions(tool), nil)
		if v == "" {
			continue
		}
		t.add(installs)
		for _, bin := range []string{"bin", "go/bin"} { // that of golang is go/bin
			if dir := filepath.Join(versions, v, bin); isDir(dir) {
				t.addPath(dir)
				break
			}
		}
	}
}

func (f *finder) findNpm(t *Toolchain) {
	if home := f.firstDir("npm_config_cache", ".npm"); home != "" {
		t.addCache(Cache{Dir: filepath.Join(home, "_cacache"), Home: home, Var: "npm_config_cache"})
	}
}

func (f *finder) findPip(t *Toolchain) {
	t.addCache(f.cacheBelow(Cache{Dir: f.varOr("PIP_CACHE_DIR", filepath.Join(f.cacheDir(), "pip")), Var: "PIP_CACHE_DIR"}))
}

// findGradle adds the caches and distributions of Gradle's home. Its settings, with
// gradle.properties, are not shown.
func (f *finder) findGradle(t *Toolchain) {
	home := f.firstDir("GRADLE_USER_HOME", ".gradle")
	if home == "" {
		return
	}
	for _, name := range []string{"caches", "wrapper/dists"} {
		t.addCache(Cache{Dir: filepath.Join(home, name), Home: home, Var: "GRADLE_USER_HOME"})
	}
}

// findCcache adds the cache of ccache, without its settings: they may name a remote cache
// with a password.
func (f *finder) findCcache(t *Toolchain) {
	dir := f.firstDir("CCACHE_DIR", ".cache/ccache", ".ccache")
	if dir != "" {
		t.addCache(Cache{Dir: dir, Var: "CCACHE_DIR", Hide: []string{"ccache.conf"}})
	}
}
