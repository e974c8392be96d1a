package cmdpolicy

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace/driver"
)

// maxLinks is the number of symlinks that a path may lead through, as in Linux.
const maxLinks = 40

// maxName is the number of bytes of a path, as in Linux and macOS.
const maxName = 4095

// A pathChecker checks paths against the workspace.
type pathChecker struct {
	root     *files.Root
	roots    []string // spellings of the workspace's own path
	allow    []string
	programs []string
}

func newPathChecker(o *Options) *pathChecker {
	f := &pathChecker{root: o.Files, roots: []string{path.Clean(o.Root)}, allow: o.Paths.Allow, programs: o.Paths.Programs}
	if real, err := filepath.EvalSymlinks(o.Root); err == nil && real != f.roots[0] {
		f.roots = append(f.roots, real)
	}
	return f
}

// checkCommand checks the directory, programs, arguments and redirections of a command.
func (f *pathChecker) checkCommand(ctx context.Context, found *analysis, dir, home string) error {
	if dir == "" {
		dir = "."
	}
	if err := f.checkPath(ctx, []string{"."}, dir); err != nil {
		return err
	}
	if rel, ok := f.relativeToRoot(dir); ok {
		dir = rel
	}
	c := wordChecker{pathChecker: f, home: home}
	c.dirs, c.dirsKnown = f.possibleDirs(found, dir)
	for _, call := range found.calls {
		if err := c.checkProgram(ctx, call.words[0]); err != nil {
			return err
		}
		if err := c.checkWords(ctx, fileArguments(call)); err != nil {
			return err
		}
	}
	return c.checkWords(ctx, found.redirects)
}

// A wordChecker checks the words of one command.
type wordChecker struct {
	*pathChecker
	home      string   // the path of ~; "" is outside
	dirs      []string // possible working directories
	dirsKnown bool     // dirs is complete
}

// checkProgram checks a program that is named by a path.
func (c *wordChecker) checkProgram(ctx context.Context, w word) error {
	if !strings.Contains(w.text, "/") && !strings.HasPrefix(w.text, "~") {
		return nil
	}
	if clean := path.Clean(w.text); w.known && slices.Contains(c.programs, path.Dir(clean)) {
		return nil
	}
	err := c.checkWord(ctx, w)
	if err != nil && c.isVenvPython(ctx, w) {
		return nil
	}
	return err
}

// pythonName matches the names of a Python interpreter.
var pythonName = lazyregexp.New(`^python(3(\.\d+)?)?$`)

// isVenvPython reports whether a program is the interpreter of a virtual environment in the
// workspace: a symlink to an interpreter that may be named by its own path. Both have the
// name of an interpreter, so that a command policy for names holds for the symlink, too.
func (c *wordChecker) isVenvPython(ctx context.Context, w word) bool {
	if !w.known || w.glob || strings.HasPrefix(w.text, "~") {
		return false
	}
	if rel, ok := c.relativeToRoot(w.text); ok {
		return c.leadsToPython(ctx, rel)
	}
	return slices.ContainsFunc(c.dirs, func(dir string) bool { return c.leadsToPython(ctx, dir+"/"+w.text) })
}

// leadsToPython reports whether a path of the workspace is a symlink to an interpreter
// outside that may be named by its own path, possibly by way of other symlinks beside it.
func (f *pathChecker) leadsToPython(ctx context.Context, name string) bool {
	for range maxLinks {
		info, err := f.root.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
		if err != nil || info.Type != driver.TypeSymlink || strings.Contains(name, "..") || !pythonName.MatchString(path.Base(name)) {
			return false // after a symlink the kernel's .. is another one
		}
		dir, base := path.Split(info.Target)
		if dir != "" {
			return slices.Contains(f.programs, strings.TrimSuffix(dir, "/")) && pythonName.MatchString(base)
		}
		name = path.Dir(name) + "/" + base
	}
	return false
}

func (c *wordChecker) checkWords(ctx context.Context, words []word) error {
	for _, w := range words {
		for _, part := range pathCandidates(w) {
			if err := c.checkWord(ctx, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWord checks a word, or the directory of its known beginning.
func (c *wordChecker) checkWord(ctx context.Context, w word) error {
	text := w.text
	if rest, ok := strings.CutPrefix(text, "~"); w.tilde && ok {
		if c.home == "" || rest != "" && rest[0] != '/' { // no home directory, or that of another user
			return newRefusal(RulePaths, fault.SandboxViolation, TextHome, text)
		}
		if err := c.checkPath(ctx, c.dirs[:1], c.home+rest); err != nil {
			return newRefusal(RulePaths, fault.SandboxViolation, TextHome, text)
		}
		return nil
	}
	if i := strings.IndexAny(text, "*?["); w.glob && i >= 0 {
		text, w.known = text[:i], false
	}
	if !w.known {
		text = text[:strings.LastIndexByte(text, '/')+1]
	}
	if text == "" || !c.dirsKnown && text[0] != '/' {
		return nil
	}
	return c.checkPath(ctx, c.dirs, text)
}

// checkPath refuses a path that leads outside from every directory in dirs.
func (f *pathChecker) checkPath(ctx context.Context, dirs []string, name string) error {
	var text string
	for _, dir := range dirs {
		var err error
		if text, err = f.resolvePath(ctx, dir, name); err != nil {
			return err
		}
		if text == "" {
			return nil
		}
	}
	return newRefusal(RulePaths, fault.SandboxViolation, text, name)
}

// relativeToRoot returns an absolute path relative to the workspace, if it is inside. It
// keeps ".." elements below the workspace, which may follow symlinks.
func (f *pathChecker) relativeToRoot(name string) (string, bool) {
	if !strings.HasPrefix(name, "/") {
		return name, false
	}
	clean := path.Clean(name)
	for _, root := range f.roots {
		prefix := strings.TrimSuffix(root, "/") + "/"
		if clean != root && !strings.HasPrefix(clean, prefix) {
			continue
		}
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return "./" + rest, true
		}
		return "./" + strings.TrimPrefix(clean[len(root):], "/"), true
	}
	return "", false
}

func (f *pathChecker) isAllowed(name string) bool {
	clean := path.Clean(name)
	return slices.ContainsFunc(f.allow, func(a string) bool {
		return clean == a || strings.HasSuffix(a, "/") && strings.HasPrefix(clean, a)
	})
}

// resolvePath returns "" for a path that stays inside, or else the text of the refusal. A
// path must stay inside both lexically, for programs that clean it, and as the kernel
// follows it.
func (f *pathChecker) resolvePath(ctx context.Context, dir, name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		rel, ok := f.relativeToRoot(name)
		if !ok && f.isAllowed(name) {
			return "", nil
		}
		if !ok {
			return TextOutside, nil
		}
		dir, name = ".", rel
	}
	if clean := path.Join(dir, name); clean == ".." || strings.HasPrefix(clean, "../") {
		return TextOutside, nil
	}
	if len(name) > maxName {
		return "", nil // no program can open it
	}
	return f.followSymlinks(ctx, strings.Split(dir+"/"+name, "/"))
}

// followSymlinks resolves a path element by element, as the kernel would. From the first
// element that does not exist on, the path is lexical.
func (f *pathChecker) followSymlinks(ctx context.Context, todo []string) (string, error) {
	var done []string
	links, missing := 0, false
	for len(todo) > 0 {
		elem := todo[0]
		todo = todo[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return TextResolvesOutside, nil
			}
			done = done[:len(done)-1]
			missing = false
			continue
		}
		if done = append(done, elem); missing {
			continue
		}
		info, err := f.root.Stat(ctx, strings.Join(done, "/"), &driver.StatOptions{NoFollow: true})
		switch fault.Of(err) {
		case "":
		case fault.NotFound, fault.InvalidArgument: // a file as a directory, or a name that no file can have
			missing = true
			continue
		case fault.Canceled, fault.DeadlineExceeded:
			return "", fmt.Errorf("cmdpolicy: check: %w", err)
		case fault.SandboxViolation:
			return TextResolvesOutside, nil
		default:
			return TextUnresolvable, nil
		}
		if info.Type != driver.TypeSymlink {
			continue
		}
		if links++; links > maxLinks {
			return TextUnresolvable, nil
		}
		target := info.Target
		done = done[:len(done)-1]
		if strings.HasPrefix(target, "/") {
			rel, ok := f.relativeToRoot(target)
			if !ok && f.isAllowed(target) {
				return "", nil
			}
			if !ok {
				return TextResolvesOutside, nil
			}
			target, done = rel, nil
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return "", nil
}
