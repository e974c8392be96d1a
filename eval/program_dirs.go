package eval

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/eval/agent"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/scratch"
	"github.com/croft-run/croft/workspace/driver"
)

// provisionFor decides, once, how the workspaces of the run are made.
func (m *matrix) provisionFor(ctx context.Context, o *Options) error {
	p := &provision{envs: m.opts.envs, spec: *m.workspace(), runDir: m.runDir}
	m.provision = p
	if err := p.setPolicy(m.opts.config, o.Limits); err != nil {
		return err
	}
	if err := m.placeOf(p, o); err != nil {
		return err
	}
	m.shown(ctx, p, o)
	if err := p.clearTemplate(ctx); err != nil {
		return err
	}
	if m.opts.config.Croft.Bootstrap == "once" && p.spec.Bootstrap != nil && p.spec.Mode == suite.ModeIsolated {
		hosts := slices.Clone(m.opts.allowNet)
		return p.bootstrapOnce(ctx, envRequest{timeout: defaultTimeout, hosts: hosts})
	}
	return nil
}

// workspace is what the suite, or else the configuration, says of workspaces.
func (m *matrix) workspace() *suite.Workspace {
	for _, spec := range []*suite.Workspace{m.opts.suite.Workspace(), m.opts.config.Run.Workspace} {
		if spec != nil {
			return spec
		}
	}
	return &suite.Workspace{Mode: suite.ModeNone}
}

// setPolicy takes over what the configuration asks for. Of limits that are given in
// several credentialTransport those of the options count, then croft.limits, then croft.policy.
func (p *provision) setPolicy(cfg *suite.Config, more driver.Limits) error {
	if raw := cfg.Croft.Policy; raw != nil {
		if err := driver.DecodeStrict(raw, &p.policy); err != nil {
			return fmt.Errorf("eval: %s: croft.policy: %w", cfg.Path, err)
		}
	}
	p.limits = p.policy.Limits.With(cfg.Croft.Limits).With(more)
	return nil
}

// placeOf finds the directory of workspaces in place, and says what the word
// shared means where it could mean two things.
func (m *matrix) placeOf(p *provision, o *Options) error {
	if !p.spec.InPlace() {
		if o.Cwd != "" {
			return &plainError{fault.InvalidArgument, "CLI option --cwd is only supported when the effective workspace mode is none."}
		}
		return nil
	}
	if p.spec.Mode == suite.ModeShared && p.spec.Cwd == "" {
		m.notices = append(m.notices, `workspace mode "shared" without cwd, templateDir or bootstrap works in place, as skillgym 0.8 does; 0.9 would share an empty directory. Say mode "none" for the former, or add a template or a bootstrap for the latter.`)
	}
	var err error
	p.cwd, err = m.workingDir(&p.spec, o)
	return err
}

// workingDir is the directory of workspaces in place.
func (m *matrix) workingDir(spec *suite.Workspace, o *Options) (string, error) {
	for _, dir := range []string{o.Cwd, spec.Cwd, m.opts.config.Run.Cwd, m.opts.dir} {
		if dir == "" {
			continue
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(m.opts.dir, dir)
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return "", fmt.Errorf("eval: working directory %s: %w: %w", dir, fault.Of(err), err)
		}
		return real, nil
	}
	return "", nil
}

// shown lists the directories that executions see besides their workspace: those
// of the suite and its configuration, what the bootstrap command names, and the
// programs of the agents.
func (m *matrix) shown(ctx context.Context, p *provision, o *Options) {
	if !p.envs.Fenced() {
		return
	}
	p.read = realDirs(slices.Concat([]string{filepath.Dir(m.opts.suite.Path()), m.opts.config.Dir}, o.Read))
	if o.Tmp != "" {
		p.read = append(p.read, realDirs([]string{o.Tmp})...)
	}
	if b := p.spec.Bootstrap; b != nil {
		p.read = append(p.read, programDirs(b.Command, os.Getenv("PATH"))...)
		for _, a := range b.Args {
			if filepath.IsAbs(a) {
				p.read = append(p.read, realDirs([]string{a})...)
			}
		}
	}
	for _, r := range m.runners {
		inv, err := dryRun(ctx, r)
		if err != nil || len(inv.Argv) == 0 {
			continue // the session itself will say why
		}
		path := inv.Env["PATH"]
		if path == "" {
			path = os.Getenv("PATH")
		}
		r.hosts, r.read = inv.Hosts, programDirs(inv.Argv[0], path)
		for _, a := range inv.Argv[1:] {
			if filepath.IsAbs(a) && !strings.Contains(a, "\n") {
				r.read = append(r.read, realDirs([]string{a})...)
			}
		}
	}
}

// dryRun asks an agent how it would be started.
func dryRun(ctx context.Context, r *plannedRunner) (agent.Invocation, error) {
	dir, err := scratch.Make(suite.ScratchPrefix)
	if err != nil {
		return agent.Invocation{}, err
	}
	defer scratch.Remove(dir) //nolint:errcheck // the next evaluation removes it
	return r.agent.Prepare(ctx, agent.Input{Runner: r.info, Prompt: "-", Dir: dir, Artifacts: dir, Fenced: true})
}

// realDirs returns the directories that paths are, or lie in, without symlinks;
// what there is not is left out, and so is what every workspace shows.
func realDirs(paths []string) []string {
	var dirs []string
	for _, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue
		}
		info, err := os.Stat(real)
		if err != nil {
			continue
		}
		if !info.IsDir() {
			real = filepath.Dir(real)
		}
		if !systemDir(real) && !slices.Contains(dirs, real) {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// systemDir reports whether a directory is one that every sandbox shows, or that
// none may be given.
func systemDir(dir string) bool {
	for _, sys := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc", "/proc", "/dev", "/sys", "/run", "/nix/store", "/gnu/store"} {
		if inDir(sys, dir) {
			return true
		}
	}
	home, _ := os.UserHomeDir() // without one there is none to hide
	return slices.Contains([]string{"/", "/tmp", "/var", "/var/tmp", "/home", "/root", home}, dir)
}

// programDirs returns the directories of the host that a program needs to run:
// its own, those on the way of its symlinks, the package that it belongs to, and
// those of its interpreter.
func programDirs(program, path string) []string {
	at := program
	if !strings.Contains(program, "/") {
		at = lookIn(program, path)
	}
	if at == "" || !filepath.IsAbs(at) {
		return nil
	}
	dirs := realDirs(installed(filepath.Dir(at)))
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return dirs
	}
	pkg := filepath.Dir(real)
	if before, _, ok := strings.Cut(real, "/node_modules/"); ok {
		pkg = before + "/node_modules"
	}
	dirs = append(dirs, realDirs(installed(pkg))...)
	if name := interpreter(real); name != "" && name != program {
		dirs = append(dirs, programDirs(name, path)...)
	}
	return dirs
}

// installed is a directory of programs, with what lies beside it where they need that:
// behind the shims of pyenv, asdf and the like are the programs that they choose from,
// and beside Python, or a virtual environment of it, is its library.
func installed(bin string) []string {
	beside := filepath.Dir(bin)
	if filepath.Base(bin) == "shims" {
		return []string{bin, beside}
	}
	for _, sign := range []string{"pyvenv.cfg", "lib/python3*/os.py"} {
		if found, err := filepath.Glob(filepath.Join(beside, sign)); err == nil && len(found) > 0 {
			return []string{bin, beside}
		}
	}
	return []string{bin}
}

// lookIn finds a program on a PATH.
func lookIn(program, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if p, err := exec.LookPath(filepath.Join(dir, program)); err == nil && filepath.IsAbs(p) {
			return p
		}
	}
	return ""
}

// interpreter is the program that a script asks for by its first line.
func interpreter(script string) string {
	f, err := os.Open(script)
	if err != nil {
		return ""
	}
	defer f.Close() // only read
	var head [256]byte
	n, _ := f.Read(head[:]) // what can't be read is no script
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) == "env" {
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
				return w
			}
		}
		return ""
	}
	return words[0]
}
