package suite

import (
	"path/filepath"
	"strings"
)

// workspace reads where agents work. Both generations of skillgym are understood:
// shared with cwd, or with nothing, is the older one, which runs in place; shared
// with a template or a bootstrap is the newer one.
func (r *reader) workspace(v any, path string) *Workspace {
	o := r.object(v, path, "mode", "cwd", "templateDir", "bootstrap")
	w := &Workspace{}
	mode, ok := o.get("mode").(string)
	if !ok || mode != ModeNone && mode != ModeShared && mode != ModeIsolated {
		r.bad(join(path, "mode"), `expected "none", "shared", or "isolated"`)
	}
	w.Mode = mode
	w.Cwd = r.text(o.get("cwd"), join(path, "cwd"))
	w.TemplateDir = r.text(o.get("templateDir"), join(path, "templateDir"))
	if b := o.get("bootstrap"); !absent(b) {
		w.Bootstrap = r.bootstrap(b, join(path, "bootstrap"))
	}
	omit := func(key string) {
		r.bad(join(path, key), "expected this key to be omitted when workspace mode is %q", mode)
	}
	switch {
	case mode == ModeIsolated && w.Cwd != "":
		omit("cwd")
	case mode == ModeNone && w.TemplateDir != "":
		omit("templateDir")
	case mode == ModeNone && w.Bootstrap != nil:
		omit("bootstrap")
	case mode == ModeShared && w.Cwd != "" && w.TemplateDir != "":
		omit("templateDir")
	case mode == ModeShared && w.Cwd != "" && w.Bootstrap != nil:
		omit("bootstrap")
	}
	return w
}

func (r *reader) bootstrap(v any, path string) *Bootstrap {
	o := r.object(v, path, "command", "args", "timeoutMs", "env")
	return &Bootstrap{
		Command: r.required(o.get("command"), join(path, "command")),
		Args:    r.texts(o.get("args"), join(path, "args")),
		Timeout: r.millis(o.get("timeoutMs"), join(path, "timeoutMs")),
		Env:     r.env(o.get("env"), join(path, "env")),
	}
}

// resolve makes the paths absolute, from the directory of the file they are in.
func (w *Workspace) resolve(dir string) {
	w.Cwd, w.TemplateDir = resolveFrom(dir, w.Cwd), resolveFrom(dir, w.TemplateDir)
	if b := w.Bootstrap; b != nil {
		b.Command = pathLike(dir, b.Command)
		for i := range b.Args {
			b.Args[i] = pathLike(dir, b.Args[i])
		}
	}
}

// resolveFrom makes a path absolute; "" stays.
func resolveFrom(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// pathLike makes a word absolute that says itself that it is a relative path. A bare
// word, and one with a path inside it, stay as they are.
func pathLike(dir, word string) string {
	if word == "." || word == ".." || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") ||
		strings.HasPrefix(word, `.\`) || strings.HasPrefix(word, `..\`) {
		return filepath.Join(dir, word)
	}
	return word
}
