package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// ErrNoCommits says that a workspace has no commits besides the known ones.
var ErrNoCommits = fmt.Errorf("history: the workspace has no new commits: %w", fault.NotFound)

// WriteBundle writes a git bundle of the branches, tags and HEAD of the repository at
// the top of a workspace, without the commits that known ones lead to. The git of
// the workspace makes it, inside: the bundle is not to be trusted.
func WriteBundle(ctx context.Context, ws *workspace.Workspace, known []string, to io.Writer) error {
	const script = `git rev-parse -q --verify HEAD >/dev/null && head=HEAD
exec git bundle create --quiet - --ignore-missing --branches --tags $head --stdin`
	var stderr strings.Builder
	cmd := ws.Command(ctx, "sh", "-c", script)
	cmd.Stdin = strings.NewReader("^" + strings.Join(known, "\n^") + "\n")
	if len(known) == 0 {
		cmd.Stdin = strings.NewReader("")
	}
	cmd.Stdout, cmd.Stderr = to, &stderr
	err := cmd.Run()
	var exit *workspace.ExitError
	if !errors.As(err, &exit) || exit.Unwrap() != nil {
		return err
	}
	text := strings.TrimSpace(stderr.String())
	switch {
	case strings.Contains(text, "empty bundle"):
		return ErrNoCommits
	case strings.Contains(text, "not a git repository"):
		return fmt.Errorf("history: workspace %s: %w: the top of the workspace is not a git repository", ws.ID(), fault.NotFound)
	}
	return fmt.Errorf("history: workspace %s: git bundle: %w: %.500s", ws.ID(), fault.Failed, text)
}
