package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Config says with which runners a suite is run, and how. Its paths are absolute.
type Config struct {
	Path      string // of the file
	Dir       string // its directory
	Run       RunOptions
	Timeout   time.Duration // of a case that has none; 0 is not set (skillgym: 120 s)
	Runners   []Runner      // in the order of the file
	Snapshots *Snapshots    // nil: token use is not compared
	Croft     Croft
	Notices   []string // what the user should know: deprecated keys
}

// RunOptions are the defaults of a run. The zero value of each is not set.
type RunOptions struct {
	Cwd           string
	OutputDir     string
	Reporter      string // the name of one that is built in, or a path
	Schedule      string // serial, parallel or isolated-by-runner
	Workspace     *Workspace
	MaxSteps      int
	MaxParallel   int
	Repeat        int
	RepeatFailure int // also what the deprecated retryFailed said
	Tags          []string
}

// A Runner is an agent with a model, under an id of its own.
type Runner struct {
	ID    string
	Agent Agent
}

// An Agent says how an agent is started. Relative paths in Command and CommandArgs were
// made absolute.
type Agent struct {
	Type        string
	Model       string
	Command     string
	CommandArgs []string
	Env         map[string]string
}

// AgentTypes are the types of agents.
var AgentTypes = []string{"codex", "opencode", "claude-code", "cursor-agent", "copilot", "gemini", "acp", "command"}

// Schedules are the orders in which executions run.
var Schedules = []string{"serial", "parallel", "isolated-by-runner"}

// Toolsets are the names that Croft's tools can have.
var Toolsets = []string{"default", "full", "codegen", "workspace", "both"}

// Metrics are what snapshots can compare.
var Metrics = []string{"totalTokens", "inputTokens", "outputTokens", "reasoningTokens", "cacheTokens"}

// Reporters are the built-in reporters; any other value of run.reporter is a path.
var Reporters = []string{"standard", "json", "json-summary", "github-actions", "html", "junit", "markdown"}

// Snapshots compare token use with a baseline.
type Snapshots struct {
	Path     string   // "": skillgym.snapshots.json beside the configuration
	Metric   string   // "": totalTokens
	Absolute *float64 // nil: not bounded so; one of the two is set
	Percent  *float64
}

// Croft has the settings that only Croft knows, under the key croft.
type Croft struct {
	Provider  string          // kind of the workspaces; "" is the default
	Policy    json.RawMessage // a driver.Policy as JSON; nil for none
	AllowNet  []string        // hosts that agents may reach
	Limits    driver.Limits   // of each workspace
	Bootstrap string          // "each" (or "") prepares every workspace; "once" prepares one and forks it
	Record    string          // directory to which the traffic with models is recorded
	Replay    string          // directory from which the traffic is replayed
	Tools     string          // names of the tools of Croft that agents get: one of Toolsets; "" for none
	Judge     *JudgeConfig

	OutputBytes int64 // most that is kept of each log of an agent; 0 is not set
}

// A JudgeConfig is the model behind assert.judge.
type JudgeConfig struct {
	API    string // openai or anthropic
	URL    string // of the endpoint; "" is the vendor's
	Model  string
	KeyEnv string // the variable that holds the key
}

// configNames are the names of configuration files, in skillgym's order; Croft's is last.
var configNames = []string{
	"skillgym.config.ts", "skillgym.config.mts", "skillgym.config.cts",
	"skillgym.config.js", "skillgym.config.mjs", "skillgym.config.cjs", "croft.eval.yaml",
}

// LoadConfig reads the configuration of a suite: the explicit file if one is named, else
// the one in the nearest directory from the suite's upwards. Two in one directory are an
// error.
func LoadConfig(ctx context.Context, suitePath, explicit string) (*Config, error) {
	return new(Loader).LoadConfig(ctx, suitePath, explicit)
}

// LoadConfig is the function LoadConfig with the options of l.
func (l *Loader) LoadConfig(ctx context.Context, suitePath, explicit string) (*Config, error) {
	path, err := findConfig(suitePath, explicit)
	if err != nil {
		return nil, err
	}
	v, at, err := l.readData(ctx, path)
	if err != nil {
		return nil, err
	}
	cfg, bad := parseConfig(v)
	if bad != nil {
		return nil, &Error{Verb: "read config", File: path + at(bad.path), Code: fault.InvalidArgument, Message: bad.message}
	}
	cfg.Path, cfg.Dir = path, filepath.Dir(path)
	cfg.resolvePaths()
	return cfg, nil
}

// readData evaluates or parses a file that exports data. at returns the position of a key
// path in the file, if it is known.
func (l *Loader) readData(ctx context.Context, path string) (v any, at func(string) string, err error) {
	if isYAML(path) {
		return readYAML("read config", path)
	}
	v, err = l.evalData(ctx, path)
	return v, func(string) string { return "" }, err
}

func findConfig(suitePath, explicit string) (string, error) {
	if explicit != "" {
		path, err := filepath.Abs(explicit)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", &Error{Verb: "read config", File: explicit, Code: fault.Of(err), Message: "the named file can't be read"}
		}
		return path, nil
	}
	dir, err := filepath.Abs(filepath.Dir(suitePath))
	if err != nil {
		return "", fmt.Errorf("suite: find config of %s: %w", suitePath, err)
	}
	for {
		found, err := configsIn(dir)
		if err != nil {
			return "", err
		}
		if len(found) > 1 {
			return "", &Error{Verb: "find config", Code: fault.InvalidArgument,
				Message: fmt.Sprintf("Multiple config files found in %s: %s", dir, strings.Join(found, ", "))}
		}
		if len(found) == 1 {
			return filepath.Join(dir, found[0]), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", &Error{Verb: "find config", Code: fault.NotFound,
				Message: "No skillgym config found. Create skillgym.config.ts with a non-empty runners map."}
		}
		dir = parent
	}
}

// configsIn returns the names of configurations in a directory, sorted.
func configsIn(dir string) ([]string, error) {
	var found []string
	for _, name := range configNames {
		info, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case err == nil && info.Mode()&os.ModeSymlink != 0:
			if target, err := os.Stat(filepath.Join(dir, name)); err == nil && target.Mode().IsRegular() {
				found = append(found, name)
			}
		case err == nil && info.Mode().IsRegular():
			found = append(found, name)
		case err != nil && !os.IsNotExist(err):
			return nil, fmt.Errorf("suite: find config in %s: %w: %w", dir, fault.Of(err), err)
		}
	}
	slices.Sort(found)
	return found, nil
}

func parseConfig(v any) (*Config, *badValue) {
	r := &valueReader{what: "config"}
	o := r.readObject(v, "", "run", "defaults", "runners", "snapshots", "croft")
	cfg := &Config{}
	if run := o.get("run"); !isAbsent(run) {
		r.readRun(run, cfg)
	}
	if d := o.get("defaults"); !isAbsent(d) {
		cfg.Timeout = r.readMillis(r.readObject(d, "defaults", "timeoutMs").get("timeoutMs"), "defaults.timeoutMs")
	}
	cfg.Runners = r.readRunners(o.get("runners"))
	if s := o.get("snapshots"); !isAbsent(s) {
		cfg.Snapshots = r.readSnapshots(s)
	}
	if c := o.get("croft"); !isAbsent(c) {
		cfg.Croft = r.readCroft(c)
	}
	return cfg, r.err
}

func (r *valueReader) readRun(v any, cfg *Config) {
	o := r.readObject(v, "run", "cwd", "outputDir", "reporter", "schedule", "workspace", "maxSteps", "maxParallel",
		"repeat", "repeatFailure", "retryFailed", "tags")
	run := &cfg.Run
	run.MaxSteps = r.readInt(o.get("maxSteps"), "run.maxSteps", 1)
	run.MaxParallel = r.readInt(o.get("maxParallel"), "run.maxParallel", 1)
	run.Repeat = r.readInt(o.get("repeat"), "run.repeat", 1)
	run.RepeatFailure = r.readInt(o.get("repeatFailure"), "run.repeatFailure", 0)
	if old := o.get("retryFailed"); !isAbsent(old) {
		n := r.readInt(old, "run.retryFailed", 0)
		cfg.Notices = append(cfg.Notices, "run.retryFailed is deprecated: use run.repeatFailure")
		if isAbsent(o.get("repeatFailure")) {
			run.RepeatFailure = n
		}
	}
	run.Cwd = r.readText(o.get("cwd"), "run.cwd")
	run.OutputDir = r.readText(o.get("outputDir"), "run.outputDir")
	run.Reporter = r.readText(o.get("reporter"), "run.reporter")
	run.Schedule = r.readEnum(o.get("schedule"), "run.schedule", Schedules...)
	if w := o.get("workspace"); !isAbsent(w) {
		run.Workspace = r.readWorkspace(w, "run.workspace")
	}
	run.Tags = r.readTexts(o.get("tags"), "run.tags")
}

func (r *valueReader) readRunners(v any) []Runner {
	o := r.readObject(v, "runners")
	if len(o.keys) == 0 {
		r.reportInvalid("runners", "expected non-empty object")
	}
	var runners []Runner
	for _, id := range o.keys {
		path := joinPath("runners", id)
		agent := r.readObject(o.fields[id], path, "agent").get("agent")
		runners = append(runners, Runner{ID: id, Agent: r.readAgent(agent, joinPath(path, "agent"))})
	}
	return runners
}

func (r *valueReader) readAgent(v any, path string) Agent {
	o := r.readObject(v, path)
	kind, ok := o.get("type").(string)
	if !ok || !slices.Contains(AgentTypes, kind) {
		last := len(AgentTypes) - 1
		r.reportInvalid(joinPath(path, "type"), `expected "%s", or %q`, strings.Join(AgentTypes[:last], `", "`), AgentTypes[last])
	}
	r.readObject(v, path, "type", "command", "commandArgs", "env", "model")
	a := Agent{
		Type:        kind,
		Command:     r.readText(o.get("command"), joinPath(path, "command")),
		CommandArgs: r.readTexts(o.get("commandArgs"), joinPath(path, "commandArgs")),
		Env:         r.readEnv(o.get("env"), joinPath(path, "env")),
	}
	if kind == "command" || kind == "acp" { // any program: a model is optional
		a.Model = r.readText(o.get("model"), joinPath(path, "model"))
		r.requireText(o.get("command"), joinPath(path, "command"))
	} else {
		a.Model = r.requireText(o.get("model"), joinPath(path, "model"))
	}
	return a
}

func (r *valueReader) readSnapshots(v any) *Snapshots {
	o := r.readObject(v, "snapshots", "path", "metric", "tolerance")
	t := r.readObject(o.get("tolerance"), "snapshots.tolerance", "absolute", "percent")
	s := &Snapshots{
		Absolute: r.readNumber(t.get("absolute"), "snapshots.tolerance.absolute"),
		Percent:  r.readNumber(t.get("percent"), "snapshots.tolerance.percent"),
		Path:     r.readText(o.get("path"), "snapshots.path"),
		Metric:   r.readEnum(o.get("metric"), "snapshots.metric", Metrics...),
	}
	if s.Absolute == nil && s.Percent == nil {
		r.reportInvalid("snapshots.tolerance", "expected at least one of absolute or percent")
	}
	return s
}

func (r *valueReader) readCroft(v any) Croft {
	o := r.readObject(v, "croft", "provider", "policy", "allowNet", "limits", "bootstrap", "record", "replay", "tools", "judge")
	c := Croft{
		Provider:  r.readText(o.get("provider"), "croft.provider"),
		AllowNet:  r.readTexts(o.get("allowNet"), "croft.allowNet"),
		Bootstrap: r.readEnum(o.get("bootstrap"), "croft.bootstrap", "each", "once"),
		Record:    r.readText(o.get("record"), "croft.record"),
		Replay:    r.readText(o.get("replay"), "croft.replay"),
		Tools:     r.readEnum(o.get("tools"), "croft.tools", Toolsets...),
	}
	if p := o.get("policy"); !isAbsent(p) {
		raw, err := json.Marshal(toPlain(r.readObject(p, "croft.policy")))
		if err != nil {
			r.reportInvalid("croft.policy", "expected plain data")
		}
		c.Policy = raw
	}
	if l := o.get("limits"); !isAbsent(l) {
		c.Limits, c.OutputBytes = r.readLimits(l)
	}
	if j := o.get("judge"); !isAbsent(j) {
		c.Judge = r.readJudge(j)
	}
	if c.Record != "" && c.Replay != "" {
		r.reportInvalid("croft.replay", "expected this key to be omitted when croft.record is set")
	}
	return c
}

// limitKey is the key of a resource in croft.limits, with its unit: memoryBytes, cpus,
// pids, wallMs.
func limitKey(r driver.ResourceInfo) string {
	return string(r.Name) + map[driver.Unit]string{driver.UnitBytes: "Bytes", driver.UnitMillicores: "s", driver.UnitNanoseconds: "Ms"}[r.Unit]
}

const outputKey = "outputBytes"

// readLimits reads croft.limits: those of workspaces, and that of logs.
func (r *valueReader) readLimits(v any) (driver.Limits, int64) {
	const p = "croft.limits."
	keys := []string{outputKey}
	for _, res := range driver.Resources {
		keys = append(keys, limitKey(res))
	}
	o := r.readObject(v, "croft.limits", keys...)
	limits := driver.Limits{}
	for _, res := range driver.Resources {
		key := limitKey(res)
		most := int64(0)
		switch v := o.get(key); res.Unit {
		case driver.UnitMillicores:
			if n := r.readNumber(v, p+key); n != nil && *n > 0 {
				most = int64(max(1, math.Round(*n*1000)))
			}
		case driver.UnitNanoseconds:
			most = int64(r.readMillis(v, p+key))
		default:
			most = int64(r.readInt(v, p+key, 1))
		}
		limits[res.Name] = driver.Limit{Max: most}
	}
	return limits.With(nil), int64(r.readInt(o.get(outputKey), p+outputKey, 1))
}

func (r *valueReader) readJudge(v any) *JudgeConfig {
	const p = "croft.judge"
	o := r.readObject(v, p, "api", "url", "model", "keyEnv")
	j := &JudgeConfig{
		API:    r.readEnum(o.get("api"), p+".api", "openai", "anthropic"),
		URL:    r.readText(o.get("url"), p+".url"),
		Model:  r.requireText(o.get("model"), p+".model"),
		KeyEnv: r.readText(o.get("keyEnv"), p+".keyEnv"),
	}
	if j.API == "" {
		j.API = "openai"
	}
	return j
}

// resolvePaths makes the paths of the file absolute.
func (cfg *Config) resolvePaths() {
	abs := func(p string) string { return resolveFrom(cfg.Dir, p) }
	run := &cfg.Run
	run.Cwd, run.OutputDir = abs(run.Cwd), abs(run.OutputDir)
	if run.Reporter != "" && !slices.Contains(Reporters, run.Reporter) {
		run.Reporter = abs(run.Reporter)
	}
	if run.Workspace != nil {
		run.Workspace.resolvePaths(cfg.Dir)
	}
	for i := range cfg.Runners {
		a := &cfg.Runners[i].Agent
		a.Command = resolvePathLike(cfg.Dir, a.Command)
		for j := range a.CommandArgs {
			a.CommandArgs[j] = resolvePathLike(cfg.Dir, a.CommandArgs[j])
		}
	}
	if cfg.Snapshots != nil {
		cfg.Snapshots.Path = abs(cfg.Snapshots.Path)
	}
	cfg.Croft.Record, cfg.Croft.Replay = abs(cfg.Croft.Record), abs(cfg.Croft.Replay)
}
