package driver

import (
	"fmt"
	"io/fs"

	"github.com/croft-run/croft/fault"
)

// MaxMode has every bit that a mode may have.
const MaxMode fs.FileMode = 0o777

// CheckMode accepts permission bits only. It prevents privilege escalation: a program
// that an agent wrote must not become set-user-id, set-group-id or sticky, because it
// would run with the rights of Croft's user. Stat still reports such bits of existing
// files.
func CheckMode(mode fs.FileMode) error {
	if mode&^MaxMode != 0 {
		return fmt.Errorf("mode %#o: %w: permission bits alone are allowed, 0o777 at most, without set-user-id, set-group-id and sticky", uint32(mode), fault.InvalidArgument)
	}
	return nil
}
