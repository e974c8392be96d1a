package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/workspace/driver"
)

// A stage is a hidden directory on the file system of a directory that is changed,
// with what is new, a lock that is held while the change is under way, and a
// journal, which says what is to be done. Where others write to the directory that
// the stage is in, the journal is kept elsewhere: whoever could write one would
// have the next change do what it says.
type stage struct {
	name     string
	above    int // the directory that it is in
	fd       int
	lock     *os.File
	journals string // where journals are; "" is in the stage
	dir      string // that is changed
}

const (
	stagePrefix = files.StagePrefix
	lockName    = "lock"
	journalName = "journal"
)

// stageJournal is what the journal of a stage says.
type stageJournal struct {
	Dir string `json:"dir"`
	Ops []op   `json:"ops"`
}

// newStage makes a stage for a change of dir.
func newStage(dir, above, journals string) (*stage, error) {
	if above == "" {
		above = dir
	}
	fd, err := openRetry(unix.AT_FDCWD, above, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, hostError("stage in", above, err)
	}
	name := stagePrefix + driver.NewID()
	if err := unix.Mkdirat(fd, name, 0o700); err != nil {
		unix.Close(fd) //nolint:errcheck // nothing is written through it
		return nil, hostError("stage in", above, err)
	}
	s, err := openStage(dir, fd, name, journals)
	if err != nil {
		removeAll(fd, name) //nolint:errcheck // Recover removes what is left
		unix.Close(fd)      //nolint:errcheck // nothing is written through it
	}
	return s, err
}

// openStage opens and locks a stage in the directory above, which is the stage's
// from then on. One that another has locked is fault.Unavailable.
func openStage(dir string, above int, name, journals string) (*stage, error) {
	s := &stage{name: name, above: above, fd: -1, journals: journals, dir: dir}
	var err error
	if s.fd, err = openRetry(above, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW); err != nil {
		return nil, hostError("open", name, err)
	}
	if s.lock, err = lockFileAt(s.fd, lockName, unix.O_CREAT); err == nil {
		return s, nil
	}
	s.above = -1
	s.close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("snapshot: a change to the directory is under way: %w", fault.Unavailable)
	}
	return nil, hostError("lock", name, err)
}

func (s *stage) close() {
	s.lock.Close() // which for nil, where it could not be had, does nothing
	for _, fd := range []int{s.fd, s.above} {
		if fd >= 0 {
			unix.Close(fd) //nolint:errcheck // nothing is written through it
		}
	}
}

// writeJournal writes down what is to be done.
func (s *stage) writeJournal(ops []op, durable bool) error {
	data, err := encodeJournal(stageJournal{s.dir, ops})
	if err != nil {
		return err
	}
	if s.journals != "" {
		err := os.MkdirAll(s.journals, 0o700)
		if err == nil {
			err = atomicfile.Write(filepath.Join(s.journals, s.name), data, atomicfile.Options{Durable: durable})
		}
		if err != nil {
			return hostError("write", "the journal", err)
		}
		data = nil // that there is one
	}
	if err := writeFileAt(s.fd, journalName, data, durable); err != nil {
		return hostError("write", "the journal", err)
	}
	return nil
}

// writeFileAt makes a file in an open directory, at once.
func writeFileAt(dir int, name string, data []byte, durable bool) error {
	temp := name + ".new"
	fd, err := unix.Openat(dir, temp, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	err = pwriteAll(fd, data, 0)
	if err == nil && durable {
		err = unix.Fsync(fd)
	}
	err = errors.Join(err, unix.Close(fd))
	if err == nil {
		err = unix.Renameat(dir, temp, dir, name)
	}
	if err == nil && durable {
		err = unix.Fsync(dir)
	}
	return err
}

// readJournal reads what was written down: nil where nothing was.
func (s *stage) readJournal() ([]op, error) {
	begun := inodeAt(s.fd, journalName) != 0
	var data []byte
	var err error
	if s.journals != "" {
		data, err = os.ReadFile(filepath.Join(s.journals, s.name))
	} else {
		data, err = readFileAt(s.fd, journalName)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if begun && s.journals != "" {
			return nil, fmt.Errorf("snapshot: %s in the directory is of a change that is not known here: %w: "+
				"another data directory has it, with which it can be completed, or somebody else made it; remove it otherwise", s.name, fault.WrongState)
		}
		return nil, nil
	}
	if err != nil {
		return nil, hostError("read", "the journal", err)
	}
	return decodeOps(data)
}

func readFileAt(dir int, name string) ([]byte, error) {
	fd, err := openRetry(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(f)
}

// decodeOps reads a journal. Steps that would lead out of the directory or of the
// stage are none that Croft wrote.
func decodeOps(data []byte) ([]op, error) {
	var j stageJournal
	if err := decodeJournal(data, &j); err != nil {
		return nil, err
	}
	for _, o := range j.Ops {
		name := string(o.Path)
		if !driver.ValidName(name) || name == "." || strings.Trim(o.Temp, "0123456789") != "" {
			return nil, corruptError("the journal of a change to the directory: a step at %q is not valid", name)
		}
	}
	return j.Ops, nil
}

// remove removes the stage. The journal goes first, lest a part of a change be
// repeated, and the sign that there is one before it.
func (s *stage) remove() error {
	if err := unix.Unlinkat(s.fd, journalName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if s.journals != "" {
		if err := os.Remove(filepath.Join(s.journals, s.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return removeAll(s.above, s.name)
}

// Recover completes what a process that was killed had begun to do to a directory,
// and removes what another only made ready. stage and journals are those of
// RestoreOptions of what they did. A change that is under way is
// fault.Unavailable.
func Recover(ctx context.Context, dir, stage, journals string) error {
	above := stage
	if above == "" {
		above = dir
	}
	names, err := listStages(above)
	if err != nil || len(names) == 0 {
		return err
	}
	root, err := openRetry(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return hostError("open", dir, err)
	}
	defer unix.Close(root) //nolint:errcheck // nothing is written through it
	for _, name := range names {
		if err := recoverStage(ctx, root, dir, above, name, journals); err != nil {
			return err
		}
	}
	return nil
}

// listStages lists the stages in a directory.
func listStages(above string) ([]string, error) {
	d, err := os.Open(above)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, hostError("open", above, err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, hostError("list", above, err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, stagePrefix) || !files.IsTemp(n) }), nil
}

func recoverStage(ctx context.Context, root int, dir, above, name, journals string) error {
	fd, err := openRetry(unix.AT_FDCWD, above, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return hostError("open", above, err)
	}
	s, err := openStage(dir, fd, name, journals)
	if err != nil {
		unix.Close(fd) //nolint:errcheck // nothing is written through it
		switch {
		case errors.Is(err, fs.ErrNotExist): // someone else has just recovered it
			return nil
		case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP): // it is no stage, whatever its name
			return nil
		}
		return err
	}
	defer s.close()
	ops, err := s.readJournal()
	if err != nil {
		return err
	}
	if ops != nil {
		if whole, err := runOps(ctx, root, s.fd, ops, &RestoreOptions{}); err != nil {
			if whole {
				err = errors.Join(err, s.remove())
			}
			return fmt.Errorf("snapshot: complete a change that was cut short: %w", err)
		}
	}
	if err := s.remove(); err != nil {
		return hostError("remove", name, err)
	}
	return nil
}
