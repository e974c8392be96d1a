package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/agent"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/workspace/driver"
)

// workspaceFile is workspace.json: how the workspace of a session was made, and whether
// it was kept.
type workspaceFile struct {
	Mode          string         `json:"mode"`
	Cwd           string         `json:"cwd,omitempty"`
	TemplateDir   string         `json:"templateDir,omitempty"`
	WorkspacePath string         `json:"workspacePath,omitempty"`
	Bootstrap     *bootstrapFile `json:"bootstrap,omitempty"`
	Preserved     *bool          `json:"preserved,omitempty"`
	CleanupError  string         `json:"cleanupError,omitempty"`

	// What Croft adds.
	Provider string   `json:"provider,omitempty"`
	LeftOut  []string `json:"leftOut,omitempty"` // entries of a kept workspace that could not be exported
}

// bootstrapFile is the result of the bootstrap command.
type bootstrapFile struct {
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	DurationMs int64    `json:"durationMs"`
	ExitCode   *int     `json:"exitCode"` // nil after a time-out
	StdoutPath string   `json:"stdoutPath"`
	StderrPath string   `json:"stderrPath"`

	StdoutDropped int64 `json:"stdoutDropped,omitempty"` // bytes beyond the size limit of the log
	StderrDropped int64 `json:"stderrDropped,omitempty"`
}

// A setupError is why a workspace could not be prepared.
type setupError struct {
	origin Origin
	log    string // path of a log with details
	err    error
}

func (e *setupError) Error() string { return e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

// environments prepares the environments of a run.
type environments struct {
	plan      *plan
	readDirs  []string // directories of the host that are shown
	programs  []string // installations of programs that are shown, to all runners or to one
	writeDirs []string // host directories that all executions may write
	limits    driver.Limits
	policy    driver.Policy

	template     string // what workspaces start from: templateDir, or what was made of it
	bootstrapped bool   // template was made for this run, bootstrapped

	shared struct {
		once sync.Once
		err  error
	}
	templateFiles templateListing // of template, once
}

// newEnvironments decides, once, how the environments of the run are made.
func newEnvironments(ctx context.Context, p *plan) (*environments, error) {
	v := &environments{plan: p}
	if err := v.setPolicy(); err != nil {
		return nil, err
	}
	v.setReadDirs(ctx)
	if err := v.resolveTemplate(ctx); err != nil {
		return nil, err
	}
	if p.config.Croft.Bootstrap == "once" && p.workspace.Bootstrap != nil && p.workspace.Mode == suite.ModeIsolated {
		return v, v.bootstrapOnce(ctx, envRequest{timeout: defaultTimeout, hosts: p.allowedHosts(nil)})
	}
	return v, nil
}

// setPolicy takes the policy and limits of the configuration. The limits of the options
// take precedence, then croft.limits, then croft.policy.
func (v *environments) setPolicy() error {
	cfg := v.plan.config
	if raw := cfg.Croft.Policy; raw != nil {
		if err := driver.DecodeStrict(raw, &v.policy); err != nil {
			return fmt.Errorf("eval: %s: croft.policy: %w", cfg.Path, err)
		}
	}
	if v.plan.Envs.Sandboxed() {
		env := toolchain.Env(v.plan.Toolchains, os.Getenv("PATH"))
		maps.Copy(env, v.policy.Env)
		v.policy.Env = env
	}
	v.limits = v.policy.Limits.With(cfg.Croft.Limits).With(v.plan.Limits)
	return nil
}

// setReadDirs lists the host directories that executions see besides their workspace:
// those of the suite and its configuration, those that the bootstrap command names, and
// those of the agents' programs.
func (v *environments) setReadDirs(ctx context.Context) {
	p := v.plan
	if !p.Envs.Sandboxed() {
		return
	}
	v.writeDirs = realDirs(p.Write)
	v.readDirs = realDirs(slices.Concat([]string{filepath.Dir(p.suite.Path()), p.config.Dir}, p.Read))
	if p.Tmp != "" {
		v.readDirs = append(v.readDirs, realDirs([]string{p.Tmp})...)
	}
	var programs []string
	if b := p.workspace.Bootstrap; b != nil {
		v.readDirs = append(v.readDirs, namedDirs(b.Args)...)
		programs = programDirs(b.Command, os.Getenv("PATH"))
	}
	named := slices.Clone(v.readDirs)
	v.readDirs = append(v.readDirs, programs...)
	for _, r := range p.runners {
		inv, err := dryRun(ctx, r)
		if err != nil || len(inv.Argv) == 0 {
			continue // the session reports the error
		}
		r.hosts = inv.Hosts
		own, arguments := programDirs(inv.Argv[0], cmp.Or(inv.Env["PATH"], os.Getenv("PATH"))), namedDirs(inv.Argv[1:])
		r.read = slices.Concat(own, arguments)
		named, programs = append(named, arguments...), append(programs, own...)
	}
	v.programs = slices.DeleteFunc(installations(programs), func(dir string) bool { return slices.Contains(named, dir) })
}

// A preparedEnv is an environment that is ready for one session.
type preparedEnv struct {
	env  *Env
	file workspaceFile
	path string // the workspace, if it belongs to this execution alone; else ""
}

// An envRequest describes the session that an environment is prepared for.
type envRequest struct {
	caseID, runnerID string // "" of a shared workspace
	caseKey, pathKey string
	artifacts        string // directory
	timeout          time.Duration
	hosts            []string
	read             []string // host directories that this runner needs
}

// forExecution prepares the environment of a session of an execution.
func (v *environments) forExecution(ctx context.Context, e *execution, artifacts string) (*preparedEnv, error) {
	return v.prepare(ctx, envRequest{caseID: e.c.ID, runnerID: e.runner.info.ID, caseKey: e.c.key, pathKey: e.runner.info.PathKey, artifacts: artifacts,
		timeout: e.c.timeout, hosts: v.plan.allowedHosts(e.runner), read: e.runner.read})
}

// envSpec is the EnvSpec of a request, without its directory.
func (v *environments) envSpec(o envRequest) EnvSpec {
	return EnvSpec{Write: append([]string{o.artifacts}, v.writeDirs...), Read: slices.Concat(v.readDirs, o.read), Programs: v.programs, Tools: v.plan.Toolchains, Hosts: o.hosts, Limits: v.limits, Policy: v.policy}
}

// prepare makes the environment of one session.
func (v *environments) prepare(ctx context.Context, o envRequest) (*preparedEnv, error) {
	spec := &v.plan.workspace
	d := &preparedEnv{file: v.workspaceFile("")}
	req := v.envSpec(o)
	switch {
	case spec.InPlace():
		req.Dir, req.InPlace = v.plan.cwd, true
	case spec.Mode == suite.ModeShared:
		v.shared.once.Do(func() { v.shared.err = v.makeShared(ctx, o) })
		if v.shared.err != nil { // the error is the same for all executions
			return d, v.shared.err
		}
		req.Dir, req.InPlace = v.workspaceDir(sharedName), true
		d.file = v.workspaceFile(req.Dir)
	default:
		d.path = v.workspaceDir(filepath.Join(o.caseKey, o.pathKey))
		req.Dir, req.Template = d.path, v.template
		d.file = v.workspaceFile(d.path)
		if err := v.checkTemplate(); err != nil {
			return d, err
		}
		if err := files.RemoveTree(d.path); err != nil {
			return d, &setupError{OriginWorkspace, "", fmt.Errorf("eval: make the workspace: %w: %w", fault.Of(err), err)}
		}
	}
	d.file.Cwd, req.Hide = req.Dir, v.hiddenDir(req)
	env, err := v.plan.Envs.Open(ctx, req)
	if err != nil {
		return d, &setupError{OriginWorkspace, "", err}
	}
	d.env = env
	if d.path != "" && spec.Bootstrap != nil && !v.bootstrapped {
		return d, v.runBootstrap(ctx, d, o)
	}
	return d, nil
}

// workspaceFile describes a workspace. dir is "" if agents work in place.
func (v *environments) workspaceFile(dir string) workspaceFile {
	f := workspaceFile{Mode: v.plan.workspace.Mode, Provider: v.plan.Envs.Kind()}
	if dir != "" {
		f.TemplateDir, f.WorkspacePath = v.plan.workspace.TemplateDir, dir
	}
	return f
}

// checkTemplate is called for each session: the template may be removed while a run is
// under way.
func (v *environments) checkTemplate() error {
	if dir := v.plan.workspace.TemplateDir; dir != "" {
		if err := checkTemplate(dir); err != nil {
			return &setupError{OriginWorkspace, "", err}
		}
	}
	return nil
}

func checkTemplate(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &skillgymError{fault.NotFound, "Workspace template directory does not exist: " + dir}
	case err != nil:
		return fmt.Errorf("eval: template %s: %w: %w", dir, fault.Of(err), err)
	case !info.IsDir():
		return &skillgymError{fault.InvalidArgument, "Workspace template path is not a directory: " + dir}
	}
	return nil
}

// A skillgymError has the wording of skillgym, with a code of package fault.
type skillgymError struct {
	code fault.Code
	text string
}

func (e *skillgymError) Error() string { return e.text }
func (e *skillgymError) Unwrap() error { return e.code }

// skillgymEnv returns the variables of a bootstrap command.
func skillgymEnv(dir string, o envRequest, runDir string) map[string]string {
	env := map[string]string{"SKILLGYM_WORKSPACE": dir, "SKILLGYM_OUTPUT_DIR": runDir, "SKILLGYM_ARTIFACT_DIR": o.artifacts}
	if o.runnerID != "" {
		env["SKILLGYM_CASE_ID"], env["SKILLGYM_RUNNER_ID"] = o.caseID, o.runnerID
	}
	return env
}

// runBootstrap runs the bootstrap command in the workspace. An error names the hosts that
// the network policy refused it.
func (v *environments) runBootstrap(ctx context.Context, d *preparedEnv, o envRequest) error {
	err := d.runBootstrap(ctx, v.plan.workspace.Bootstrap, o, v.plan.runDir)
	setup := new(setupError)
	if !errors.As(err, &setup) {
		return err
	}
	if hint := refusedHosts(v.plan.networkRequests(ctx, d.env)); hint != "" {
		setup.err = fmt.Errorf("%w\n%s", setup.err, hint)
	}
	return setup
}

// runBootstrap runs the bootstrap command in the workspace.
func (d *preparedEnv) runBootstrap(ctx context.Context, b *suite.Bootstrap, o envRequest, runDir string) error {
	f := &bootstrapFile{Command: b.Command, Args: append([]string{}, b.Args...),
		StdoutPath: filepath.Join(o.artifacts, "bootstrap.stdout.log"), StderrPath: filepath.Join(o.artifacts, "bootstrap.stderr.log")}
	failed := func(err error) error { return &setupError{OriginBootstrap, f.StderrPath, err} }
	stdout, err := newLog(f.StdoutPath)
	if err != nil {
		return failed(err)
	}
	defer stdout.Close() // a log
	stderr, err := newLog(f.StderrPath)
	if err != nil {
		return failed(err)
	}
	defer stderr.Close() // a log
	env := map[string]string{}
	maps.Copy(env, b.Env)
	maps.Copy(env, skillgymEnv(d.env.Dir(), o, runDir))
	timeout := cmp.Or(b.Timeout, o.timeout)
	argv := append([]string{b.Command}, b.Args...)
	start := time.Now()
	res, err := d.env.runCommand(ctx, agent.Invocation{Argv: argv, Dir: d.env.Dir(), Env: env, Timeout: timeout, Stdout: stdout, Stderr: stderr})
	d.file.Bootstrap, f.DurationMs = f, time.Since(start).Milliseconds()
	f.StdoutDropped, f.StderrDropped = stdout.dropped, stderr.dropped
	line := strings.Join(argv, " ")
	if err != nil {
		return failed(fmt.Errorf("Workspace bootstrap failed: %s: %w", line, err)) // skillgym's sentence
	}
	code := "null"
	if res.Cause != driver.CauseTimeout {
		f.ExitCode, code = new(res.ExitCode), strconv.Itoa(res.ExitCode)
	}
	if res.ExitCode != 0 || res.Cause != "" {
		text := fmt.Sprintf("Workspace bootstrap failed: %s (exit %s)", line, code)
		if res.Cause == driver.CauseTimeout {
			text += fmt.Sprintf(": it ran for longer than %v", timeout)
		}
		return failed(&skillgymError{fault.Failed, text})
	}
	return nil
}

// writeFile writes workspace.json, in place of what the agent left there.
func (d *preparedEnv) writeFile(artifacts string) error {
	return errors.Join(removeForged(artifacts, workspaceName), writeJSON(filepath.Join(artifacts, workspaceName), d.file))
}

// finish ends the environment of a session: the workspace is removed, or kept as a
// directory of the host. Neither can fail the case; errors are recorded in
// workspace.json.
func (d *preparedEnv) finish(ctx context.Context, keep bool, artifacts string, closeEnv func(ctx context.Context, d *preparedEnv, failed func(error))) error {
	ctx = context.WithoutCancel(ctx)
	if err := removeForged(artifacts, cleanupName); err != nil {
		return err
	}
	if d.path != "" {
		preserved, err := d.keepOrRemove(ctx, keep)
		d.file.Preserved = &preserved
		if err != nil {
			d.file.CleanupError = err.Error()
			if !keep {
				d.file.Preserved = new(true)
			}
			if werr := writeAtomic(filepath.Join(artifacts, cleanupName), []byte(err.Error())); werr != nil {
				return werr
			}
		}
	}
	err := d.writeFile(artifacts)
	if d.env == nil {
		return err
	}
	file := d.file
	closeEnv(ctx, d, func(err error) {
		if file.CleanupError == "" {
			file.CleanupError = err.Error()
		}
		(&preparedEnv{file: file}).writeFile(artifacts) //nolint:errcheck // it was written once, and the error has no other place
	})
	return err
}

// keepOrRemove removes the directory of the workspace, or exports the workspace to it.
func (d *preparedEnv) keepOrRemove(ctx context.Context, keep bool) (preserved bool, err error) {
	if !keep {
		return false, files.RemoveTree(d.path)
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil || d.env == nil || d.env.onHost {
		return true, err
	}
	d.file.LeftOut, err = exportWorkspace(ctx, d.env.Workspace, d.path)
	if fault.Of(err) == fault.ResourceExhausted { // a partial export would keep the disk full
		return false, errors.Join(err, files.RemoveTree(d.path))
	}
	return true, err
}

// hiddenDir returns the directory of results that is masked in an environment: that of
// all runs or, if it contains a directory that the agent needs, that of this run. It
// keeps an agent from reading the artifacts and credentials of other agents.
func (v *environments) hiddenDir(req EnvSpec) string {
	for _, dir := range []string{filepath.Dir(v.plan.runDir), v.plan.runDir} {
		shown := slices.ContainsFunc(req.Read, func(read string) bool { return paths.Inside(dir, read) })
		if !shown && (!req.InPlace || !paths.Inside(req.Dir, dir)) {
			return dir
		}
	}
	return ""
}
