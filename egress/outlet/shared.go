package outlet

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/workspace/driver"
)

// freshFor is how long the roots of the system are not looked at again.
const freshFor = time.Minute

// shared is the file that workspaces without an authority have their roots from. It
// is never written to: when the roots change, another one takes its place.
type shared struct {
	mu   sync.Mutex
	path string    // +checklocks:mu
	made time.Time // +checklocks:mu
}

// link gives the file another name.
func (s *shared) link(path, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != path || time.Since(s.made) > freshFor {
		if err := makeShared(path); err != nil {
			return err
		}
		s.path, s.made = path, time.Now()
	}
	return os.Link(path, to)
}

func makeShared(path string) error {
	roots, err := egress.SystemRoots()
	if err != nil {
		return err
	}
	tmp := path + "." + driver.NewID()
	if err := os.WriteFile(tmp, roots, 0o644); err != nil { //nolint:gosec // everyone inside reads it
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}
