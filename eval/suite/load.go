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
	"github.com/croft-run/croft/internal/locktmp"
)

// A Loader reads suites and configurations. Its zero value is ready to use.
type Loader struct {
	TmpDir string      // what os.tmpdir() names; "" is a new one, which Close removes
	Limit  Limit       // of each turn
	Log    func(l Log) // called with each line of the console; Outcome.Logs has them, too

	// Node starts the user's Node with arguments, which see the temporary directory and the
	// suite's at their paths. Suites run in it; nil is the built-in engine, which also runs
	// configurations and reporters.
	Node func(ctx context.Context, args []string) (*NodeProcess, error)
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

	loader     *Loader // with its temporary directory
	prog       *goja.Program
	nodeBundle []byte // in the place of prog, for Node
	text       string // what the file means, where it is not JavaScript
	dirs       []string
	tmp        string // removed by Close

	mu     sync.Mutex
	realm  *realm // guarded by mu
	closed bool   // guarded by mu
}

// A realm is an engine in which the suite was evaluated, with its cases.
type realm struct {
	vm    *vm
	cases map[string]*goja.Object // by id; belongs to the goroutine of vm
	node  *nodeEngine             // nil in the built-in engine
}

// broken reports whether the realm was interrupted.
func (r *realm) broken() bool {
	if r.node == nil {
		return r.vm.broken.Load()
	}
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	return r.node.ended != nil
}

// Load reads a suite: TypeScript, JavaScript, or YAML where the name ends in .yaml or
// .yml. cfg may be nil; it adds its directory to what the suite may read. Close the
// suite after use.
func Load(ctx context.Context, path string, cfg *Config) (*Suite, error) {
	return new(Loader).Load(ctx, path, cfg)
}

// Load is the function Load with the options of l.
func (l *Loader) Load(ctx context.Context, path string, cfg *Config) (*Suite, error) {
	s, err := l.bundleSuite(path)
	if err != nil {
		return nil, err
	}
	return l.evaluateSuite(ctx, s, cfg)
}

// LoadBoth reads a suite and its configuration, which LoadConfig finds, at the same
// time.
func (l *Loader) LoadBoth(ctx context.Context, path, config string) (*Suite, *Config, error) {
	var (
		wg  sync.WaitGroup
		s   *Suite
		bad error
	)
	wg.Go(func() { s, bad = l.bundleSuite(path) })
	cfg, err := l.LoadConfig(ctx, path, config)
	wg.Wait()
	if err != nil {
		return nil, nil, err
	}
	if bad != nil {
		return nil, nil, bad
	}
	s, err = l.evaluateSuite(ctx, s, cfg)
	return s, cfg, err
}

// bundleSuite bundles the suite at path, without evaluating it.
func (l *Loader) bundleSuite(path string) (*Suite, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("suite: load %s: %w: %w", path, fault.Of(err), err)
	}
	src, err := sourceOf(path)
	if err != nil {
		return nil, err
	}
	s := &Suite{Path: path, Dir: filepath.Dir(path), text: src.text}
	if l.Node != nil {
		s.nodeBundle, err = bundleForNode(src)
	} else {
		s.prog, err = bundleSource(src)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// evaluateSuite evaluates a bundled suite.
func (l *Loader) evaluateSuite(ctx context.Context, s *Suite, cfg *Config) (_ *Suite, err error) {
	s.dirs = []string{s.Dir}
	if cfg != nil && cfg.Dir != "" {
		s.dirs = append(s.dirs, cfg.Dir)
	}
	if s.loader, s.tmp, err = l.withTmp(); err != nil {
		return nil, err
	}
	if err := s.evaluateFirst(ctx); err != nil {
		return nil, joinErrors(err, s.Close())
	}
	return s, nil
}

// evaluateFirst evaluates the suite for the first time, and keeps its exports.
func (s *Suite) evaluateFirst(ctx context.Context) error {
	r, read, err := s.newRealm(ctx)
	if err != nil {
		return err
	}
	s.Cases, s.Workspace, s.Tags, s.Notices, s.Logs = read.Cases, read.Workspace, read.Tags, read.Notices, read.Logs
	s.mu.Lock()
	s.realm = r
	s.mu.Unlock()
	return nil
}

// currentRealm returns the realm, a new one if the last engine was interrupted.
func (s *Suite) currentRealm(ctx context.Context) (*realm, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("suite: %w: the suite was closed", fault.WrongState)
	}
	if !s.realm.broken() {
		return s.realm, nil
	}
	r, _, err := s.newRealm(ctx)
	if err != nil {
		return nil, err
	}
	old := s.realm
	s.realm = r
	return r, old.close()
}

func (r *realm) close() error {
	var err error
	if r.node != nil {
		err = r.node.close()
	}
	r.vm.close()
	if err := joinErrors(r.vm.files.close(), err); err != nil {
		return fmt.Errorf("suite: close the engine: %w", err)
	}
	return nil
}

// sourceOf returns what to bundle for a file.
func sourceOf(path string) (bundleInput, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return bundleInput{}, &Error{Verb: "load", File: path, Code: fault.Of(err), Message: "the suite file can't be read"}
	case info.IsDir():
		return bundleInput{}, &Error{Verb: "load", File: path, Code: fault.InvalidArgument, Message: "the path is a directory; name a suite file"}
	case isYAML(path):
		return yamlSuite(path)
	}
	switch filepath.Ext(path) {
	case ".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx":
		return bundleInput{path: path}, nil
	}
	return bundleInput{}, &Error{Verb: "load", File: path, Code: fault.InvalidArgument,
		Message: "a suite ends in .ts, .mts, .cts, .tsx, .js, .mjs, .cjs, .jsx, .yaml or .yml"}
}

// ScratchPrefix begins the names of the temporary directories of evaluations only: those
// that no process has locked are removed.
const ScratchPrefix = "croft-evaluation-"

// withTmp returns the loader with a temporary directory, and that directory if it is new.
func (l *Loader) withTmp() (use *Loader, tmp string, err error) {
	copied := *l
	if copied.TmpDir == "" {
		if tmp, err = locktmp.Make(ScratchPrefix); err != nil {
			return nil, "", fmt.Errorf("suite: make a temporary directory: %w: %w", fault.Of(err), err)
		}
		copied.TmpDir = tmp
	}
	return &copied, tmp, nil
}

// removeTmp removes a temporary directory, where one was made.
func removeTmp(tmp string) error {
	if tmp == "" {
		return nil
	}
	return locktmp.Remove(tmp)
}

// joinErrors joins two errors; a nil second one leaves err as it is.
func joinErrors(err, after error) error {
	if after == nil {
		return err
	}
	return errors.Join(err, after)
}

// newVM makes and starts an engine.
func (l *Loader) newVM(dirs []string) (*vm, error) {
	v := newVM(l.Limit)
	if err := v.boot(l, append(slices.Clone(dirs), l.TmpDir)); err != nil {
		return nil, err
	}
	v.start()
	return v, nil
}

// Close ends the suite: running executions fail, and temporary files are removed.
func (s *Suite) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.realm != nil {
		err = s.realm.close()
	}
	if err := joinErrors(err, removeTmp(s.tmp)); err != nil {
		return fmt.Errorf("suite: close %s: %w: %w", s.Path, fault.Of(err), err)
	}
	return nil
}

// newRealm evaluates the suite in a new engine, and reads its exports.
func (s *Suite) newRealm(ctx context.Context) (*realm, *Suite, error) {
	if s.loader.Node != nil {
		return s.newNodeRealm(ctx)
	}
	v, err := s.loader.newVM(s.dirs)
	if err != nil {
		return nil, nil, err
	}
	if s.text != "" {
		v.sources.set(s.Path, s.text)
	}
	r := &realm{vm: v, cases: map[string]*goja.Object{}}
	read := &Suite{Path: s.Path, Dir: s.Dir}
	ex := &execution{}
	var bad error
	err = v.runExecution(ctx, ex, func() error {
		return v.evaluateBundle(ex, s.prog, func(ns *goja.Object) error { bad = read.readExports(r, ns); return nil })
	}, func() error { return v.loadError("load", s.Path, ex) })
	read.Logs = ex.logs
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, nil, joinErrors(err, r.close())
	}
	return r, read, nil
}

// loadError says why a file could not be evaluated, nil if it was.
func (v *vm) loadError(verb, path string, ex *execution) error {
	if ex.err == nil {
		if len(ex.unhandled) == 0 {
			return nil
		}
		ex.err = &thrown{ex.unhandled[0].Result()}
	}
	value, ok := v.thrownValue(ex.err)
	if !ok {
		return &Error{Verb: verb, File: path, Code: fault.Of(ex.err), Message: withoutCode(ex.err)}
	}
	info := v.describeError(value)
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

// readExports reads the exports of the module. It is stricter than skillgym, which runs a
// suite without ids or assertions to its end first.
func (s *Suite) readExports(realm *realm, ns *goja.Object) error {
	def := ns.Get("default")
	if def == nil || goja.IsUndefined(def) {
		return &Error{Verb: "load", File: s.Path, Code: fault.InvalidArgument, Message: "Suite file does not have a default export: " + s.Path}
	}
	r := &valueReader{what: "suite"}
	if o, ok := def.(*goja.Object); ok && isData(o) {
		keys := o.Keys()
		for i, key := range keys {
			at := "case " + fmt.Sprint(i+1)
			if o.ClassName() != "Array" {
				at = "case " + key
			}
			s.readCase(realm, r, o.Get(key), at)
		}
		if len(keys) == 0 {
			r.reportInvalid("default export", "expected at least one case")
		}
	} else {
		r.reportInvalid("default export", "expected an array or an object of cases")
	}
	if w := ns.Get("workspace"); w != nil && !goja.IsUndefined(w) {
		r.what = "suite config"
		s.Workspace = r.readWorkspace(toData(realm.vm.rt, w), "workspace")
		s.Workspace.resolvePaths(s.Dir)
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

func (s *Suite) readCase(realm *realm, r *valueReader, v goja.Value, at string) {
	o, ok := v.(*goja.Object)
	if !ok || !isData(o) || o.ClassName() == "Array" {
		r.reportInvalid(at, "expected an object")
		return
	}
	get := func(key string) any { return toData(realm.vm.rt, o.Get(key)) }
	c := Case{}
	id, _ := get("id").(string)
	if strings.TrimSpace(id) == "" {
		r.reportInvalid(at+": id", "expected non-empty string")
		return
	}
	c.ID, at = id, "case "+id
	for _, key := range o.Keys() {
		if !slices.Contains(caseKeys, key) {
			s.Notices = append(s.Notices, fmt.Sprintf("case %s has a key that means nothing: %s (known: %s)", id, key, strings.Join(caseKeys, ", ")))
		}
	}
	if _, twice := realm.cases[id]; twice {
		r.setError(at, fmt.Sprintf("Duplicate case id: %s", id))
	}
	c.Prompt = r.requireText(get("prompt"), at+": prompt")
	c.Tags = r.readTags(get("tags"), id)
	c.Timeout = r.readMillis(get("timeoutMs"), at+": timeoutMs")
	c.ExpectedFail = r.readBool(get("expectedFail"), at+": expectedFail")
	if _, ok := goja.AssertFunction(o.Get("assert")); !ok {
		r.reportInvalid(at+": assert", "expected a function (report, ctx)")
	}
	if f := o.Get("classifyFailure"); f != nil && !goja.IsUndefined(f) {
		if _, c.HasClassify = goja.AssertFunction(f); !c.HasClassify {
			r.reportInvalid(at+": classifyFailure", "expected a function (result)")
		}
	}
	realm.cases[id] = o
	s.Cases = append(s.Cases, c)
	for _, tag := range c.Tags {
		if !slices.Contains(s.Tags, tag) {
			s.Tags = append(s.Tags, tag)
		}
	}
}

// readTags reads the tags of a case, each once.
func (r *valueReader) readTags(v any, id string) []string {
	if isAbsent(v) {
		return nil
	}
	items, ok := v.(dataList)
	if !ok {
		r.setError("", fmt.Sprintf("Invalid tags for case %s: expected array of non-empty strings", id))
		return nil
	}
	var tags []string
	for i, item := range items {
		tag, ok := item.(string)
		if !ok || strings.TrimSpace(tag) == "" {
			r.setError("", fmt.Sprintf("Invalid tag for case %s at index %d: expected non-empty string", id, i))
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// A userModule is a file of the user that was evaluated in an engine of its own.
type userModule struct {
	*realm
	tmp string // its own temporary directory; "" for none
}

// openModule evaluates a file and passes what it exports to exported. Close the module
// after use. verb is for errors.
func (l *Loader) openModule(ctx context.Context, verb, path string, exported func(v *vm, ns *goja.Object)) (*userModule, error) {
	prog, err := bundleSource(bundleInput{path: path})
	if err != nil {
		if e := new(Error); errors.As(err, &e) {
			e.Verb = verb
		}
		return nil, err
	}
	use, tmp, err := l.withTmp()
	if err != nil {
		return nil, err
	}
	v, err := use.newVM([]string{filepath.Dir(path)})
	if err != nil {
		return nil, joinErrors(err, removeTmp(tmp))
	}
	m, ex := &userModule{&realm{vm: v}, tmp}, &execution{}
	err = v.runExecution(ctx, ex, func() error {
		return v.evaluateBundle(ex, prog, func(ns *goja.Object) error { exported(v, ns); return nil })
	}, func() error { return v.loadError(verb, path, ex) })
	if err != nil {
		return nil, joinErrors(err, m.Close())
	}
	return m, nil
}

// Close ends the engine and removes its temporary files.
func (m *userModule) Close() error { return joinErrors(m.close(), removeTmp(m.tmp)) }

// evalData evaluates a module that exports data: a configuration.
func (l *Loader) evalData(ctx context.Context, path string) (data any, err error) {
	data = undefined{}
	m, err := l.openModule(ctx, "read config", path, func(v *vm, ns *goja.Object) {
		if def := ns.Get("default"); def != nil {
			data = toData(v.rt, def)
		} else {
			data = toData(v.rt, ns)
		}
	})
	if err != nil {
		return nil, err
	}
	return data, m.Close()
}

// toData copies a value out of the engine. Values that are not data are opaque.
func toData(rt *goja.Runtime, v goja.Value) any { return copyData(rt, v, 0) }

// maxDataDepth bounds the nesting of data, so that cycles end.
const maxDataDepth = 64

func copyData(rt *goja.Runtime, v goja.Value, depth int) any {
	switch {
	case v == nil || goja.IsUndefined(v):
		return undefined{}
	case goja.IsNull(v):
		return nil
	case depth > maxDataDepth:
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
		items := make(dataList, 0, n)
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
