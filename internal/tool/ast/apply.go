package ast

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Apply reads a file, edits it and writes it back. If the file changed meanwhile, the error
// is Conflict and nothing is written. Mode and owner are kept.
func (e *Editor) Apply(ctx context.Context, ws *workspace.Workspace, path string, edit func(src []byte) (Change, error)) (Change, workspace.WriteResult, error) {
	src, err := readSource(ctx, ws, path)
	if err != nil {
		return Change{}, workspace.WriteResult{}, err
	}
	change, err := edit(src)
	if err != nil {
		return Change{}, workspace.WriteResult{}, err
	}
	res, err := ws.Write(ctx, path, bytes.NewReader(change.Content), &workspace.WriteOptions{IfMatch: driver.DigestBytes(src)})
	return change, res, err
}

func readSource(ctx context.Context, ws *workspace.Workspace, path string) ([]byte, error) {
	body, _, err := ws.Read(ctx, path, &workspace.ReadOptions{Limit: maxSource + 1})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	src, err := io.ReadAll(body)
	if err == nil && len(src) > maxSource {
		err = fmt.Errorf("ast: read %s: %w: at most %d bytes are edited", path, fault.ResourceExhausted, maxSource)
	}
	return src, err
}

const maxSource = 8 << 20

// Text describes a change for the agent.
func (c *Change) Text(tool, path string) string {
	var b strings.Builder
	if c.Before == "" {
		fmt.Fprintf(&b, "%s: inserted %d bytes in %s at line %d\n", tool, len(c.After), path, c.Line)
		writePrefixed(&b, "+", c.After)
		return b.String()
	}
	fmt.Fprintf(&b, "%s: modified %s at line %d\n--- before\n+++ after\n@@ starting line %d @@\n", tool, path, c.Line, c.Line)
	writePrefixed(&b, "-", c.Before)
	writePrefixed(&b, "+", c.After)
	return b.String()
}

func writePrefixed(b *strings.Builder, mark, text string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString(mark + strings.TrimSuffix(line, "\r") + "\n")
	}
}
