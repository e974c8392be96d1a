package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace/driver"
)

// A Template is the workspace of a skillgym suite: how it begins.
type Template struct {
	Mode      string // TemplateIsolated, TemplateShared or TemplateNone
	Cwd       string // of an unprovisioned workspace: the directory to work in
	Dir       string // templateDir; "" is an empty workspace
	Bootstrap *TemplateCommand
}

// A TemplateCommand runs in a workspace before an agent does.
type TemplateCommand struct {
	Command string
	Args    []string
	Timeout time.Duration // 0 is what TemplateEnv says
	Env     map[string]string
}

// Modes of templates. skillgym 0.8 knows shared, which works in a real directory,
// and isolated; 0.9 calls the former none, and shares a provisioned workspace.
const (
	TemplateNone     = "none"
	TemplateShared   = "shared"
	TemplateIsolated = "isolated"
)

// Provisioned reports whether the workspace is made, and not a directory that is
// there. A shared one with neither a template nor a bootstrap command is what 0.8
// means by that word.
func (t Template) Provisioned() bool {
	return t.Mode == TemplateIsolated || t.Mode == TemplateShared && (t.Dir != "" || t.Bootstrap != nil)
}

// ParseTemplate reads the workspace of a suite, as JSON. Paths are relative to dir,
// where the suite or the configuration is.
func ParseTemplate(data []byte, dir string) (Template, error) {
	var in struct {
		Mode        string `json:"mode"`
		Cwd         string `json:"cwd"`
		TemplateDir string `json:"templateDir"`
		Bootstrap   *struct {
			Command   string            `json:"command"`
			Args      []string          `json:"args"`
			TimeoutMS int64             `json:"timeoutMs"`
			Env       map[string]string `json:"env"`
		} `json:"bootstrap"`
	}
	if err := driver.DecodeStrict(data, &in); err != nil {
		return Template{}, fmt.Errorf("bootstrap: workspace of a suite: %w", err)
	}
	t := Template{Mode: in.Mode, Cwd: resolve(dir, in.Cwd), Dir: resolve(dir, in.TemplateDir)}
	if b := in.Bootstrap; b != nil {
		if b.Command == "" || b.TimeoutMS < 0 {
			return Template{}, fmt.Errorf("bootstrap: workspace.bootstrap: %w: a command is required, and a timeout must not be negative", fault.InvalidArgument)
		}
		t.Bootstrap = &TemplateCommand{Command: pathLike(dir, b.Command), Timeout: time.Duration(b.TimeoutMS) * time.Millisecond, Env: b.Env}
		for _, a := range b.Args {
			t.Bootstrap.Args = append(t.Bootstrap.Args, pathLike(dir, a))
		}
	}
	return t, t.check()
}

func (t Template) check() error {
	bad := func(key string) error {
		return fmt.Errorf("bootstrap: workspace.%s: %w: expected this key to be omitted when workspace mode is %q", key, fault.InvalidArgument, t.Mode)
	}
	switch t.Mode {
	case TemplateIsolated:
		if t.Cwd != "" {
			return bad("cwd")
		}
	case TemplateShared:
		if t.Cwd != "" && t.Provisioned() {
			return bad("cwd")
		}
	case TemplateNone:
		if t.Dir != "" {
			return bad("templateDir")
		}
		if t.Bootstrap != nil {
			return bad("bootstrap")
		}
	default:
		return fmt.Errorf("bootstrap: workspace.mode: %w: expected \"none\", \"shared\", or \"isolated\", not %q", fault.InvalidArgument, t.Mode)
	}
	return nil
}

func resolve(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// pathLike resolves what is written as a relative path, and leaves words alone.
func pathLike(dir, word string) string {
	if word == "." || word == ".." || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") {
		return filepath.Join(dir, word)
	}
	return word
}

// TemplateEnv says for what a workspace is prepared.
type TemplateEnv struct {
	CaseID      string // "" of a shared workspace
	RunnerID    string
	OutputDir   string        // of the run of the suite
	ArtifactDir string        // gets bootstrap.stdout.log and bootstrap.stderr.log; "" is none
	Timeout     time.Duration // of a bootstrap command that names none; 0 is DefaultTimeout
}

// TemplateResult says how a workspace was prepared, as workspace.json does.
type TemplateResult struct {
	Mode        string         `json:"mode"`
	TemplateDir string         `json:"templateDir,omitempty"`
	Bootstrap   *CommandResult `json:"bootstrap,omitempty"`
	Skipped     []string       `json:"skipped,omitempty"` // what of the template stayed out
}

// CommandResult says how a bootstrap command went.
type CommandResult struct {
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	DurationMS int64    `json:"durationMs"`
	ExitCode   int      `json:"exitCode"`
	StdoutPath string   `json:"stdoutPath,omitempty"`
	StderrPath string   `json:"stderrPath,omitempty"`
}

// ApplyTemplate prepares a fresh workspace: the contents of the template, then the
// bootstrap command. A command that does not exit with 0 is an error; what it
// wrote is in the artifact directory in any case.
func ApplyTemplate(ctx context.Context, st *stage.Stage, t Template, env TemplateEnv) (TemplateResult, error) {
	res := TemplateResult{Mode: t.Mode, TemplateDir: t.Dir}
	if err := t.check(); err != nil {
		return res, err
	}
	if t.Dir != "" {
		if err := checkTemplateDir(t.Dir); err != nil {
			return res, err
		}
		got, err := st.FillWorkspace(ctx, t.Dir, &stage.DirectoryOptions{Exclude: excluded(t.Dir, env.OutputDir)})
		if err != nil {
			return res, err
		}
		for _, s := range got.Skipped {
			res.Skipped = append(res.Skipped, s.Path)
		}
	}
	if t.Bootstrap == nil {
		return res, nil
	}
	var err error
	res.Bootstrap, err = t.Bootstrap.run(ctx, st, env)
	return res, err
}

func checkTemplateDir(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bootstrap: Workspace template directory does not exist: %s: %w", dir, fault.NotFound)
	}
	if err != nil {
		return fmt.Errorf("bootstrap: template %s: %w: %w", dir, fault.Of(err), err)
	}
	if !info.IsDir() {
		return fmt.Errorf("bootstrap: Workspace template path is not a directory: %s: %w", dir, fault.InvalidArgument)
	}
	return nil
}

// excluded keeps the results of a run out of a template that holds them.
func excluded(dir, output string) []string {
	if output == "" {
		return nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	if out, err := filepath.EvalSymlinks(output); err == nil {
		output = out
	}
	rel, err := filepath.Rel(real, output)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil
	}
	return []string{filepath.ToSlash(rel)}
}

// bootstrapDir holds the host's scripts while they run.
const bootstrapDir = ".croft-bootstrap"

func (c *TemplateCommand) run(ctx context.Context, st *stage.Stage, env TemplateEnv) (*CommandResult, error) {
	vars := maps.Clone(c.Env)
	if vars == nil {
		vars = map[string]string{}
	}
	for name, value := range map[string]string{
		"SKILLGYM_WORKSPACE": path.Join("/", st.Workspace().Traits().Root), "SKILLGYM_CASE_ID": env.CaseID, "SKILLGYM_RUNNER_ID": env.RunnerID,
		"SKILLGYM_OUTPUT_DIR": env.OutputDir, "SKILLGYM_ARTIFACT_DIR": env.ArtifactDir,
	} {
		if value != "" {
			vars[name] = value
		}
	}
	cmd := driver.Command{Argv: append([]string{c.Command}, c.Args...), Env: vars, Timeout: c.Timeout}
	if cmd.Timeout == 0 {
		cmd.Timeout = env.Timeout
	}
	if cmd.Timeout == 0 {
		cmd.Timeout = DefaultTimeout
	}
	argv, err := carry(ctx, st, cmd.Argv)
	if err != nil {
		return nil, err
	}
	cmd.Argv = argv
	out, err := st.Workspace().Run(ctx, cmd)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if rerr := st.Remove(after, bootstrapDir); err == nil {
		err = rerr
	}
	res := &CommandResult{Command: c.Command, Args: slices.Clone(c.Args), DurationMS: out.Duration.Milliseconds(), ExitCode: out.ExitCode}
	if werr := res.logs(env.ArtifactDir, out); werr != nil {
		return res, werr
	}
	line := strings.Join(append([]string{c.Command}, c.Args...), " ")
	if err != nil {
		return res, fmt.Errorf("bootstrap: Workspace bootstrap failed: %s: %w", line, err)
	}
	if !out.Succeeded() {
		code, how := fault.Failed, fmt.Sprintf("exit %d", out.ExitCode)
		if out.Cause == driver.CauseTimeout {
			code, how = fault.DeadlineExceeded, "timeout"
		}
		return res, fmt.Errorf("bootstrap: Workspace bootstrap failed: %s (%s): %w: stderr=%s", line, how, code, cut(out.Stderr))
	}
	return res, nil
}

// carry brings the host's files among the words of a command into the workspace:
// its programs need not see the host, nor be allowed to.
func carry(ctx context.Context, st *stage.Stage, argv []string) ([]string, error) {
	argv = slices.Clone(argv)
	for i, word := range argv {
		if !filepath.IsAbs(word) {
			continue
		}
		info, err := os.Stat(word)
		if err != nil || !info.Mode().IsRegular() || systemFile(word) {
			continue
		}
		data, err := os.ReadFile(word)
		if err != nil {
			return nil, fmt.Errorf("bootstrap: read %s: %w: %w", word, fault.Of(err), err)
		}
		name := path.Join(bootstrapDir, fmt.Sprint(i), filepath.Base(word))
		if err := st.PutFiles(ctx, []stage.File{{Path: name, Content: data, Mode: info.Mode().Perm() | 0o444}}); err != nil {
			return nil, err
		}
		argv[i] = path.Join("/", st.Workspace().Traits().Root, name)
	}
	return argv, nil
}

// systemFile reports whether a path is one that every workspace shows.
func systemFile(name string) bool {
	for _, dir := range []string{"/bin/", "/usr/", "/lib/", "/sbin/", "/lib64/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}

// logs keeps what a bootstrap command wrote.
func (r *CommandResult) logs(dir string, out driver.Result) error {
	if dir == "" {
		return nil
	}
	r.StdoutPath, r.StderrPath = filepath.Join(dir, "bootstrap.stdout.log"), filepath.Join(dir, "bootstrap.stderr.log")
	for name, data := range map[string][]byte{r.StdoutPath: out.Stdout, r.StderrPath: out.Stderr} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return fmt.Errorf("bootstrap: write %s: %w: %w", name, fault.Of(err), err)
		}
	}
	return nil
}
