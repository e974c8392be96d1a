package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// A Loader reads suites and configurations. Its zero value is ready to use.
type Loader struct {
	Env    []string            // what process.env holds; nil is this process's
	Args   []string            // what follows the program in process.argv
	TmpDir string              // what os.tmpdir() names; "" is a new one, which Close removes
	Dirs   []string            // directories that node:fs may use, beside the suite's own
	Limit  Limit               // of each turn
	Log    func(l Log)         // hears what is written to the console; nil keeps it to Outcome.Logs
	Now    func() (ms float64) // nil is the clock
}

// A Suite is what a file exports. It may be used from any number of goroutines.
type Suite struct {
	Path      string // absolute
	Dir       string
	Cases     []Case     // in the order of the file
	Workspace *Workspace // nil: the configuration's
	Tags      []string   // of all cases, each once, in order
	Notices   []string   // what the user should know
	Logs      []Log      // what it wrote while it was loaded

	vm    *vm
	cases map[string]*goja.Object // by id; belongs to the goroutine of vm
	tmp   string                  // removed by Close
	once  sync.Once
}

// Load reads a suite: TypeScript, JavaScript, or YAML where the name ends in .yaml or
// .yml. cfg may be nil; it adds its directory to what the suite may read. Close the
// suite after use.
func Load(ctx context.Context, path string, cfg *Config) (*Suite, error) {
	return new(Loader).Load(ctx, path, cfg)
}

// Load is as the function of that name.
func (l *Loader) Load(ctx context.Context, path string, cfg *Config) (*Suite, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("suite: load %s: %w: %w", path, fault.Of(err), err)
	}
	src, err := sourceOf(path)
	if err != nil {
		return nil, err
	}
	prog, err := bundle(src)
	if err != nil {
		return nil, err
	}
	s := &Suite{Path: path, Dir: filepath.Dir(path)}
	dirs := append([]string{s.Dir}, l.Dirs...)
	if cfg != nil && cfg.Dir != "" {
		dirs = append(dirs, cfg.Dir)
	}
	if s.vm, s.tmp, err = l.newVM(dirs); err != nil {
		return nil, err
	}
	if src.text != "" {
		s.vm.sources.set(path, src.text)
	}
	if err := s.evaluate(ctx, prog); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// sourceOf returns what to bundle for a file.
func sourceOf(path string) (source, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return source{}, &Error{Verb: "load", File: path, Code: fault.Of(err), Message: "the suite file can't be read"}
	case info.IsDir():
		return source{}, &Error{Verb: "load", File: path, Code: fault.InvalidArgument, Message: "it is a directory; name a suite file"}
	case isYAML(path):
		return yamlSuite(path)
	}
	switch filepath.Ext(path) {
	case ".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx":
		return source{path: path}, nil
	}
	return source{}, &Error{Verb: "load", File: path, Code: fault.InvalidArgument,
		Message: "a suite ends in .ts, .mts, .cts, .tsx, .js, .mjs, .cjs, .jsx, .yaml or .yml"}
}

// newVM makes an engine that runs. The temporary directory that it made is returned.
func (l *Loader) newVM(dirs []string) (v *vm, tmp string, err error) {
	v = newVM(l.Limit)
	use := *l
	if use.TmpDir == "" {
		if tmp, err = os.MkdirTemp("", "croft-eval-"); err != nil {
			return nil, "", fmt.Errorf("suite: make a temporary directory: %w: %w", fault.Of(err), err)
		}
		use.TmpDir = tmp
	}
	if err := v.boot(&use, append(slices.Clone(dirs), use.TmpDir)); err != nil {
		v.files.close()
		os.RemoveAll(tmp)
		return nil, "", err
	}
	v.start()
	return v, tmp, nil
}

// Close ends the suite: executions under way fail, and its temporary files go.
func (s *Suite) Close() error {
	var err error
	s.once.Do(func() {
		s.vm.close()
		s.vm.files.close()
		if s.tmp != "" {
			err = os.RemoveAll(s.tmp)
		}
	})
	if err != nil {
		return fmt.Errorf("suite: close %s: %w: %w", s.Path, fault.Of(err), err)
	}
	return nil
}

// evaluate runs the program and reads what it exports.
func (s *Suite) evaluate(ctx context.Context, prog *goja.Program) error {
	ex := &execution{}
	var err error
	failed := s.vm.do(ctx, ex, func() error {
		return s.vm.evaluate(ex, prog, func(ns *goja.Object) error { err = s.read(ns); return nil })
	}, func() error { return s.vm.loadError("load", s.Path, ex) })
	s.Logs = ex.logs
	if failed != nil {
		return failed
	}
	return err
}

// loadError says why a file could not be evaluated, nil where it could.
func (v *vm) loadError(verb, path string, ex *execution) error {
	if ex.err == nil {
		if len(ex.unhandled) == 0 {
			return nil
		}
		ex.err = &thrown{ex.unhandled[0].Result()}
	}
	value, ok := v.cause(ex.err)
	if !ok {
		return &Error{Verb: verb, File: path, Code: fault.Of(ex.err), Message: withoutCode(ex.err)}
	}
	info := v.describe(value)
	return &Error{Verb: verb, File: path, Code: codeOf(value), Message: info.headline(), Info: &info}
}

// withoutCode is the sentence after "suite: code: ".
func withoutCode(err error) string {
	_, rest, ok := strings.Cut(err.Error(), fault.Of(err).Error()+": ")
	if !ok {
		return err.Error()
	}
	return rest
}

func (e ErrorInfo) headline() string {
	text := e.Name + ": " + e.Message
	if e.Frame != nil {
		text = fmt.Sprintf("%s:%d:%d: %s", e.Frame.File, e.Frame.Line, e.Frame.Column, text)
	}
	return text
}

// read takes what the module exports apart. It is stricter than skillgym, which lets
// a suite without ids or assertions run to its end first.
func (s *Suite) read(ns *goja.Object) error {
	def := ns.Get("default")
	if def == nil || goja.IsUndefined(def) {
		return &Error{Verb: "load", File: s.Path, Code: fault.InvalidArgument, Message: "Suite file does not have a default export: " + s.Path}
	}
	r := &reader{what: "suite"}
	s.cases = map[string]*goja.Object{}
	if o, ok := def.(*goja.Object); ok && isData(o) {
		keys := o.Keys()
		for i, key := range keys {
			at := "case " + fmt.Sprint(i+1)
			if o.ClassName() != "Array" {
				at = "case " + key
			}
			s.readCase(r, o.Get(key), at)
		}
		if len(keys) == 0 {
			r.bad("default export", "expected at least one case")
		}
	} else {
		r.bad("default export", "expected an array or an object of cases")
	}
	if w := ns.Get("workspace"); w != nil && !goja.IsUndefined(w) {
		r.what = "suite config"
		s.Workspace = r.workspace(toData(s.vm.rt, w), "workspace")
		s.Workspace.resolve(s.Dir)
	}
	if r.err != nil {
		return &Error{Verb: "load", File: s.Path, Code: fault.InvalidArgument, Message: r.err.message}
	}
	return nil
}

func isData(o *goja.Object) bool {
	_, callable := goja.AssertFunction(o)
	_, promise := o.Export().(*goja.Promise)
	return !callable && !promise
}

var caseKeys = []string{"id", "prompt", "tags", "timeoutMs", "expectedFail", "classifyFailure", "assert"}

func (s *Suite) readCase(r *reader, v goja.Value, at string) {
	o, ok := v.(*goja.Object)
	if !ok || !isData(o) || o.ClassName() == "Array" {
		r.bad(at, "expected an object")
		return
	}
	get := func(key string) any { return toData(s.vm.rt, o.Get(key)) }
	c := Case{}
	id, _ := get("id").(string)
	if strings.TrimSpace(id) == "" {
		r.bad(at+": id", "expected non-empty string")
		return
	}
	c.ID, at = id, "case "+id
	for _, key := range o.Keys() {
		if !slices.Contains(caseKeys, key) {
			r.fail(at, fmt.Sprintf("Unknown key in case %s: %s (allowed: %s)", id, key, strings.Join(caseKeys, ", ")))
		}
	}
	if _, twice := s.cases[id]; twice {
		r.fail(at, fmt.Sprintf("Duplicate case id: %s", id))
	}
	c.Prompt = r.required(get("prompt"), at+": prompt")
	c.Tags = r.tags(get("tags"), id)
	c.Timeout = r.millis(get("timeoutMs"), at+": timeoutMs")
	c.ExpectedFail = r.flag(get("expectedFail"), at+": expectedFail")
	if _, ok := goja.AssertFunction(o.Get("assert")); !ok {
		r.bad(at+": assert", "expected a function (report, ctx)")
	}
	if f := o.Get("classifyFailure"); f != nil && !goja.IsUndefined(f) {
		if _, c.HasClassify = goja.AssertFunction(f); !c.HasClassify {
			r.bad(at+": classifyFailure", "expected a function (result)")
		}
	}
	s.cases[id] = o
	s.Cases = append(s.Cases, c)
	for _, tag := range c.Tags {
		if !slices.Contains(s.Tags, tag) {
			s.Tags = append(s.Tags, tag)
		}
	}
}

// tags reads the tags of a case, each once.
func (r *reader) tags(v any, id string) []string {
	if absent(v) {
		return nil
	}
	items, ok := v.(list)
	if !ok {
		r.fail("", fmt.Sprintf("Invalid tags for case %s: expected array of non-empty strings", id))
		return nil
	}
	var tags []string
	for i, item := range items {
		tag, ok := item.(string)
		if !ok || strings.TrimSpace(tag) == "" {
			r.fail("", fmt.Sprintf("Invalid tag for case %s at index %d: expected non-empty string", id, i))
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// evalData evaluates a module that exports data: a configuration.
func (l *Loader) evalData(ctx context.Context, path string) (any, error) {
	prog, err := bundle(source{path: path})
	if err != nil {
		return nil, renamed(err, "read config")
	}
	v, tmp, err := l.newVM(append([]string{filepath.Dir(path)}, l.Dirs...))
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	defer v.files.close()
	defer v.close()
	ex := &execution{}
	var data any = undefined{}
	err = v.do(ctx, ex, func() error {
		return v.evaluate(ex, prog, func(ns *goja.Object) error {
			if def := ns.Get("default"); def != nil {
				data = toData(v.rt, def)
			} else {
				data = toData(v.rt, ns)
			}
			return nil
		})
	}, func() error { return v.loadError("read config", path, ex) })
	return data, err
}

func renamed(err error, verb string) error {
	var e *Error
	if errors.As(err, &e) {
		e.Verb = verb
	}
	return err
}

// toData copies a value out of the engine. What can't be data is opaque.
func toData(rt *goja.Runtime, v goja.Value) any { return copyData(rt, v, 0) }

// deepest is how deep data may be nested; what refers to itself ends there.
const deepest = 64

func copyData(rt *goja.Runtime, v goja.Value, depth int) any {
	switch {
	case v == nil || goja.IsUndefined(v):
		return undefined{}
	case goja.IsNull(v):
		return nil
	case depth > deepest:
		return opaque("too deep")
	}
	o, ok := v.(*goja.Object)
	if !ok {
		switch x := v.Export().(type) {
		case bool, string, float64:
			return x
		case int64:
			return float64(x)
		}
		return opaque("primitive")
	}
	if _, ok := goja.AssertFunction(o); ok {
		return opaque("function")
	}
	if o.ClassName() == "Array" {
		n := int(o.Get("length").ToInteger())
		items := make(list, 0, n)
		for i := range n {
			items = append(items, copyData(rt, o.Get(fmt.Sprint(i)), depth+1))
		}
		return items
	}
	out := newObject()
	for _, key := range o.Keys() {
		out.set(key, copyData(rt, o.Get(key), depth+1))
	}
	return out
}
