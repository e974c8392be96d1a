package files

import (
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
)

// errDotDotTarget refuses a target whose meaning can change after the symlink is created.
var errDotDotTarget = fmt.Errorf("%w: the target has \"..\" after an element that is a symlink or not a directory; use a target without it", fault.SandboxViolation)

// checkSymlinkTarget checks the target of a symlink lexically.
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

// climbsOut reports whether the elements lexically lead above their start.
func climbsOut(elems []string) bool {
	p := path.Clean(strings.Join(elems, "/"))
	return p == ".." || strings.HasPrefix(p, "../")
}
