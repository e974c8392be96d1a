package driver

import (
	"fmt"
	"io/fs"

	"github.com/croft-run/croft/fault"
)

// MaxMode has every bit that a mode may have.
const MaxMode fs.FileMode = 0o777

// CheckMode accepts permission bits alone. A program that an agent wrote must not
// run with the rights of whoever Croft runs as, so no workspace makes anything
// set-user-id, set-group-id or sticky. What has such bits already may be seen by
// Stat.
func CheckMode(mode fs.FileMode) error {
	if mode&^MaxMode != 0 {
		return fmt.Errorf("mode %#o: %w: permission bits alone are allowed, 0o777 at most, without set-user-id, set-group-id and sticky", uint32(mode), fault.InvalidArgument)
	}
	return nil
}
