package toolchain

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/secret"
)

// A Toolchain is what a profile found.
type Toolchain struct {
	Name   string            // of the profile
	Dirs   []string          // directories with programs, to be shown read-only
	Path   []string          // entries of PATH, in Dirs
	Env    map[string]string // further variables
	Caches []Cache
}

// A Cache is a directory with downloaded packages or built files.
type Cache struct {
	Dir  string   // as on the host
	Home string   // the directory above it that the tool also writes to, if it does; that of the host is not shown
	Var  string   // variable that names Home, or Dir without one
	Hide []string // paths in Dir that are not shown

	// ReadOnly says that the tool can use the cache where it can't write.
	ReadOnly bool
}

// CacheVars are the variables that name a cache.
var CacheVars = []string{"GOCACHE", "GOMODCACHE", "npm_config_cache", "PIP_CACHE_DIR", "UV_CACHE_DIR", "CARGO_HOME", "GRADLE_USER_HOME", "CCACHE_DIR"}

// Options say where to look.
type Options struct {
	Home    string              // of the user; "" is that of this process
	Project string              // directory whose files choose versions, such as .nvmrc; "" for no project
	Getenv  func(string) string // environment of the user; nil is os.Getenv
}

// Auto stands for all profiles, None for no profile.
const (
	Auto = "auto"
	None = "none"
)

// A profile finds the toolchains of one manager, or the cache of one tool.
type profile struct {
	name string
	with []string // profiles of the caches that its programs use
	find func(f *finder, t *Toolchain)
}

var profiles = []profile{
	{"go", nil, (*finder).findGo},
	{"nvm", []string{"npm"}, (*finder).findNvm},
	{"fnm", []string{"npm"}, (*finder).findFnm},
	{"volta", []string{"npm"}, (*finder).findVolta},
	{"pyenv", []string{"pip"}, (*finder).findPyenv},
	{"uv", []string{"pip"}, (*finder).findUv},
	{"rust", nil, (*finder).findRust},
	{"sdkman", []string{"gradle"}, (*finder).findSdkman},
	{"mise", nil, (*finder).findMise},
	{"asdf", nil, (*finder).findAsdf},
	{"npm", nil, (*finder).findNpm},
	{"pip", nil, (*finder).findPip},
	{"gradle", nil, (*finder).findGradle},
	{"ccache", nil, (*finder).findCcache},
}

// Names lists the names of the profiles.
func Names() []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.name)
	}
	return names
}

// Find looks for the toolchains and caches of the profiles with the given names, or of all
// with Auto. A profile that is named and finds nothing is an error, and so is a name that
// there is not.
func Find(opts Options, names ...string) ([]Toolchain, error) {
	wanted, err := selectProfiles(names)
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	f, err := newFinder(opts)
	if err != nil {
		return nil, err
	}
	var found []Toolchain
	for _, p := range profiles {
		if !wanted[p.name] {
			continue
		}
		t := Toolchain{Name: p.name, Env: map[string]string{}}
		p.find(f, &t)
		if len(t.Dirs)+len(t.Caches) > 0 {
			found = append(found, t)
		} else if slices.Contains(names, p.name) {
			return nil, fmt.Errorf("toolchain %s: %w: nothing of it is below %s", p.name, fault.NotFound, f.home)
		}
	}
	return found, nil
}

func selectProfiles(names []string) (map[string]bool, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		i := slices.IndexFunc(profiles, func(p profile) bool { return p.name == name })
		switch {
		case (name == Auto || name == None) && len(names) > 1:
			return nil, fmt.Errorf("toolchain %s: %w: it stands alone", name, fault.InvalidArgument)
		case name == None:
		case name == Auto:
			for _, p := range profiles {
				wanted[p.name] = true
			}
		case i < 0:
			known := append(Names(), Auto, None)
			return nil, fault.Advise(fmt.Errorf("toolchain %.40q: %w", name, fault.InvalidArgument),
				"the toolchains are %s%s", strings.Join(known, ", "), suggest.Hint(name, known))
		default:
			wanted[name] = true
			for _, other := range profiles[i].with {
				wanted[other] = true
			}
		}
	}
	return wanted, nil
}

// Env returns the variables of toolchains, and PATH with their entries before those of
// system.
func Env(found []Toolchain, system string) map[string]string {
	env := map[string]string{}
	var path []string
	for _, t := range found {
		maps.Copy(env, t.Env)
		for _, dir := range t.Path {
			if !slices.Contains(path, dir) {
				path = append(path, dir)
			}
		}
	}
	if len(path) > 0 {
		env["PATH"] = strings.Join(append(path, system), string(filepath.ListSeparator))
	}
	return env
}

// LoginFile is where the text of [LoginText] belongs: the last of the files that /etc/profile
// reads, in every shell that reads it.
const LoginFile = "/etc/profile.d/zz-croft.sh"

// LoginText returns a file of /etc/profile.d with which login shells, such as those of
// "bash -lc", keep the given PATH. On Debian, /etc/profile sets PATH anew, and the file of the
// home that adds directories to it on the host is not inside.
func LoginText(path string) string {
	path = "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	return "# PATH as before /etc/profile.\ncase \":$PATH:\" in\n*:" + path + ":*) ;;\n*) PATH=" + path + "${PATH:+:$PATH}; export PATH ;;\nesac\n"
}

// Dirs returns the directories of toolchains to be shown read-only, without those that lie
// in another.
func Dirs(found []Toolchain) []string {
	var all, dirs []string
	for _, t := range found {
		all = append(all, t.Dirs...)
	}
	for _, dir := range all {
		inner := slices.ContainsFunc(all, func(other string) bool { return other != dir && paths.Inside(other, dir) })
		if !inner && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Caches returns the caches of toolchains, each once.
func Caches(found []Toolchain) []Cache {
	var caches []Cache
	for _, t := range found {
		for _, c := range t.Caches {
			if !slices.ContainsFunc(caches, func(other Cache) bool { return other.Dir == c.Dir }) {
				caches = append(caches, c)
			}
		}
	}
	return caches
}

// maxDepth bounds the search for credential files: tools read them from fixed places near
// the top of an installation, such as apache-maven-3.9.9/conf/settings.xml.
const maxDepth = 6

// bulky are names of directories that have many files and no settings.
var bulky = []string{"site-packages", "dist-packages", "lib-dynload", "rustlib", "include", "man", "doc", "src", "pkg", "test", "testdata", ".git"}

// CredentialFiles returns the files and directories of a toolchain that tools read
// credentials from, by their path in its directory, each with the content to show instead.
// A symlink counts as its target, if that is in the directory, too.
func CredentialFiles(dir string) map[string]string {
	found := map[string]string{}
	var search func(at string, depth int)
	search = func(at string, depth int) {
		entries, _ := os.ReadDir(filepath.Join(dir, at)) // what this user can't read, no command can
		for _, e := range entries {
			name := filepath.Join(at, e.Name())
			content, is := credentialContent(e.Name(), e.IsDir())
			if is && e.Type()&os.ModeSymlink != 0 {
				real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
				if is = err == nil && paths.Inside(dir, real); is {
					name, _ = filepath.Rel(dir, real) // inDir says that there is one
				}
			}
			switch {
			case is:
				found[name] = content
			case e.IsDir() && depth < maxDepth && !slices.Contains(bulky, e.Name()):
				search(name, depth+1)
			}
		}
	}
	search("", 1)
	return found
}

// credentialContent reports whether a file, or a directory, may have credentials, by its
// name, and returns the content that is shown instead.
func credentialContent(name string, dir bool) (content string, ok bool) {
	name = strings.ToLower(name)
	if dir {
		return "", slices.Contains(maskedDirs, name)
	}
	content, ok = maskedFiles[name]
	return content, ok || strings.HasPrefix(name, ".env.")
}

// maskedDirs and maskedFiles are the names of secret.CredentialTable that count here, in lower
// case, with what is shown instead of a file: one that the tool accepts.
var maskedDirs, maskedFiles = func() (dirs []string, files map[string]string) {
	files = map[string]string{}
	for _, f := range secret.CredentialTable {
		name, isDir := strings.CutSuffix(f.Pattern, "/")
		switch {
		case f.In&secret.Tools == 0:
		case isDir:
			dirs = append(dirs, name)
		default:
			files[name] = f.Mask
		}
	}
	return dirs, files
}()

// HomeCredentials returns the files and directories of a home that tools read credentials
// from, by their path in it, sorted, whether or not they exist.
func HomeCredentials() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, name := range maskedDirs {
			if !yield(name) {
				return
			}
		}
		for name := range maskedFiles {
			if !yield(name) {
				return
			}
		}
	})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
