package tool

import (
	"context"
	"strings"
	"time"
)

// An Effect runs after a tool has changed files: it formats and lints them or notifies
// language servers. It returns a note for the model, or "". It must stop when ctx ends,
// which is after effectsTimeout, and must call Refresh for a file that it has rewritten.
type Effect func(ctx context.Context, c *Call, paths []string) (string, error)

// effectsTimeout bounds all effects of one call together.
const effectsTimeout = 2 * time.Second

// AfterEdit runs the effects for files that a tool has changed and returns their notes, to
// be appended to the text of the answer. A failed effect becomes a note and never fails the
// tool.
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
