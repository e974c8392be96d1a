package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
)

// ErrNoCommits says that a workspace has no commits besides the known ones.
var ErrNoCommits = fmt.Errorf("history: the workspace has no new commits: %w", fault.NotFound)

const (
	bundleScript = `git rev-parse -q --verify HEAD >/dev/null && head=HEAD
exec git bundle create --quiet - --ignore-missing --branches --tags $head --stdin`
	refsScript = `git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags && { git rev-parse -q --verify HEAD || true; }`
)

// Commands are what this package runs in workspaces, as events have it.
var Commands = []string{"sh -c " + bundleScript, "sh -c " + refsScript}

// WriteBundle writes a git bundle of the branches, tags and HEAD of the repository at
// the top of a workspace, without the commits that known ones lead to. The git of
// the workspace makes it, inside: the bundle is not to be trusted. A bundle larger than
// snapshot.MaxBundle is fault.ResourceExhausted.
func WriteBundle(ctx context.Context, ws *workspace.Workspace, known []string, to io.Writer) error {
	var stderr strings.Builder
	cmd := ws.Command(ctx, "sh", "-c", bundleScript)
	cmd.Stdin = strings.NewReader("^" + strings.Join(known, "\n^") + "\n")
	if len(known) == 0 {
		cmd.Stdin = strings.NewReader("")
	}
	out := &limitedWriter{to: to, left: snapshot.MaxBundle}
	cmd.Stdout, cmd.Stderr = out, &limitedWriter{to: &stderr, left: 1 << 20}
	err := cmd.Run()
	if out.left < 0 {
		return fmt.Errorf("history: workspace %s: %w: its new commits are larger than %d MiB", ws.ID(), fault.ResourceExhausted, snapshot.MaxBundle>>20)
	}
	var exit *workspace.ExitError
	if !errors.As(err, &exit) || exit.Unwrap() != nil {
		return err
	}
	text := strings.TrimSpace(stderr.String())
	switch {
	case strings.Contains(text, "empty bundle"):
		return ErrNoCommits
	case strings.Contains(text, "not a git repository"):
		return errNoRepository(ws)
	}
	return fmt.Errorf("history: workspace %s: git bundle: %w: %.500s", ws.ID(), fault.Failed, text)
}

// limitedWriter writes up to a number of bytes. Then left is negative, and it fails.
type limitedWriter struct {
	to   io.Writer
	left int64
}

func (w *limitedWriter) Write(data []byte) (int, error) {
	if w.left -= int64(len(data)); w.left < 0 {
		return 0, fault.ResourceExhausted
	}
	return w.to.Write(data)
}

// Refs returns the branches, tags and HEAD of the repository at the top of a workspace.
// They are not to be trusted.
func Refs(ctx context.Context, ws *workspace.Workspace) ([]snapshot.ImportedRef, error) {
	var stdout, stderr strings.Builder
	cmd := ws.Command(ctx, "sh", "-c", refsScript)
	cmd.Stdout, cmd.Stderr = &limitedWriter{to: &stdout, left: 4 << 20}, &limitedWriter{to: &stderr, left: 4 << 10}
	err := cmd.Run()
	if err != nil {
		if strings.Contains(stderr.String(), "not a git repository") {
			return nil, errNoRepository(ws)
		}
		return nil, fmt.Errorf("history: workspace %s: list references: %w: %.500s", ws.ID(), err, stderr.String())
	}
	refs := []snapshot.ImportedRef{}
	for line := range strings.Lines(stdout.String()) {
		id, name, named := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !named {
			name = "HEAD"
		}
		refs = append(refs, snapshot.ImportedRef{Name: name, Commit: id})
	}
	return refs, nil
}

func errNoRepository(ws *workspace.Workspace) error {
	return fmt.Errorf("history: workspace %s: %w: the top of the workspace is not a git repository", ws.ID(), fault.NotFound)
}
