package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
)

// lockDataDir makes this process the one that serves the data directory. The lock ends
// with the process, however that ends.
func lockDataDir(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, lockFile)
	l := flock.New(path, flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("system: lock data directory: %w", err)
	}
	if !ok {
		who, _ := os.ReadFile(path) // who it is only makes the message better
		return nil, fmt.Errorf("system: data directory %s is being served by process %s: %w: use that one, or another --data",
			dir, orUnknown(strings.TrimSpace(string(who))), fault.AlreadyExists)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		l.Unlock() //nolint:errcheck // the first error is the one to tell
		return nil, fmt.Errorf("system: lock data directory: %w", err)
	}
	return func() { l.Unlock() }, nil //nolint:errcheck // it ends with the process, too
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}
