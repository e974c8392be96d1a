package console

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// HostDirFlags are the flags for directories of the host that commands see besides their
// workspace.
type HostDirFlags struct {
	RW, RO     []string
	Sockets    []string
	Toolchains []string
}

// RegisterFlags adds the flags. first is what the first directory of --rw, and a single one
// of --ro, is besides.
func (h *HostDirFlags) RegisterFlags(f *pflag.FlagSet, firstRW, firstRO string) {
	f.StringArrayVar(&h.RW, "rw", nil, "mount this directory of the host writable"+firstRW+"; may be given several times")
	f.StringArrayVar(&h.RO, "ro", nil, "mount this directory of the host read-only"+firstRO+"; may be given several times")
	f.StringArrayVar(&h.Sockets, "sockets", nil, "let commands connect to Unix sockets in this directory of the host, which --rw or --ro shows; may be given several times")
	registerToolchains(f, &h.Toolchains)
}

// registerToolchains adds the flag for toolchains.
func registerToolchains(f *pflag.FlagSet, names *[]string) {
	f.StringSliceVar(names, "toolchain", nil, "show toolchains below the home directory read-only, and their caches copy-on-write: auto, none or names ("+strings.Join(toolchain.Names(), ", ")+") (default none)")
}

// Given reports whether a flag was given.
func (h *HostDirFlags) Given() bool {
	return len(h.RW)+len(h.RO)+len(h.Sockets) > 0 || h.WantsToolchains()
}

// WantsToolchains reports whether --toolchain asks for any.
func (h *HostDirFlags) WantsToolchains() bool {
	return len(h.Toolchains) > 0 && !slices.Equal(h.Toolchains, []string{toolchain.None})
}

// setUser gives the workload another user name if the host's user has the same one, and
// directories below that home are shown.
func setUser(o *sandbox.Options, workspaceDir string) {
	const workloadHome, other = "/home/croft", "agent"
	shown := []string{workspaceDir}
	for _, b := range o.Binds {
		shown = append(shown, b.Dir)
	}
	for _, c := range o.Caches {
		shown = append(shown, c.Dir)
	}
	if slices.ContainsFunc(shown, func(dir string) bool { return dir != "" && paths.Inside(workloadHome, dir) }) {
		o.User = other
	}
}

// BoundDirs returns the directories of --rw and --ro, in this order, and those of --sockets.
func (a *Console) BoundDirs(h HostDirFlags) (dirs []sandbox.Bind, sockets []string, err error) {
	shown, err := a.absoluteDirs(slices.Concat(h.RW, h.RO))
	if err != nil {
		return nil, nil, err
	}
	for i, dir := range shown {
		dirs = append(dirs, sandbox.Bind{Dir: dir, ReadOnly: i >= len(h.RW)})
	}
	sockets, err = a.absoluteDirs(h.Sockets)
	return dirs, sockets, err
}

// absoluteDirs returns directories of the host from its root.
func (a *Console) absoluteDirs(dirs []string) ([]string, error) {
	var all []string
	for _, dir := range dirs {
		if a.Server != "" && !filepath.IsAbs(dir) {
			return nil, Usagef("%s is relative: with --server, give a directory of the server's host from its root", dir)
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, abs)
	}
	return all, nil
}

// AddToolchains adds toolchains and caches to the options of a workspace, and their
// variables to its policy. project is the directory whose files choose versions. What
// overlaps with the workspace or with a directory of opts is left out: that shows it, or
// replaces it.
func (a *Console) AddToolchains(names []string, project string, spec *workspace.Spec, opts *sandbox.Options) error {
	defer func() { setUser(opts, spec.Dir) }()
	if len(names) == 0 {
		return nil
	}
	if a.Server != "" {
		return Usagef("--toolchain is for this host: with --server, name directories of the server's host with --ro")
	}
	found, err := toolchain.Find(toolchain.Options{Project: project}, names...)
	if err != nil {
		return err
	}
	taken := []string{}
	if spec.Dir != "" {
		taken = append(taken, spec.Dir)
	}
	for _, b := range opts.Binds {
		taken = append(taken, b.Dir)
	}
	free := func(dir string) bool {
		return dir != "" && !slices.ContainsFunc(taken, func(other string) bool { return paths.Inside(dir, other) || paths.Inside(other, dir) })
	}
	for _, dir := range toolchain.Dirs(found) {
		if free(dir) {
			opts.Binds = append(opts.Binds, sandbox.Bind{Dir: dir, ReadOnly: true, HideCredentials: true, Optional: true})
		}
	}
	for _, c := range toolchain.Caches(found) {
		if free(c.Dir) && (c.Home == "" || free(c.Home)) {
			opts.Caches = append(opts.Caches, sandbox.Cache(c))
		}
	}
	if spec.Policy.Env == nil {
		spec.Policy.Env = map[string]string{}
	}
	for k, v := range toolchain.Env(found, process.DefaultPath) {
		if _, given := spec.Policy.Env[k]; !given { // --env
			spec.Policy.Env[k] = v
		}
	}
	return nil
}

// CheckSandbox refuses directories of the host for a provider, by its name, that is not a
// sandbox. What a server's providers are, is known only there.
func (a *Console) CheckSandbox(provider string, h HostDirFlags) error {
	if a.Server != "" || !h.Given() {
		return nil
	}
	kind, err := a.providerKind(provider)
	if err != nil || kind == sandbox.Kind {
		return err
	}
	return fmt.Errorf("--rw, --ro, --sockets and --toolchain: %w: a workspace of kind %s has one directory; they are for the provider %s", fault.Unsupported, kind, sandbox.Kind)
}

// providerKind returns the kind of a provider of this host, by its name.
func (a *Console) providerKind(name string) (string, error) {
	settings, err := a.Settings()
	if err != nil {
		return "", err
	}
	kind, _, err := settings.Provider(name)
	return kind, err
}

// IsSandbox reports whether a provider of this host, by its name, is the sandbox.
func (a *Console) IsSandbox(provider string) bool {
	kind, err := a.providerKind(provider)
	return err == nil && kind == sandbox.Kind
}

// NoteCaches prints which caches start empty, where the isolation has no layers.
func NoteCaches(a *Console, ws client.Workspace, opts sandbox.Options) {
	if len(opts.Caches) == 0 || ws.Traits == nil {
		return
	}
	why := ""
	switch ws.Traits.Isolation {
	case driver.IsolationBubblewrap, driver.IsolationProcess:
		why = fmt.Sprintf("isolation %s has no overlayfs", ws.Traits.Isolation)
	default:
		if ws.Policy.Limits[driver.ResourceDisk].Max > 0 {
			why = "with a limit of disk space there is no layer"
		}
	}
	var cold []string
	for _, c := range opts.Caches {
		if !c.ReadOnly || ws.Traits.Isolation == driver.IsolationProcess {
			cold = append(cold, c.Dir)
		}
	}
	if why != "" && len(cold) > 0 {
		a.Note("croft: caches that start empty: %s: %s", strings.Join(cold, ", "), why)
	}
}

// gitTimeout bounds a question to git about its configuration.
const gitTimeout = 2 * time.Second

// AddGitIdentity adds the name and the address with which the user commits in a directory to
// the variables of a workspace: commands inside do not see ~/.gitconfig. Nothing else of that
// is passed on. What --env sets stays.
func (a *Console) AddGitIdentity(ctx context.Context, dir string, spec *workspace.Spec) {
	if a.Server != "" || dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	out, err := UserGit(ctx, dir, nil, "config", "--get-regexp", `^user\.(name|email)$`)
	if err != nil {
		return // no identity, or no git: git inside says so
	}
	if spec.Policy.Env == nil {
		spec.Policy.Env = map[string]string{}
	}
	given := maps.Clone(spec.Policy.Env)
	for line := range strings.Lines(out) { // the narrowest scope comes last
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		for _, who := range []string{"GIT_AUTHOR_", "GIT_COMMITTER_"} {
			name := who + strings.ToUpper(strings.TrimPrefix(key, "user."))
			if _, set := given[name]; !set && value != "" {
				spec.Policy.Env[name] = value
			}
		}
	}
}

// UserGit runs the user's git in a directory, with the user's configuration but without
// hooks, which may run what was just applied. It reads paths with pathspecs, as there may be
// more of them than a command line holds.
func UserGit(ctx context.Context, dir string, paths []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", slices.Concat([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "--literal-pathspecs"}, args)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Join(paths, "\x00"))
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], fault.Failed, OneLine(string(out)))
	}
	return string(out), nil
}
