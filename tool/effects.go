package tool

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// An Effect runs after a tool has changed files: it formats and lints them or notifies
// language servers. It returns a note for the model, or "". It must stop when ctx ends,
// which is after Config.EffectTime, and must call Refresh for a file that it has rewritten.
// The answer waits for the effects for Config.EffectWait; after that an effect may go on,
// but must not change files.
type Effect func(ctx context.Context, c *Call, paths []string) (string, error)

// Defaults of Config.EffectTime and Config.EffectWait.
const (
	DefaultEffectTime = 30 * time.Second
	DefaultEffectWait = 5 * time.Second
)

// effectRuns are the effects that go on after the answer, by file. The next answer about
// the file has their notes.
type effectRuns struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	runs map[fileKey]*effectRun // guarded by mu
}

// An effectRun is one run of all effects.
type effectRun struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when notes is complete

	mu    sync.Mutex
	next  int    // guarded by mu; index of the effect that runs
	notes string // guarded by mu
}

// AfterEdit runs the effects for files that a tool has changed and returns their notes, to
// be appended to the text of the answer. A failed effect becomes a note and never fails the
// tool. What takes longer than Config.EffectWait goes on, and the next answer about the file
// has its notes.
func (c *Call) AfterEdit(ctx context.Context, paths ...string) string {
	if len(c.Env.Effects) == 0 {
		return ""
	}
	before := c.takeEffectNotes(paths)
	run := c.startEffects(ctx, paths)
	select {
	case <-run.done:
		run.cancel()
		return before + run.notesSoFar()
	case <-time.After(c.Env.EffectWait):
	case <-ctx.Done():
	}
	c.Env.effects.add(c.effectKeys(paths), run)
	run.mu.Lock()
	late, notes := run.next, run.notes
	run.mu.Unlock()
	// The others must see the edit now. They see it again when the late one has ended.
	for _, effect := range c.Env.Effects[min(late+1, len(c.Env.Effects)):] {
		notes += c.runEffect(ctx, effect, paths)
	}
	return before + notes + fmt.Sprintf("\n\nchecks after the edit take longer than %v and go on; the next answer about the file has their findings\n", c.Env.EffectWait)
}

// startEffects runs the effects in the background.
func (c *Call) startEffects(ctx context.Context, paths []string) *effectRun {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run := &effectRun{cancel: cancel, done: make(chan struct{})}
	c.Env.effects.wg.Go(func() {
		defer close(run.done)
		for i, effect := range c.Env.Effects {
			note := c.runEffect(ctx, effect, paths)
			run.mu.Lock()
			run.next, run.notes = i+1, run.notes+note
			run.mu.Unlock()
		}
	})
	return run
}

// runEffect runs one effect within Config.EffectTime and returns its note.
func (c *Call) runEffect(ctx context.Context, effect Effect, paths []string) string {
	ctx, cancel := context.WithTimeout(ctx, c.Env.EffectTime)
	defer cancel()
	note, err := effect(ctx, c, paths)
	if err != nil {
		note = "after the edit: " + ErrorText(err)
	}
	if note == "" {
		return ""
	}
	return "\n\n" + strings.TrimSpace(note) + "\n"
}

func (r *effectRun) notesSoFar() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notes
}

func (c *Call) effectKeys(paths []string) []fileKey {
	var keys []fileKey
	for _, name := range paths {
		keys = append(keys, fileKey{workspace: c.Workspace.ID(), path: c.relPath(name)})
	}
	return keys
}

// takeEffectNotes returns the notes of the effects that went on after an earlier answer
// about one of the files and have ended since.
func (c *Call) takeEffectNotes(paths []string) string {
	return c.Env.effects.take(c.effectKeys(paths))
}

// add records a run. It ends earlier runs for the same files, whose content is outdated.
func (e *effectRuns) add(keys []fileKey, run *effectRun) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs == nil {
		e.runs = map[fileKey]*effectRun{}
	}
	for _, k := range keys {
		if old := e.runs[k]; old != nil {
			old.cancel()
		}
		e.runs[k] = run
	}
}

func (e *effectRuns) take(keys []fileKey) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, k := range keys {
		run := e.runs[k]
		if run == nil {
			continue
		}
		select {
		case <-run.done:
		default:
			continue
		}
		run.cancel()
		if notes := run.notesSoFar(); notes != "" {
			fmt.Fprintf(&b, "\n\nafter the earlier edit of %s:%s", k.path, strings.TrimPrefix(notes, "\n"))
		}
		for other, r := range e.runs { // the notes are for all files of the run
			if r == run {
				delete(e.runs, other)
			}
		}
	}
	return b.String()
}

// close ends all runs of a workspace, or of all workspaces if id is empty.
func (e *effectRuns) close(id string) {
	e.mu.Lock()
	for k, run := range e.runs {
		if id == "" || k.workspace == id {
			run.cancel()
			delete(e.runs, k)
		}
	}
	e.mu.Unlock()
	if id == "" {
		e.wg.Wait()
	}
}

// Refresh records the new content of a file that an effect has rewritten, so that the agent
// need not read it again. A file of which the agent had read only a part must be read
// again.
func (c *Call) Refresh(ctx context.Context, path string) {
	seen, ok := c.Seen(path)
	if !ok || !seen.Whole() {
		return
	}
	data, err := c.Workspace.ReadFileMax(ctx, path, maxEditSize)
	if err != nil {
		return // the file counts as changed, and the agent reads it again
	}
	c.RecordRead(path, data)
}
