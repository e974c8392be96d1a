package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace"
)

// A Call is one call of a tool: its workspace, session and arguments.
type Call struct {
	Env       *Env
	Tool      string
	Name      string // of the workspace, as agents call it
	Workspace *workspace.Workspace
	Session   string // of the client
	Args      map[string]json.RawMessage

	// Workspaces are those that the client reaches. Tools look other workspaces up here, and
	// not in the Env.
	Workspaces Workspaces

	kept     keptFiles
	only     string // as in Request
	progress func(Progress)
	maxText  int // as in Request; 0 is that of the Env
	output   outputTail

	reportedMu sync.Mutex
	reported   Progress // guarded by reportedMu; the last one
	scrub      *secret.Scrubber
	learned    []secret.Value // see LearnSecrets
}

// ForkOf returns the id of the workspace to which the client is bound, or "": forks that
// the client makes are then in its reach, see Entry.
func (c *Call) ForkOf(ctx context.Context) (string, error) {
	if c.only == "" {
		return "", nil
	}
	bound, err := c.Workspaces.Find(ctx, c.only)
	return bound.ID, err
}

// Progress reports how far a call is. A Total of 0 is unknown.
type Progress struct {
	Done, Total float64
	Message     string
}

// Progress reports progress to the client, if the client asked for it.
func (c *Call) Progress(p Progress) {
	if c.progress != nil {
		p.Message = c.scrub.String(p.Message)
		c.reportedMu.Lock()
		c.reported = p
		c.reportedMu.Unlock()
		c.progress(p)
	}
}

// Profile returns the profile of the workspace's projects.
func (c *Call) Profile(ctx context.Context) (profile.Profile, error) {
	return c.configured(c.Env.Profiles.Get(c.Workspace.ID(), c.Workspace.FS().With(ctx)))
}

// ProfileFor is Profile for callers that need one file only; it checks fewer files for
// changes.
func (c *Call) ProfileFor(ctx context.Context, file string) (profile.Profile, error) {
	return c.configured(c.Env.Profiles.GetFor(c.Workspace.ID(), c.Workspace.FS().With(ctx), file))
}

// configured returns a detected profile with the commands of the configuration.
func (c *Call) configured(p profile.Profile, err error) (profile.Profile, error) {
	if err != nil {
		return p, err
	}
	if c.Env.Commands != nil {
		p = p.With(c.Env.Commands(c.Name, c.Workspace.ID()))
	}
	if c.Env.Profiled != nil {
		c.Env.Profiled(c.Workspace, c.Session, p)
	}
	return p, nil
}

// Root returns the path of the workspace as its processes see it.
func (c *Call) Root() string { return c.Workspace.Traits().Root }

// relPath returns a path relative to the workspace, as in Info.Path.
func (c *Call) relPath(name string) string {
	name = path.Clean("/" + strings.TrimPrefix(name, c.Root()))
	return strings.TrimPrefix(name, "/")
}

// LockFile takes the keyed mutex of a file. Agents call tools concurrently: without the
// mutex one of two edits of different lines would fail, because the file is no longer the
// one that was read. The returned function unlocks it.
func (c *Call) LockFile(ctx context.Context, name string) (end func(), err error) {
	end, err = c.Env.changes.Lock(ctx, fileKey{workspace: c.Workspace.ID(), path: c.relPath(name)})
	if err != nil {
		return nil, fmt.Errorf("tool: wait for other changes of %s: %w", name, err)
	}
	return end, nil
}

// LockFiles takes the keyed mutexes of several files, in one order for all calls.
func (c *Call) LockFiles(ctx context.Context, names ...string) (end func(), err error) {
	var paths []string
	for _, name := range names {
		paths = append(paths, c.relPath(name))
	}
	slices.Sort(paths)
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	for _, name := range slices.Compact(paths) {
		one, err := c.LockFile(ctx, name)
		if err != nil {
			end()
			return nil, err
		}
		ends = append(ends, one)
	}
	return end, nil
}

// readerKey returns the session that a read counts for, or "" for all sessions.
func (c *Call) readerKey() string {
	if c.Env.Readers == ReadSession {
		return c.Session
	}
	return ""
}

// joinResults joins the answers of several workspaces, in order. It returns an error only
// if all calls failed.
func joinResults(list []Entry, results []Result, errs []error) (Result, error) {
	var text strings.Builder
	type part struct {
		Result json.RawMessage `json:"result,omitempty"`
		Error  any             `json:"error,omitempty"`
	}
	parts := map[string]part{}
	good := false
	for i, e := range list {
		if i > 0 {
			text.WriteString("\n")
		}
		text.WriteString("=== " + e.Name + " ===\n")
		if errs[i] != nil {
			text.WriteString("error: " + ErrorText(errs[i]) + "\n")
			w := fault.Encode(errs[i])
			w.Message = ErrorText(errs[i])
			parts[e.Name] = part{Error: w}
			continue
		}
		good = true
		text.WriteString(strings.TrimSuffix(results[i].Text, "\n") + "\n")
		parts[e.Name] = part{Result: results[i].Data()}
	}
	if !good {
		return Result{}, &textError{text: text.String(), code: fault.Of(errs[0]), err: errs[0]}
	}
	data, err := encode(map[string]any{"workspaces": parts})
	return Result{Text: text.String(), Structured: data}, err
}
