package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool/profile"
	"github.com/croft-run/croft/workspace"
)

// A Call is one call of a tool: where it works and what it may use.
type Call struct {
	Env       *Env
	Tool      string
	Name      string // of the workspace, as agents call it
	Workspace *workspace.Workspace
	Session   string // of the client
	Args      map[string]json.RawMessage

	progress func(Progress)
	scrub    *secret.Scrubber
}

// Progress says how far a call is. A Total of 0 is not known.
type Progress struct {
	Done, Total float64
	Message     string
}

// Progress tells the client how the call goes, if it wants to know.
func (c *Call) Progress(p Progress) {
	if c.progress != nil {
		p.Message = c.scrub.String(p.Message)
		c.progress(p)
	}
}

// Profile returns what the projects in the workspace are.
func (c *Call) Profile(ctx context.Context) (profile.Profile, error) {
	return c.Env.Profiles.Get(c.Workspace.ID(), c.Workspace.FS().With(ctx))
}

// ProfileFor is Profile for who asks about one file alone, which is quicker.
func (c *Call) ProfileFor(ctx context.Context, file string) (profile.Profile, error) {
	return c.Env.Profiles.GetFor(c.Workspace.ID(), c.Workspace.FS().With(ctx), file)
}

// Root returns the path of the workspace as its processes see it.
func (c *Call) Root() string { return c.Workspace.Traits().Root }

// relPath returns a path as Info.Path would have it.
func (c *Call) relPath(name string) string {
	name = path.Clean("/" + strings.TrimPrefix(name, c.Root()))
	return strings.TrimPrefix(name, "/")
}

// LockFile waits until the call may change a file. Agents call tools at the same time:
// without it, of two edits of different lines one would be refused, since the file
// is no longer what was read. The function that it returns ends the turn.
func (c *Call) LockFile(ctx context.Context, name string) (end func(), err error) {
	end, err = c.Env.changes.Lock(ctx, fileKey{workspace: c.Workspace.ID(), path: c.relPath(name)})
	if err != nil {
		return nil, fmt.Errorf("tool: wait for other changes of %s: %w", name, err)
	}
	return end, nil
}

// readerKey returns who a read counts for.
func (c *Call) readerKey() string {
	if c.Env.Readers == ReadSession {
		return c.Session
	}
	return ""
}

// joinResults makes one answer of those of several workspaces, in their order. It
// is an error only where all of them are.
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
