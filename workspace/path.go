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

// name is cleanName for paths of this workspace. A path that leaves goes on as it
// is where the other side of the driver is the one to refuse it.
func (w *Workspace) name(p string, d *live) (string, error) {
	name, err := cleanName(p, d.Traits.Root)
	if w.opts.Relay && fault.Of(err) == fault.SandboxViolation {
		return p, nil
	}
	return name, err
}

// cleanName turns a path as people write it into a name as drivers get it. root
// is Traits.Root.
func cleanName(p, root string) (string, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", fmt.Errorf("path %q: %w: it contains a NUL byte", p, fault.InvalidArgument)
	}
	if len(p) >= maxPath {
		return "", fmt.Errorf("path of %d bytes: %w: at most %d are allowed", len(p), fault.InvalidArgument, maxPath-1)
	}
	rel, err := relative(p, root)
	if err != nil {
		return "", err
	}
	depth := 0
	for elem := range strings.SplitSeq(rel, "/") {
		switch {
		case elem == "" || elem == ".":
		case elem == "..":
			if depth--; depth < 0 {
				return "", violation(p)
			}
		case len(elem) > maxName:
			return "", fmt.Errorf("path element of %d bytes: %w: at most %d are allowed", len(elem), fault.InvalidArgument, maxName)
		default:
			depth++
		}
	}
	return path.Clean(rel), nil // "." for ""
}

// Clean returns a path as package workspace understands it: relative to the
// workspace, "." for the workspace itself. One that would leave is a
// SandboxViolation. It looks at no file.
func (w *Workspace) Clean(path string) (string, error) {
	return cleanName(path, w.current.Load().Traits.Root)
}

// relative strips the root from an absolute path.
func relative(p, root string) (string, error) {
	if !strings.HasPrefix(p, "/") || p == "/" {
		return strings.TrimPrefix(p, "/"), nil
	}
	if root == "" {
		return "", violation(p)
	}
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(root, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "", violation(p)
	}
	return strings.TrimLeft(rest, "/"), nil
}

func violation(p string) error {
	return fmt.Errorf("path %q is outside the workspace: %w", p, fault.SandboxViolation)
}
