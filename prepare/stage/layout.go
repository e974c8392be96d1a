package stage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// The layout of a workspace.
const (
	DirSkills = "skills" // working copies of skills
	DirWork   = "work"   // files that programs share
	DirRuns   = "runs"   // a directory for each run
	DirOut    = "out"    // results
	DirInputs = "work/inputs"
	MetaFile  = "metadata.json" // a copy of the metadata, for reading
)

// Environment variables with the paths of the layout.
const (
	EnvWorkspace = "WORKSPACE_DIR"
	EnvSkills    = "SKILLS_DIR"
	EnvWork      = "WORK_DIR"
	EnvOutput    = "OUTPUT_DIR"
	EnvRun       = "RUN_DIR"
	EnvSkill     = "SKILL_NAME" // name of the running skill
)

// Options configure a Stage. The zero value has no artifacts and no access to the
// host.
type Options struct {
	State     State      // nil keeps the state in memory
	Artifacts *Artifacts // for artifact:// and saved outputs; may be nil
	HostRoots []string   // absolute directories that host:// may read; empty disables host://
	History   int        // number of input and of output records to keep; 0 is DefaultHistory
	NoCopy    bool       // no metadata.json in the workspace

	// Exclude names files, by their paths in the workspace, that are never collected; nil
	// excludes no file.
	Exclude func(name string) bool

	Log *slog.Logger
	Now func() time.Time // nil is time.Now
}

// DefaultHistory is the number of input and of output records to keep.
const DefaultHistory = 256

// A Stage is a workspace with a layout. It is safe for concurrent use.
type Stage struct {
	ws   *workspace.Workspace
	opts Options

	mu   sync.Mutex
	laid bool // guarded by mu
}

// New returns the stage of a workspace. The first call that needs the layout creates
// it, or EnsureLayout does.
func New(ws *workspace.Workspace, opts *Options) (*Stage, error) {
	if ws == nil {
		return nil, fmt.Errorf("stage: %w: the workspace is nil", fault.InvalidArgument)
	}
	s := &Stage{ws: ws}
	if opts != nil {
		s.opts = *opts
		s.opts.HostRoots = slices.Clone(opts.HostRoots) // the caller may share the slice
	}
	if s.opts.State == nil {
		s.opts.State = NewMemoryState()
	}
	if s.opts.History == 0 {
		s.opts.History = DefaultHistory
	}
	if s.opts.Log == nil {
		s.opts.Log = slog.New(slog.DiscardHandler)
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	for i, root := range s.opts.HostRoots {
		if !filepath.IsAbs(root) {
			return nil, fmt.Errorf("stage: host root %q: %w: a root must be an absolute path", root, fault.InvalidArgument)
		}
		s.opts.HostRoots[i] = filepath.Clean(root)
	}
	return s, nil
}

// Workspace returns the workspace of the stage.
func (s *Stage) Workspace() *workspace.Workspace { return s.ws }

// EnsureLayout creates missing directories of the layout, and returns the path of
// each as programs inside see it.
func (s *Stage) EnsureLayout(ctx context.Context) (map[string]string, error) {
	dirs := map[string]string{}
	for _, dir := range []string{DirSkills, DirWork, DirRuns, DirOut} {
		if err := s.ws.Mkdir(ctx, dir, &workspace.MkdirOptions{Parents: true}); err != nil {
			return nil, fmt.Errorf("stage: create %s: %w", dir, err)
		}
		dirs[dir] = s.guestPath(dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.laid = true
	return dirs, nil
}

// ensureLayoutOnce calls EnsureLayout once.
func (s *Stage) ensureLayoutOnce(ctx context.Context) error {
	s.mu.Lock()
	laid := s.laid
	s.mu.Unlock()
	if laid {
		return nil
	}
	_, err := s.EnsureLayout(ctx)
	return err
}

// guestPath returns a path as programs in the workspace see it.
func (s *Stage) guestPath(name string) string {
	return path.Join("/", s.ws.Traits().Root, name)
}

// Env returns the environment variables of the layout. run is the directory of the
// run; it may be "".
func (s *Stage) Env(run string) map[string]string {
	env := map[string]string{
		EnvWorkspace: s.guestPath("."), EnvSkills: s.guestPath(DirSkills), EnvWork: s.guestPath(DirWork), EnvOutput: s.guestPath(DirOut),
	}
	if run != "" {
		env[EnvRun] = s.guestPath(run)
	}
	return env
}

// NewRun creates a directory for a run, and returns its path in the workspace.
func (s *Stage) NewRun(ctx context.Context) (string, error) {
	if err := s.ensureLayoutOnce(ctx); err != nil {
		return "", err
	}
	name := path.Join(DirRuns, "run_"+s.opts.Now().UTC().Format("20060102T150405.000")+"_"+rand.Text()[:8])
	err := s.ws.Mkdir(ctx, name, nil)
	if errors.Is(err, fault.NotFound) { // a program has removed the runs directory
		if _, err := s.EnsureLayout(ctx); err != nil {
			return "", err
		}
		err = s.ws.Mkdir(ctx, name, nil)
	}
	if err != nil {
		return "", fmt.Errorf("stage: create the run directory: %w", err)
	}
	return name, nil
}

// Run runs a command with the variables of the layout and its own RUN_DIR. Explicit
// values of cmd.Env have precedence.
func (s *Stage) Run(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	cmd, err := s.Command(ctx, cmd)
	if err != nil {
		return driver.Result{}, err
	}
	return s.ws.Run(ctx, cmd)
}

// Command returns cmd as Run would run it, and creates the run directory.
func (s *Stage) Command(ctx context.Context, cmd driver.Command) (driver.Command, error) {
	run, err := s.NewRun(ctx)
	if err != nil {
		return cmd, err
	}
	env := s.Env(run)
	maps.Copy(env, cmd.Env)
	cmd.Env = env
	if cmd.Dir != "" && cmd.Dir != "." {
		if err := s.ws.Mkdir(ctx, cmd.Dir, &workspace.MkdirOptions{Parents: true}); err != nil {
			return cmd, fmt.Errorf("stage: create the working directory: %w", err)
		}
	}
	return cmd, nil
}
