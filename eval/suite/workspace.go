package suite

import (
	"path/filepath"
	"strings"
)

// readWorkspace reads the workspace section. Both versions of skillgym are supported:
// shared with cwd, or alone, is the older one, which runs in place; shared with a
// template or a bootstrap is the newer one.
func (r *valueReader) readWorkspace(v any, path string) *Workspace {
	o := r.readObject(v, path, "mode", "cwd", "templateDir", "bootstrap")
	w := &Workspace{}
	mode, ok := o.get("mode").(string)
	if !ok || mode != ModeNone && mode != ModeShared && mode != ModeIsolated {
		r.reportInvalid(joinPath(path, "mode"), `expected "none", "shared", or "isolated"`)
	}
	w.Mode = mode
	w.Cwd = r.readText(o.get("cwd"), joinPath(path, "cwd"))
	w.TemplateDir = r.readText(o.get("templateDir"), joinPath(path, "templateDir"))
	if b := o.get("bootstrap"); !isAbsent(b) {
		w.Bootstrap = r.readBootstrap(b, joinPath(path, "bootstrap"))
	}
	omit := func(key string) {
		r.reportInvalid(joinPath(path, key), "expected this key to be omitted when workspace mode is %q", mode)
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

func (r *valueReader) readBootstrap(v any, path string) *Bootstrap {
	o := r.readObject(v, path, "command", "args", "timeoutMs", "env")
	return &Bootstrap{
		Command: r.requireText(o.get("command"), joinPath(path, "command")),
		Args:    r.readTexts(o.get("args"), joinPath(path, "args")),
		Timeout: r.readMillis(o.get("timeoutMs"), joinPath(path, "timeoutMs")),
		Env:     r.readEnv(o.get("env"), joinPath(path, "env")),
	}
}

// resolvePaths makes the paths absolute, from the directory of their file.
func (w *Workspace) resolvePaths(dir string) {
	w.Cwd, w.TemplateDir = resolveFrom(dir, w.Cwd), resolveFrom(dir, w.TemplateDir)
	if b := w.Bootstrap; b != nil {
		b.Command = resolvePathLike(dir, b.Command)
		for i := range b.Args {
			b.Args[i] = resolvePathLike(dir, b.Args[i])
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

// resolvePathLike makes a word absolute that begins with ./ or ../. Other words stay as
// they are.
func resolvePathLike(dir, word string) string {
	if word == "." || word == ".." || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") ||
		strings.HasPrefix(word, `.\`) || strings.HasPrefix(word, `..\`) {
		return filepath.Join(dir, word)
	}
	return word
}
