package workspace

import (
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
)

const (
	maxPath = 4096 // PATH_MAX, which counts the final NUL
	maxName = 255  // NAME_MAX
)

// cleanPath cleans a path of this workspace; see cleanName. With Options.Relay a path that
// leaves the workspace is passed on unchanged, because the remote side refuses and
// audits it.
func (w *Workspace) cleanPath(p string, d *live) (string, error) {
	name, err := cleanName(p, d.Traits.Root)
	if w.opts.Relay && fault.Of(err) == fault.SandboxViolation {
		return p, nil
	}
	return name, err
}

// cleanName converts a path of a caller to a name of the driver contract. root is
// Traits.Root.
func cleanName(p, root string) (string, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", fmt.Errorf("path %q: %w: a path has no NUL byte", p, fault.InvalidArgument)
	}
	if len(p) >= maxPath {
		return "", fmt.Errorf("path of %d bytes: %w: at most %d are allowed", len(p), fault.InvalidArgument, maxPath-1)
	}
	rel, err := trimRoot(p, root)
	if err != nil {
		return "", err
	}
	depth := 0
	for elem := range strings.SplitSeq(rel, "/") {
		switch {
		case elem == "" || elem == ".":
		case elem == "..":
			if depth--; depth < 0 {
				return "", outsideError(p)
			}
		case len(elem) > maxName:
			return "", fmt.Errorf("path element of %d bytes: %w: at most %d are allowed", len(elem), fault.InvalidArgument, maxName)
		default:
			depth++
		}
	}
	return path.Clean(rel), nil // "." for ""
}

// Clean returns the cleaned path relative to the workspace, "." for the workspace
// itself. A path that would leave is a SandboxViolation. Clean is lexical: it
// accesses no file.
func (w *Workspace) Clean(path string) (string, error) {
	return cleanName(path, w.current.Load().Traits.Root)
}

// trimRoot strips the root from an absolute path.
func trimRoot(p, root string) (string, error) {
	if !strings.HasPrefix(p, "/") || p == "/" {
		return strings.TrimPrefix(p, "/"), nil
	}
	if root == "" {
		return "", outsideError(p)
	}
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(root, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "", outsideError(p)
	}
	return strings.TrimLeft(rest, "/"), nil
}

func outsideError(p string) error {
	return fmt.Errorf("path %q is outside the workspace: %w", p, fault.SandboxViolation)
}
