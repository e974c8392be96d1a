package profile

import (
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/internal/shellword"
)

// The placeholders of [Command.Argv]. An argument with a placeholder is repeated for each
// value, or has all values joined if [Command.Join] is set.
const (
	// Files stands for the paths of the files, relative to [Command.Dir].
	Files = "$FILES"
	// Packages stands for the packages of the files: their names in [Command.Packages] or,
	// if that is empty, their directories in Go's form, "./dir".
	Packages = "$PACKAGES"
	// Tests stands for the test classes in the files: the file names without extension.
	Tests = "$TESTS"
)

// A Command is an argv, run without a shell. The zero Command is no command.
type Command struct {
	Dir      string    `json:"dir"`                // working directory, relative to the workspace; "." is its root
	Argv     []string  `json:"argv"`               // program and arguments, with at most one kind of placeholder
	Whole    []string  `json:"whole,omitempty"`    // argv for the whole project, if Argv has a placeholder
	Proof    string    `json:"proof"`              // the file or directory that it was detected by, relative to the workspace
	Match    []string  `json:"match,omitempty"`    // base name patterns of its files; empty is all
	Under    string    `json:"under,omitempty"`    // directory of its files; empty is Dir
	Except   []string  `json:"except,omitempty"`   // directories below Dir that have a command of their own
	Packages []Package `json:"packages,omitempty"` // values of [Packages]; empty is Go's rule
	Join     string    `json:"join,omitempty"`     // joins the values of a placeholder into one argument
}

// A Package is a unit that a build tool addresses by name.
type Package struct {
	Dir  string `json:"dir"`
	Name string `json:"name"`
}

// IsZero reports whether there is no command.
func (c Command) IsZero() bool { return len(c.Argv) == 0 }

// String returns Argv as it would be typed in a shell, placeholders included.
func (c Command) String() string {
	words := make([]string, len(c.Argv))
	for i, a := range c.Argv {
		words[i] = shellQuote(a)
	}
	return strings.Join(words, " ")
}

// All returns the argv for the whole project; false if there is no command, or one that
// only takes files.
func (c Command) All() ([]string, bool) {
	if len(c.Whole) > 0 {
		return slices.Clone(c.Whole), true
	}
	if c.IsZero() || c.placeholder() != "" {
		return nil, false
	}
	return slices.Clone(c.Argv), true
}

// Expand returns the argv for files, which are relative to the workspace. Files that do not
// match the command are left out; if none remains, Expand returns false. A command without
// a placeholder is returned unchanged if at least one file remains.
func (c Command) Expand(files []string) ([]string, bool) {
	if c.IsZero() {
		return nil, false
	}
	if files = c.relevantFiles(files); len(files) == 0 {
		return nil, false
	}
	mark := c.placeholder()
	if mark == "" {
		return slices.Clone(c.Argv), true
	}
	values := c.placeholderValues(mark, files)
	if len(values) == 0 {
		return nil, false
	}
	if c.Join != "" {
		values = []string{strings.Join(values, c.Join)}
	}
	var out []string
	for _, arg := range c.Argv {
		if !strings.Contains(arg, mark) {
			out = append(out, arg)
			continue
		}
		for _, v := range values {
			out = append(out, strings.ReplaceAll(arg, mark, v))
		}
	}
	return out, true
}

// About reports whether the command applies to file.
func (c Command) About(file string) bool {
	return !c.IsZero() && len(c.relevantFiles([]string{file})) == 1
}

func (c Command) placeholder() string {
	for _, mark := range []string{Files, Packages, Tests} {
		if slices.ContainsFunc(c.Argv, func(a string) bool { return strings.Contains(a, mark) }) {
			return mark
		}
	}
	return ""
}

// relevantFiles returns the files that match the command, clean, each once.
func (c Command) relevantFiles(files []string) []string {
	var out []string
	for _, f := range files {
		f = path.Clean(f)
		if !paths.InsideName(c.Dir, f) || c.Under != "" && !paths.InsideName(c.Under, f) || slices.Contains(out, f) {
			continue
		}
		if slices.ContainsFunc(c.Except, func(d string) bool { return paths.InsideName(d, f) }) {
			continue
		}
		if len(c.Match) == 0 || slices.ContainsFunc(c.Match, func(p string) bool { return matchName(p, path.Base(f)) }) {
			out = append(out, f)
		}
	}
	return out
}

func (c Command) placeholderValues(mark string, files []string) []string {
	var out []string
	for _, f := range files {
		var v string
		var ok bool
		switch mark {
		case Packages:
			v, ok = c.packageOf(f)
		case Tests:
			base := path.Base(f)
			v, ok = strings.TrimSuffix(base, path.Ext(base)), true
		default:
			// A file called "-x" must not turn into an option.
			v, ok = relativeTo(c.Dir, f), true
			if strings.HasPrefix(v, "-") {
				v = "./" + v
			}
		}
		if ok && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func (c Command) packageOf(file string) (string, bool) {
	if len(c.Packages) == 0 {
		return goPackage(relativeTo(c.Dir, file))
	}
	best := -1
	for i, p := range c.Packages {
		if paths.InsideName(p.Dir, file) && (best < 0 || paths.InsideName(c.Packages[best].Dir, p.Dir)) {
			best = i
		}
	}
	if best < 0 {
		return "", false
	}
	return c.Packages[best].Name, true
}

// goPackage returns the directory of the Go package of file. Files in directories that the
// go command ignores (testdata, names with a leading "_" or ".") belong to the package
// above; vendored files belong to none.
func goPackage(file string) (string, bool) {
	var dirs []string
	parts := strings.Split(file, "/")
	for _, part := range parts[:len(parts)-1] {
		if part == "vendor" {
			return "", false
		}
		if part == "testdata" || part[0] == '_' || part[0] == '.' {
			break
		}
		dirs = append(dirs, part)
	}
	if len(dirs) == 0 {
		return ".", true
	}
	return "./" + strings.Join(dirs, "/"), true
}

// relativeTo returns name, which is inside dir, relative to dir.
func relativeTo(dir, name string) string {
	if dir == "." || dir == "" {
		return name
	}
	if name == dir {
		return "."
	}
	return strings.TrimPrefix(name, dir+"/")
}

func matchName(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// shellQuote quotes an argument, but not placeholders.
func shellQuote(arg string) string {
	return shellword.QuoteUnsafe(arg, "-_./:=,@%+$")
}
