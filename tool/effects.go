package tool

import (
	"context"
	"strings"
	"time"
)

// An Effect is something that happens after a tool has changed files: they are
// formatted and linted, a language server is told. It returns what the model
// should be told, "" for nothing. It must heed ctx, which ends after effectsBound,
// and call Refresh for a file that it has rewritten.
type Effect func(ctx context.Context, c *Call, paths []string) (string, error)

// effectsTimeout is how long all effects of one call may take.
const effectsTimeout = 2 * time.Second

// AfterEdit runs the effects for files that a tool has changed and returns what
// they say, to be added to the text of the answer. A failure of an effect never
// fails the tool, and is told.
func (c *Call) AfterEdit(ctx context.Context, paths ...string) string {
	if len(c.Env.Effects) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, effectsTimeout)
	defer cancel()
	var b strings.Builder
	for _, effect := range c.Env.Effects {
		note, err := effect(ctx, c, paths)
		if err != nil {
			note = "after the edit: " + ErrorText(err)
		}
		if note != "" {
			b.WriteString("\n\n" + strings.TrimSpace(note) + "\n")
		}
	}
	return b.String()
}

// Refresh keeps a file known to the agent that Croft itself has changed after it,
// by formatting it. Of a file of which only a part was seen nothing is known then.
func (c *Call) Refresh(ctx context.Context, path string) {
	seen, ok := c.Seen(path)
	if !ok || !seen.Whole() {
		return
	}
	data, err := c.Workspace.ReadFileMax(ctx, path, maxEditSize)
	if err != nil {
		return // it counts as changed, and is read again
	}
	c.RecordRead(path, data)
}
