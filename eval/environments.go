package eval

import (
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
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/workspace/driver"
)

// workspaceFile is workspace.json: how the workspace of a session was made, and
// what became of it.
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
	LeftOut  []string `json:"leftOut,omitempty"` // what of a workspace that is kept could not be taken out
}

// bootstrapFile is how the bootstrap command went.
type bootstrapFile struct {
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	DurationMs int64    `json:"durationMs"`
	ExitCode   *int     `json:"exitCode"` // nil where its time ran out
	StdoutPath string   `json:"stdoutPath"`
	StderrPath string   `json:"stderrPath"`
}

// A setupError is why a workspace could not be prepared.
type setupError struct {
	origin Origin
	log    string // that may say more
	err    error
}

func (e *setupError) Error() string { return e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

// provision is how workspaces are made for a whole run.
type provision struct {
	envs   EnvFactory
	spec   suite.Workspace // with a mode, and absolute paths
	runDir string
	cwd    string   // of a workspace in place
	read   []string // directories of the host that are shown
	limits driver.Limits
	policy driver.Policy
	env    map[string]string // for every command, beside the host's

	template string // what to start from: spec.TemplateDir, or what was made of it
	exclude  string // what of it stays out
	made     bool   // template was made for this run, bootstrapped

	shared struct {
		once sync.Once
		err  error
	}
	templates listed // of template, once
}

// A preparedEnv is a prepared workspace: where an agent sits down.
type preparedEnv struct {
	env  *Env
	file workspaceFile
	path string // the workspace of this execution alone; "" is not its own
}

// envRequest says for what a workspace is prepared.
type envRequest struct {
	caseID, runnerID string // "" of a shared workspace
	caseKey, pathKey string
	artifacts        string // directory
	timeout          time.Duration
	hosts            []string
	read             []string // what this runner needs to see
}

// prepare makes the workspace of one session.
func (p *provision) prepare(ctx context.Context, o envRequest) (*preparedEnv, error) {
	d := &preparedEnv{file: workspaceFile{Mode: p.spec.Mode, Provider: p.envs.Kind()}}
	req := EnvSpec{Write: []string{o.artifacts}, Read: append(append([]string{}, p.read...), o.read...), Hosts: o.hosts, Limits: p.limits, Policy: p.policy, Env: p.env}
	switch {
	case p.spec.InPlace():
		req.Dir, req.InPlace = p.cwd, true
	case p.spec.Mode == suite.ModeShared:
		if err := p.sharedOnce(ctx, o); err != nil {
			return d, err
		}
		req.Dir, req.InPlace = p.sharedDir(), true
		d.file.TemplateDir, d.file.WorkspacePath = p.spec.TemplateDir, p.sharedDir()
	default:
		d.path = filepath.Join(p.runDir, "workspaces", o.caseKey, o.pathKey)
		req.Dir, req.Template, req.Exclude = d.path, p.template, p.exclude
		d.file.TemplateDir, d.file.WorkspacePath = p.spec.TemplateDir, d.path
		if err := p.ready(); err != nil {
			return d, err
		}
		if err := boundary.RemoveTree(d.path); err != nil {
			return d, &setupError{OriginWorkspace, "", fmt.Errorf("eval: make the workspace: %w: %w", fault.Of(err), err)}
		}
	}
	d.file.Cwd, req.Hide = req.Dir, p.hide(req)
	env, err := p.envs.Open(ctx, req)
	if err != nil {
		return d, &setupError{OriginWorkspace, "", err}
	}
	d.env = env
	if d.path != "" && p.spec.Bootstrap != nil && !p.made {
		return d, d.bootstrap(ctx, p.spec.Bootstrap, o, p.runDir)
	}
	return d, nil
}

// ready checks the template each time: it may go while a run is under way.
func (p *provision) ready() error {
	if p.spec.TemplateDir == "" {
		return nil
	}
	if err := checkTemplate(p.spec.TemplateDir); err != nil {
		return &setupError{OriginWorkspace, "", err}
	}
	return nil
}

func checkTemplate(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &plainError{fault.NotFound, "Workspace template directory does not exist: " + dir}
	case err != nil:
		return fmt.Errorf("eval: template %s: %w: %w", dir, fault.Of(err), err)
	case !info.IsDir():
		return &plainError{fault.InvalidArgument, "Workspace template path is not a directory: " + dir}
	}
	return nil
}

// A plainError says what skillgym says, word for word, with a code of ours.
type plainError struct {
	code fault.Code
	text string
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.code }

// skillgymEnv are the variables of a bootstrap command.
func skillgymEnv(dir string, o envRequest, runDir string) map[string]string {
	env := map[string]string{"SKILLGYM_WORKSPACE": dir, "SKILLGYM_OUTPUT_DIR": runDir, "SKILLGYM_ARTIFACT_DIR": o.artifacts}
	if o.runnerID != "" {
		env["SKILLGYM_CASE_ID"], env["SKILLGYM_RUNNER_ID"] = o.caseID, o.runnerID
	}
	return env
}

// bootstrap runs the bootstrap command in the workspace.
func (d *preparedEnv) bootstrap(ctx context.Context, b *suite.Bootstrap, o envRequest, runDir string) error {
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
	env := maps.Clone(b.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, skillgymEnv(d.env.Dir(), o, runDir))
	timeout := b.Timeout
	if timeout == 0 {
		timeout = o.timeout
	}
	argv := append([]string{b.Command}, b.Args...)
	start := time.Now()
	res, err := d.env.run(ctx, command{argv: argv, dir: d.env.Dir(), env: env, timeout: timeout, stdout: stdout, stderr: stderr})
	d.file.Bootstrap, f.DurationMs = f, time.Since(start).Milliseconds()
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
		return failed(&plainError{fault.Failed, text})
	}
	return nil
}

// settle ends a session's workspace: it is removed, or kept as a plain directory.
// Neither can fail the case; what went wrong is in workspace.json.
func (d *preparedEnv) settle(ctx context.Context, keep bool, artifacts string, end func(ctx context.Context, d *preparedEnv, failed func(error))) error {
	ctx = context.WithoutCancel(ctx)
	if err := retake(artifacts, cleanupName); err != nil {
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
			if werr := writeWhole(filepath.Join(artifacts, cleanupName), []byte(err.Error())); werr != nil {
				return werr
			}
		}
	}
	path := filepath.Join(artifacts, workspaceName)
	err := writeJSON(path, d.file)
	if d.env == nil {
		return err
	}
	file := d.file
	end(ctx, d, func(err error) {
		if file.CleanupError == "" {
			file.CleanupError = err.Error()
		}
		writeJSON(path, file) //nolint:errcheck // it was written once, and what it lacks is told nowhere else
	})
	return err
}

// keepOrRemove decides on the directory of the workspace.
func (d *preparedEnv) keepOrRemove(ctx context.Context, keep bool) (preserved bool, err error) {
	if !keep {
		return false, boundary.RemoveTree(d.path)
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil || d.env == nil || d.env.onHost {
		return true, err
	}
	d.file.LeftOut, err = takeOut(ctx, d.env.Workspace, d.path)
	if fault.Of(err) == fault.ResourceExhausted { // a part of it would only keep the disk full
		return false, errors.Join(err, boundary.RemoveTree(d.path))
	}
	return true, err
}

// hide returns what of the results is not for agents: those of all runs, or where
// directories that they need lie among them, those of this one. What others did, and
// with which credentials, is nobody's.
func (p *provision) hide(req EnvSpec) string {
	for _, dir := range []string{filepath.Dir(p.runDir), p.runDir} {
		if !slices.ContainsFunc(req.Read, func(read string) bool { return inDir(dir, read) }) && (!req.InPlace || !inDir(req.Dir, dir)) {
			return dir
		}
	}
	return ""
}
