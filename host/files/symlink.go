package files

import (
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
)

// errDotDotTarget is of a target whose meaning is not settled when the symlink is made.
var errDotDotTarget = fmt.Errorf("%w: the target goes back with \"..\" from what is no directory, or is a symlink; what it means would change with that", fault.SandboxViolation)

// checkSymlinkTarget judges the words of a symlink: where it points to, as it is written,
// from the directory that it is in.
func checkSymlinkTarget(t cleanName, dest string) error {
	switch {
	case t.name == "." || t.mustBeDir:
		return errIsDir
	case dest == "":
		return fmt.Errorf("%w: the target is empty", fault.InvalidArgument)
	case len(dest) > maxName:
		return fmt.Errorf("%w: the target has %d bytes; at most %d are allowed", fault.InvalidArgument, len(dest), maxName)
	case strings.IndexByte(dest, 0) >= 0:
		return fmt.Errorf("%w: the target has a NUL byte", fault.InvalidArgument)
	case dest[0] == '/':
		return fmt.Errorf("%w: the target is absolute", fault.SandboxViolation)
	}
	dir, _ := splitName(t.name)
	if climbsOut([]string{dir, dest}) {
		return fmt.Errorf("%w: the target %s is outside", fault.SandboxViolation, quoteName(dest))
	}
	return nil
}

// climbsOut reports whether the elements, as written, lead above where they start.
func climbsOut(elems []string) bool {
	p := path.Clean(strings.Join(elems, "/"))
	return p == ".." || strings.HasPrefix(p, "../")
}
