package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Names below the root. Those that start with a dot carry the kind, because
// providers of other kinds may work in the same directory.
const (
	newPrefix  = ".new-local-"
	deadPrefix = ".dead-local-"
	lockName   = ".lock-local"
)

// Names in the directory of a workspace.
const (
	metaName  = "meta"
	filesName = "files"
	heldName  = "held"
)

const metaVersion = 1

// A meta is what is kept of a workspace besides its files.
type meta struct {
	Version  int           `json:"version"`
	Kind     string        `json:"kind"`
	ID       string        `json:"id"`
	Revision int64         `json:"revision"`
	Policy   driver.Policy `json:"policy"`
	Dir      string        `json:"dir,omitempty"`     // in place: as the user wrote it
	Real     string        `json:"real,omitempty"`    // in place: where that was when it was opened
	Boot     string        `json:"boot,omitempty"`    // of the host, when the policy was last set
	Damaged  bool          `json:"damaged,omitempty"` // an earlier boot may have done harm
}

func (p *Provider) path(elem ...string) string {
	return filepath.Join(append([]string{p.root}, elem...)...)
}

// dir is where the files of a workspace are.
func (p *Provider) dir(m *meta) string {
	if m.Dir != "" {
		return m.Real
	}
	return p.path(m.ID, filesName)
}

// readMeta reads the meta of a workspace: fs.ErrNotExist where there is none, and
// Failed, without a word of what it holds, where it is not a valid one of ours.
func (p *Provider) readMeta(id string) (*meta, error) {
	data, err := os.ReadFile(p.path(id, metaName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(p.path(id)); err == nil {
			return nil, fmt.Errorf("%w: the directory of the workspace has no meta", fault.Failed)
		}
	}
	if err != nil {
		return nil, err
	}
	return parseMeta(data, id)
}

func parseMeta(data []byte, id string) (*meta, error) {
	m := new(meta)
	if err := driver.DecodeStrict(data, m); err != nil {
		return nil, fmt.Errorf("%w: the meta of the workspace is not valid", fault.Failed)
	}
	valid := m.Version == metaVersion && m.ID == id && m.Revision > 0 && (m.Dir == "") == (m.Real == "") && (m.Dir == "" || filepath.IsAbs(m.Real))
	switch {
	case m.Kind != Kind:
		return nil, fmt.Errorf("%w: the workspace is of another kind", fault.Failed)
	case !valid:
		return nil, fmt.Errorf("%w: the meta of the workspace is not valid", fault.Failed)
	}
	return m, nil
}

// write puts the meta into the directory of a workspace, atomically and always
// on stable storage: a permission that was revoked must not come back with the
// power, and a directory without a meta would be nobody's.
func (m *meta) write(dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, metaName+".new")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, filepath.Join(dir, metaName)); err != nil {
		return err
	}
	return syncPath(dir)
}

// samePolicy compares what would be stored.
func samePolicy(a, b driver.Policy) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// setPolicy brings a workspace to a policy, under the next revision. The lock is
// held.
func (p *Provider) setPolicy(ctx context.Context, m *meta, policy driver.Policy) error {
	if policy.Durable && !m.Policy.Durable {
		if err := syncTree(p.dir(m)); err != nil { // what was written before is durable from now on, too
			return err
		}
		driver.Step(ctx, "files synced")
	}
	next := *m
	next.Damaged = p.damaged(m)
	next.Boot = p.boot
	next.Policy = policy
	next.Revision++
	if err := next.write(p.path(m.ID)); err != nil {
		return err
	}
	driver.Step(ctx, "policy written")
	*m = next
	return nil
}

// damaged reports whether the host went down while the workspace was not durable.
func (p *Provider) damaged(m *meta) bool {
	return m.Damaged || m.Boot != p.boot && !m.Policy.Durable
}

// lock makes the root and takes it for this process alone; whoever makes, ends
// or changes a workspace holds it. It is held for a few system calls, never while
// a tree is removed.
func (p *Provider) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(p.root, 0o700); err != nil {
		return nil, err
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l := flock.New(p.path(lockName))
	if _, err := l.TryLockContext(ctx, time.Millisecond); err != nil {
		<-p.turn
		return nil, err
	}
	return func() {
		l.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
		<-p.turn
	}, nil
}

// syncPath brings a file or directory to stable storage.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// syncTree brings all files and directories of a tree to stable storage.
func syncTree(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a FIFO
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// removeTree removes a directory with all below it, also where modes forbid it,
// and where a call that is under way in another process adds to it.
func removeTree(dir string) error {
	const attempts = 20
	err := os.RemoveAll(dir)
	for range attempts {
		if !errors.Is(err, fs.ErrExist) { // which is what a directory says that is not empty
			break
		}
		err = os.RemoveAll(dir)
	}
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	openDirs(root, ".")
	return os.RemoveAll(dir)
}

// openDirs makes the directories of a tree writable, so that it can be removed.
// What goes wrong shows when it is.
func openDirs(root *os.Root, dir string) {
	const usable = 0o700
	if root.Chmod(dir, usable) != nil {
		return
	}
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			openDirs(root, filepath.Join(dir, e.Name()))
		}
	}
}
