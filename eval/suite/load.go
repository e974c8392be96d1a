package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/locktmp"
)

// A Loader reads suites and configurations. Its zero value is ready to use.
type Loader struct {
	TmpDir string      // what os.tmpdir() names; "" is a new one, which Close removes
	Limit  Limit       // of each turn
	Log    func(l Log) // called with each line of the console; Outcome.Logs has them, too

	// Node starts Node, in which suites, configurations and reporters run that are not YAML.
	// nil starts that of the PATH as a child of this process, without a sandbox.
	Node func(ctx context.Context, start NodeStart) (*NodeProcess, error)

	shared *sharedEngine // nil: each file has an engine of its own
}

// A sharedEngine is the one in which a configuration and its suite are evaluated. start starts it,
// once.
type sharedEngine struct {
	dirs    []string // of both
	start   func() (*engine, error)
	started bool
}

func (e *sharedEngine) close() error {
	if !e.started {
		return nil
	}
	n, err := e.start()
	if err != nil {
		return nil // who asked for it was told
	}
	return n.close()
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

	loader *Loader   // with its temporary directory
	bundle []byte    // nil: it has no JavaScript
	plan   *yamlPlan // nil: it is not YAML
	dirs   []string
	tmp    string // removed by Close

	mu     sync.Mutex
	realm  *realm // guarded by mu
	closed bool   // guarded by mu
}

// A realm is the module of a suite, with the ids of its cases.
type realm struct {
	*module // nil: it has no JavaScript
	plan    *yamlPlan
	cases   map[string]bool
}

func (r *realm) broken() bool { return r.module != nil && r.engine.broken() }

func (r *realm) close() error {
	if r.module == nil {
		return nil
	}
	return r.module.close()
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
// time. Both run in one Node.
func (l *Loader) LoadBoth(ctx context.Context, path, config string) (s *Suite, cfg *Config, err error) {
	use, tmp, err := l.withTmp()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = joinErrors(err, removeTmp(tmp))
		}
	}()
	if use.shared, err = use.shareEngine(ctx, path, config); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil || s.bundle == nil {
			err = joinErrors(err, use.shared.close())
		}
	}()
	var wg sync.WaitGroup
	var bad error
	wg.Go(func() { s, bad = l.bundleSuite(path) })
	cfg, err = use.LoadConfig(ctx, path, config)
	wg.Wait()
	if err = cmp.Or(err, bad); err != nil {
		return nil, nil, err
	}
	if s, err = use.evaluateSuite(ctx, s, cfg); err != nil {
		return nil, nil, err
	}
	s.tmp, s.loader.shared = tmp, nil
	return s, cfg, nil
}

// shareEngine returns the engine for a suite and its configuration. It starts while they are bundled.
func (l *Loader) shareEngine(ctx context.Context, path, config string) (*sharedEngine, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("suite: load %s: %w: %w", path, fault.Of(err), err)
	}
	found, err := findConfig(path, config)
	if err != nil {
		return nil, err
	}
	e := &sharedEngine{dirs: slices.Compact([]string{filepath.Dir(abs), filepath.Dir(found)})}
	e.start = sync.OnceValues(func() (*engine, error) { return l.startEngine(ctx, e.dirs) })
	if e.started = !isYAML(abs) || !isYAML(found); e.started {
		go e.start() //nolint:errcheck // who needs it asks again
	}
	return e, nil
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
	s := &Suite{Path: path, Dir: filepath.Dir(path), plan: src.plan}
	if s.plan != nil && !s.plan.scripts {
		return s, nil
	}
	if s.bundle, err = bundleSource(src); err != nil {
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
	r, read, err := s.newRealm(ctx)
	if err != nil {
		return nil, joinErrors(err, s.Close())
	}
	s.Cases, s.Workspace, s.Tags, s.Notices = read.Cases, read.Workspace, read.Tags, read.Notices
	if r.module != nil {
		s.Logs = r.logs
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.realm = r
	return s, nil
}

// currentRealm returns the realm, a new one if the last Node has ended.
func (s *Suite) currentRealm(ctx context.Context) (*realm, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && !s.realm.broken() {
		return s.realm, nil
	}
	r, err := s.newRealmLocked(ctx)
	if err != nil {
		return nil, err
	}
	old := s.realm
	s.realm = r
	return r, old.close()
}

// newRealmIfOpen returns a realm of its own for one execution, which closes it.
func (s *Suite) newRealmIfOpen(ctx context.Context) (*realm, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newRealmLocked(ctx)
}

// newRealmLocked is newRealm for a suite that is open. The caller holds s.mu.
func (s *Suite) newRealmLocked(ctx context.Context) (*realm, error) {
	if s.closed {
		return nil, fmt.Errorf("suite: %w: the suite was closed", fault.WrongState)
	}
	r, _, err := s.newRealm(ctx)
	return r, err
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

// newRealm evaluates the suite in a new Node, and reads its exports.
func (s *Suite) newRealm(ctx context.Context) (*realm, *Suite, error) {
	var m *module
	var exports *dataObject
	if s.bundle != nil {
		var err error
		if m, exports, err = s.loader.evaluateBundle(ctx, "load", s.Path, s.bundle, s.dirs, caseKeys...); err != nil {
			return nil, nil, err
		}
		m.engine.mu.Lock()
		m.engine.plan = s.plan
		m.engine.mu.Unlock()
	}
	if s.plan != nil {
		exports = s.plan.exports
	}
	r, read := &realm{m, s.plan, map[string]bool{}}, &Suite{Path: s.Path, Dir: s.Dir}
	if err := read.readExports(r, exports); err != nil {
		return nil, nil, joinErrors(err, r.close())
	}
	return r, read, nil
}

// evaluateBundle evaluates a bundle in a Node of its own, which may read the directories, or in
// the shared one.
func (l *Loader) evaluateBundle(ctx context.Context, verb, path string, bundle []byte, dirs []string, keys ...string) (*module,
	*dataObject, error) {
	start := func() (*engine, error) { return l.startEngine(ctx, dirs) }
	if l.shared != nil {
		start, l.shared.started = l.shared.start, true
	}
	n, err := start()
	if err != nil {
		return nil, nil, err
	}
	m, exports, err := n.evaluate(ctx, verb, path, bundle, keys...)
	if err != nil {
		return nil, nil, joinErrors(err, n.close())
	}
	return m, exports, nil
}

// readExports reads the exports of the module. It is stricter than skillgym, which runs a
// suite without ids or assertions to its end first.
func (s *Suite) readExports(realm *realm, exports *dataObject) error {
	r := &valueReader{what: "suite"}
	switch def := exports.get("default").(type) {
	case undefined:
		return &Error{Verb: "load", File: s.Path, Code: fault.InvalidArgument, Message: "Suite file does not have a default export: " + s.Path}
	case dataList:
		for i, c := range def {
			s.readCase(realm, r, c, fmt.Sprintf("case %d", i+1))
		}
	case *dataObject:
		for _, key := range def.keys {
			s.readCase(realm, r, def.fields[key], "case "+key)
		}
	default:
		r.reportInvalid("default export", "expected an array or an object of cases")
	}
	if r.err == nil && len(s.Cases) == 0 {
		r.reportInvalid("default export", "expected at least one case")
	}
	if w := exports.get("workspace"); !isAbsent(w) {
		r.what = "suite config"
		s.Workspace = r.readWorkspace(w, "workspace")
		s.Workspace.resolvePaths(s.Dir)
	}
	if r.err != nil {
		return &Error{Verb: "load", File: s.Path, Code: fault.InvalidArgument, Message: r.err.message}
	}
	return nil
}

var caseKeys = []string{"id", "prompt", "tags", "timeoutMs", "expectedFail", "classifyFailure", "assert"}

func (s *Suite) readCase(realm *realm, r *valueReader, v any, at string) {
	o, ok := v.(*dataObject)
	if !ok {
		r.reportInvalid(at, "expected an object")
		return
	}
	c := Case{}
	id, _ := o.get("id").(string)
	if strings.TrimSpace(id) == "" {
		r.reportInvalid(at+": id", "expected non-empty string")
		return
	}
	c.ID, at = id, "case "+id
	for _, key := range o.keys {
		if !slices.Contains(caseKeys, key) {
			s.Notices = append(s.Notices, fmt.Sprintf("case %s has a key that means nothing: %s (known: %s)", id, key, strings.Join(caseKeys, ", ")))
		}
	}
	if realm.cases[id] {
		r.setError(at, fmt.Sprintf("Duplicate case id: %s", id))
	}
	c.Prompt = r.requireText(o.get("prompt"), at+": prompt")
	c.Tags = r.readTags(o.get("tags"), id)
	c.Timeout = r.readMillis(o.get("timeoutMs"), at+": timeoutMs")
	c.ExpectedFail = r.readBool(o.get("expectedFail"), at+": expectedFail")
	if o.get("assert") != aFunction {
		r.reportInvalid(at+": assert", "expected a function (report, ctx)")
	}
	if f := o.get("classifyFailure"); !isAbsent(f) {
		if c.HasClassify = f == aFunction; !c.HasClassify {
			r.reportInvalid(at+": classifyFailure", "expected a function (result)")
		}
	}
	realm.cases[id] = true
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

// openModule evaluates a file in a Node of its own. Close the module after use. verb is for
// errors.
func (l *Loader) openModule(ctx context.Context, verb, path string, keys ...string) (*module, *dataObject, error) {
	bundle, err := bundleSource(bundleInput{path: path})
	if err != nil {
		if e := new(Error); errors.As(err, &e) {
			e.Verb = verb
		}
		return nil, nil, err
	}
	use, tmp, err := l.withTmp()
	if err != nil {
		return nil, nil, err
	}
	m, exports, err := use.evaluateBundle(ctx, verb, path, bundle, []string{filepath.Dir(path)}, keys...)
	if err != nil {
		return nil, nil, joinErrors(err, removeTmp(tmp))
	}
	m.tmp = tmp
	return m, exports, nil
}

// evalData evaluates a module that exports data: a configuration.
func (l *Loader) evalData(ctx context.Context, path string) (data any, err error) {
	m, exports, err := l.openModule(ctx, "read config", path)
	if err != nil {
		return nil, err
	}
	if data = exports.get("default"); isAbsent(data) {
		data = exports
	}
	if l.shared != nil {
		return data, nil
	}
	return data, m.close()
}
