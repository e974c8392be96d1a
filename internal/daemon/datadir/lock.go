package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
)

// Lock takes the flock of the process that serves the data directory. The lock
// ends with the process.
func Lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, lockFile)
	l := flock.New(path, flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("app: lock data directory: %w", err)
	}
	if !ok {
		pid, _ := os.ReadFile(path) // only for the message
		return nil, fault.Advise(fmt.Errorf("app: data directory %s is served by process %s: %w", dir, orUnknown(strings.TrimSpace(string(pid))), fault.AlreadyExists), "use that server, or another --data")
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		l.Unlock() //nolint:errcheck // the first error is returned
		return nil, fmt.Errorf("app: lock data directory: %w", err)
	}
	return func() { l.Unlock() }, nil //nolint:errcheck // it ends with the process, too
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}
