package toolchain

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
)

// A finder looks below one home.
type finder struct {
	home    string
	project string
	getenv  func(string) string
	path    []string // of the user
}

func newFinder(opts Options) (*finder, error) {
	f := &finder{home: opts.Home, project: opts.Project, getenv: opts.Getenv}
	if f.home == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("toolchain: %w: %w", fault.NotFound, err)
		}
		f.home = home
	}
	if f.getenv == nil {
		f.getenv = os.Getenv
	}
	f.home = filepath.Clean(f.home)
	f.path = filepath.SplitList(f.getenv("PATH"))
	return f, nil
}

// below returns a path below the home.
func (f *finder) below(elem ...string) string {
	return filepath.Join(append([]string{f.home}, elem...)...)
}

// firstDir returns the directory that a variable names, or else the first of the defaults
// below the home that exists, "" if there is none. The home itself, and what is not below
// it, is not taken: programs elsewhere are those of the system.
func (f *finder) firstDir(variable string, defaults ...string) string {
	var list []string
	if variable != "" {
		if dir := f.getenv(variable); dir != "" {
			list = []string{filepath.Clean(dir)}
		}
	}
	for _, name := range defaults {
		list = append(list, f.below(name))
	}
	for _, dir := range list {
		if dir != f.home && paths.Inside(f.home, dir) && isDir(dir) {
			return dir
		}
	}
	return ""
}

// lookPath finds a program on the user's PATH, "" if it is not there.
func (f *finder) lookPath(name string) string {
	for _, dir := range f.path {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// add adds a directory to those that are shown, if it exists.
func (t *Toolchain) add(dirs ...string) {
	for _, dir := range dirs {
		if dir != "" && isDir(dir) && !slices.Contains(t.Dirs, dir) {
			t.Dirs = append(t.Dirs, dir)
		}
	}
}

// addPath adds a directory to PATH, if it exists.
func (t *Toolchain) addPath(dirs ...string) {
	for _, dir := range dirs {
		if dir != "" && isDir(dir) {
			t.Path = append(t.Path, dir)
		}
	}
}

// addCache adds a cache, if it exists.
func (t *Toolchain) addCache(c Cache) {
	if c.Dir != "" && isDir(c.Dir) {
		t.Caches = append(t.Caches, c)
	}
}

// activeOnPath returns the entry of root whose programs the user's PATH has, "" if none.
func (f *finder) activeOnPath(root string) string {
	for _, dir := range f.path {
		if rel, err := filepath.Rel(root, dir); err == nil && filepath.IsLocal(rel) && rel != "." {
			name, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
			return name
		}
	}
	return ""
}

// chooseVersion returns the entry of root, a directory of installed versions, that a project
// uses: the first of wanted that is installed, else the one on PATH, else the first of
// defaults that is installed, else the newest.
func (f *finder) chooseVersion(root string, wanted, defaults []string) string {
	installed := versionsIn(root)
	if len(installed) == 0 {
		return ""
	}
	if v := firstMatch(installed, wanted); v != "" {
		return v
	}
	if v := f.activeOnPath(root); slices.Contains(installed, v) {
		return v
	}
	if v := firstMatch(installed, defaults); v != "" {
		return v
	}
	return installed[0]
}

// versionsIn lists the entries of a directory that are directories, newest version first.
func versionsIn(root string) []string {
	entries, _ := os.ReadDir(root) // a directory that can't be read has no versions
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && isDir(filepath.Join(root, e.Name())) {
			names = append(names, e.Name())
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return compareVersions(b, a) })
	return names
}

// firstMatch returns the newest of installed, newest first, that a wanted version denotes:
// the same, or one that begins with it, as 20 denotes v20.11.1.
func firstMatch(installed, wanted []string) string {
	for _, w := range wanted {
		w = strings.TrimPrefix(strings.TrimSpace(w), "v")
		if w == "" {
			continue
		}
		for _, v := range installed {
			if plain := plainVersion(v); plain == w || v == w || strings.HasPrefix(plain, w+".") || strings.HasPrefix(plain, w+"-") {
				return v
			}
		}
	}
	return ""
}

// plainVersion returns a version without a prefix, as in v20.11.1, go1.25.0 or
// cpython-3.12.1-linux-x86_64-gnu.
func plainVersion(name string) string {
	i := strings.IndexFunc(name, func(r rune) bool { return r >= '0' && r <= '9' })
	if i < 0 {
		return name
	}
	return name[i:]
}

// compareVersions compares the numbers of two versions. A name without a number, such as
// latest or system, is older than any version.
func compareVersions(a, b string) int {
	x, y := versionNumbers(a), versionNumbers(b)
	return cmp.Or(slices.Compare(x, y), strings.Compare(a, b))
}

func versionNumbers(name string) []int {
	var numbers []int
	plain := plainVersion(name)
	plain, _, _ = strings.Cut(plain, "-")
	for part := range strings.SplitSeq(plain, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// maxChoice bounds the size of a file that names versions.
const maxChoice = 64 << 10

// lines returns the first words of the lines of a small file, without comments; none if it
// can't be read.
func lines(path string) [][]string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close() // only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxChoice {
		return nil
	}
	var list [][]string
	for s := bufio.NewScanner(file); s.Scan(); {
		text, _, _ := strings.Cut(s.Text(), "#")
		if words := strings.Fields(text); len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}

// projectVersions returns the versions that files of the project name, one in a line.
func (f *finder) projectVersions(names ...string) []string {
	if f.project == "" {
		return nil
	}
	var list []string
	for _, name := range names {
		for _, words := range lines(filepath.Join(f.project, name)) {
			list = append(list, words[0])
		}
	}
	return list
}

// toolVersions returns the versions of a tool in the files .tool-versions of the project
// and of the home.
func (f *finder) toolVersions(tool string) []string {
	var list []string
	for _, dir := range []string{f.project, f.home} {
		if dir == "" {
			continue
		}
		for _, words := range lines(filepath.Join(dir, ".tool-versions")) {
			if words[0] == tool {
				list = append(list, words[1:]...)
			}
		}
	}
	return list
}
