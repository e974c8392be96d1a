package toolchain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
)

// layout makes files below a home; a name that ends in / is a directory, and content that
// begins with -> a symlink.
func layout(t *testing.T, files map[string]string) string {
	t.Helper()
	home := t.TempDir()
	for name, content := range files {
		path := filepath.Join(home, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func noEnv(string) string { return "" }

// find looks for one toolchain, and returns its directories and PATH below the home.
func find(t *testing.T, home, project string, getenv func(string) string, name string) (dirs, path []string, found []Toolchain) {
	t.Helper()
	found, err := Find(Options{Home: home, Project: project, Getenv: getenv}, name)
	if err != nil {
		t.Fatal(err)
	}
	rel := func(p string) string {
		r, err := filepath.Rel(home, p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, d := range Dirs(found) {
		dirs = append(dirs, rel(d))
	}
	for _, f := range found {
		for _, p := range f.Path {
			path = append(path, rel(p))
		}
	}
	return dirs, path, found
}

func TestProfiles(t *testing.T) {
	for _, tt := range []struct {
		name       string
		files      map[string]string
		dirs, path []string
	}{
		{"nvm", map[string]string{".nvm/versions/node/v9.1.0/bin/node": "", ".nvm/versions/node/v20.11.1/bin/node": "", ".nvm/versions/node/v22.1.0/bin/node": "", ".nvm/alias/default": "lts/iron\n", ".nvm/alias/lts/iron": "v20.11.1\n"},
			[]string{".nvm/versions/node"}, []string{".nvm/versions/node/v20.11.1/bin"}},
		{"fnm", map[string]string{".local/share/fnm/node-versions/v18.0.0/installation/bin/node": "", ".local/share/fnm/node-versions/v20.0.0/installation/bin/node": "", ".local/share/fnm/aliases/default": "-> ../node-versions/v18.0.0/installation"},
			[]string{".local/share/fnm/node-versions"}, []string{".local/share/fnm/node-versions/v18.0.0/installation/bin"}},
		{"volta", map[string]string{".volta/tools/image/node/18.0.0/bin/node": "", ".volta/tools/image/node/20.0.0/bin/node": "", ".volta/tools/image/yarn/1.22.0/bin/yarn": "", ".volta/tools/user/platform.json": `{"node":{"runtime":"18.0.0","npm":null},"yarn":"1.22.0"}`, ".volta/hooks.json": "{}"},
			[]string{".volta/tools/image"}, []string{".volta/tools/image/yarn/1.22.0/bin", ".volta/tools/image/node/18.0.0/bin"}},
		{"pyenv", map[string]string{".pyenv/versions/3.9.18/bin/python3": "", ".pyenv/versions/3.12.1/bin/python3": "", ".pyenv/version": "3.9.18\n", ".pyenv/shims/python3": ""},
			[]string{".pyenv/versions"}, []string{".pyenv/versions/3.9.18/bin"}},
		{"uv", map[string]string{".local/bin/uv": "", ".local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu/bin/python3": "", ".local/share/uv/credentials/x": "token"},
			[]string{".local/bin", ".local/share/uv/python"}, []string{".local/bin", ".local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu/bin"}},
		{"rust", map[string]string{".rustup/toolchains/stable/bin/rustc": "", ".cargo/bin/cargo": "", ".cargo/credentials.toml": "token"},
			[]string{".rustup", ".cargo/bin"}, []string{".cargo/bin"}},
		{"sdkman", map[string]string{".sdkman/candidates/java/21.0.1-tem/bin/java": "", ".sdkman/candidates/java/current": "-> 21.0.1-tem", ".sdkman/candidates/kotlin/2.0.0/bin/kotlinc": ""},
			[]string{".sdkman/candidates"}, []string{".sdkman/candidates/java/current/bin"}},
		{"mise", map[string]string{".local/share/mise/installs/node/20.1.0/bin/node": "", ".local/share/mise/installs/node/9.0.0/bin/node": "", ".local/share/mise/installs/node/latest": "-> 20.1.0"},
			[]string{".local/share/mise/installs"}, []string{".local/share/mise/installs/node/20.1.0/bin"}},
		{"asdf", map[string]string{".asdf/installs/golang/1.22.0/go/bin/go": "", ".asdf/installs/golang/1.21.0/go/bin/go": "", ".tool-versions": "golang 1.21.0\n"},
			[]string{".asdf/installs"}, []string{".asdf/installs/golang/1.21.0/go/bin"}},
		{"go", map[string]string{"sdk/go1.9.1/bin/go": "", "sdk/go1.25.0/bin/go": "", "go/bin/gopls": ""},
			[]string{"sdk", "go/bin"}, []string{"sdk/go1.25.0/bin", "go/bin"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dirs, path, _ := find(t, layout(t, tt.files), "", noEnv, tt.name)
			if diff := cmp.Diff(tt.dirs, dirs); diff != "" {
				t.Errorf("directories (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.path, path); diff != "" {
				t.Errorf("PATH (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProjectChoosesTheVersion(t *testing.T) {
	home := layout(t, map[string]string{
		".nvm/versions/node/v18.2.0/bin/": "", ".nvm/versions/node/v18.10.0/bin/": "", ".nvm/versions/node/v20.0.0/bin/": "", ".nvm/alias/default": "20",
		".pyenv/versions/3.9.18/bin/": "", ".pyenv/versions/3.12.1/bin/": "",
		".asdf/installs/ruby/3.1.0/bin/": "", ".asdf/installs/ruby/3.3.0/bin/": "", ".tool-versions": "ruby 3.3.0",
	})
	project := layout(t, map[string]string{".nvmrc": "18 # the long-term one\n", ".python-version": "3.9\n", ".tool-versions": "ruby 3.1.0\n"})
	for name, want := range map[string]string{
		"nvm": ".nvm/versions/node/v18.10.0/bin", "pyenv": ".pyenv/versions/3.9.18/bin", "asdf": ".asdf/installs/ruby/3.1.0/bin",
	} {
		if _, path, _ := find(t, home, project, noEnv, name); !cmp.Equal(path, []string{want}) {
			t.Errorf("%s: got %v, want %s", name, path, want)
		}
	}
	// Without a file of the project, what is on PATH.
	onPath := func(name string) string {
		if name == "PATH" {
			return "/usr/bin:" + filepath.Join(home, ".nvm/versions/node/v18.2.0/bin")
		}
		return ""
	}
	if _, path, _ := find(t, home, "", onPath, "nvm"); !cmp.Equal(path, []string{".nvm/versions/node/v18.2.0/bin"}) {
		t.Errorf("on PATH: got %v", path)
	}
}

func TestCaches(t *testing.T) {
	home := layout(t, map[string]string{
		".cache/go-build/": "", "go/pkg/mod/": "", ".npm/_cacache/": "", ".npm/_logs/": "", ".cache/pip/": "", ".cache/uv/": "", ".local/bin/uv": "", ".cargo/registry/": "", ".gradle/caches/": "", ".gradle/gradle.properties": "token", ".ccache/": "",
	})
	found, err := Find(Options{Home: home, Getenv: noEnv}, Auto)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range Caches(found) {
		rel, _ := filepath.Rel(home, c.Dir)
		got[rel] = c.Var
		if c.Home != "" && !paths.Inside(c.Home, c.Dir) {
			t.Errorf("%s is not in its home %s", c.Dir, c.Home)
		}
	}
	want := map[string]string{
		".cache/go-build": "GOCACHE", "go/pkg/mod": "GOMODCACHE", ".npm/_cacache": "npm_config_cache", ".cache/pip": "PIP_CACHE_DIR", ".cache/uv": "UV_CACHE_DIR",
		".cargo/registry": "CARGO_HOME", ".gradle/caches": "GRADLE_USER_HOME", ".ccache": "CCACHE_DIR",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	elsewhere := func(name string) string {
		return map[string]string{"GOCACHE": "/var/cache/go", "GOMODCACHE": filepath.Join(home, "mods")}[name]
	}
	if found, err = Find(Options{Home: home, Getenv: elsewhere}, "go"); err == nil || len(found) > 0 {
		t.Errorf("caches elsewhere: got %v, %v", found, err)
	}
}

func TestNames(t *testing.T) {
	home := layout(t, map[string]string{".cargo/bin/": ""})
	for _, tt := range []struct {
		names []string
		code  fault.Code
		text  string
	}{
		{[]string{"rusty"}, fault.InvalidArgument, "the toolchains are go, nvm,"},
		{[]string{"auto", "go"}, fault.InvalidArgument, "it stands alone"},
		{[]string{"nvm"}, fault.NotFound, "nothing of it is below " + home},
	} {
		_, err := Find(Options{Home: home, Getenv: noEnv}, tt.names...)
		if fault.Of(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%v: got %v", tt.names, err)
		}
	}
	for _, names := range [][]string{nil, {"none"}} {
		if found, err := Find(Options{Home: home, Getenv: noEnv}, names...); err != nil || found != nil {
			t.Errorf("%v: got %v, %v", names, found, err)
		}
	}
}

func TestCredentialFiles(t *testing.T) {
	dir := layout(t, map[string]string{
		"v20/etc/npmrc": "//registry/:_authToken=x", "v20/lib/node_modules/npm/npmrc": "x", "maven/3.9.9/conf/settings.xml": "<password>x", "v3.12/pip.conf": "x", "a/NuGet.Config": "x",
		"link/npmrc": "-> ../real", "real": "token", "out/.npmrc": "-> /etc/hostname", "v3.12/lib/python3.12/site-packages/x/settings.xml": "no settings", "a/README": "",
	})
	want := map[string]string{
		"v20/etc/npmrc": "", "v20/lib/node_modules/npm/npmrc": "", "maven/3.9.9/conf/settings.xml": "<settings/>\n", "v3.12/pip.conf": "", "a/NuGet.Config": "<configuration/>\n", "real": "",
	}
	if diff := cmp.Diff(want, CredentialFiles(dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
