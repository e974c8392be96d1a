package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// A stage is a hidden directory on the file system of a directory that is changed.
// It holds the new content, a lock file whose flock is held during the change, and
// the journal. If other users can write to the directory of the stage, the journal
// is kept in a private directory instead: a forged journal would make the next
// change carry out its steps.
type stage struct {
	name     string
	above    int // fd of the parent directory
	fd       int
	lock     *os.File
	journals string // directory of journals; "" is the stage
	dir      string // the directory that is changed
	aboveDir string // path of above
	undo     string // see stageJournal

	keepJournal bool // its snapshot for Undo is still to be deleted
}

const (
	stagePrefix = files.StagePrefix
	lockName    = "lock"
	journalName = "journal"
)

// stageJournal is the content of a stage's journal.
type stageJournal struct {
	Dir   string `json:"dir"`
	Above string `json:"above,omitempty"` // directory of the stage; "" is Dir
	Ops   []op   `json:"ops"`             // empty until the change is carried out

	// Undo is the id of the snapshot for Undo, which may not exist yet. It is deleted if the
	// change never began, and is "" after its end.
	Undo string `json:"undo,omitempty"`
}

// A Recovered is a change that Recover completed.
type Recovered struct {
	Dir   string   `json:"dir"`
	Apply bool     `json:"apply,omitempty"` // it was an Apply with a snapshot for Undo
	Left  []string `json:"left,omitempty"`  // paths that were changed since the process was killed, and are left as they are
	None  bool     `json:"none,omitempty"`  // every path was changed since, so that nothing was completed
}

func (r Recovered) String() string {
	text := "an interrupted change of " + printable(r.Dir)
	if r.Apply {
		text = "an interrupted apply to " + printable(r.Dir)
	}
	switch {
	case r.None:
		return text + " was not completed: its files were changed since, and are left as they are: " + firstNames(r.Left)
	case len(r.Left) > 0:
		return "completed " + text + "; left as they are, because they were changed since: " + firstNames(r.Left)
	}
	return "completed " + text
}

func newStage(dir, above, journals, undo string) (*stage, error) {
	if above == "" {
		above = dir
	}
	fd, err := openRetry(unix.AT_FDCWD, above, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, hostError("stage in", above, err)
	}
	name := stagePrefix + driver.NewID()
	s := &stage{name: name, journals: journals, dir: dir, aboveDir: above, undo: undo}
	if journals != "" { // so that RecoverAll finds the stage
		if err := s.writePrivateJournal(nil, false); err != nil {
			unix.Close(fd) //nolint:errcheck // nothing is written through it
			return nil, err
		}
	}
	if err := unix.Mkdirat(fd, name, 0o700); err != nil {
		s.removePrivateJournal() //nolint:errcheck // RecoverAll removes what is left
		unix.Close(fd)           //nolint:errcheck // nothing is written through it
		return nil, hostError("stage in", above, err)
	}
	s, err = openStage(dir, fd, above, name, journals)
	if err != nil {
		removeAll(fd, name) //nolint:errcheck // Recover removes what is left
		unix.Close(fd)      //nolint:errcheck // nothing is written through it
		return nil, err
	}
	s.undo = undo
	if journals == "" && undo != "" {
		if err := s.writeJournal(nil, false); err != nil {
			s.remove() //nolint:errcheck // Recover removes what is left
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// openStage opens and locks a stage in the directory above, whose descriptor the
// stage then owns. A locked stage is fault.Unavailable.
func openStage(dir string, above int, aboveDir, name, journals string) (*stage, error) {
	s := &stage{name: name, above: above, fd: -1, journals: journals, dir: dir, aboveDir: aboveDir}
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
		return nil, fmt.Errorf("snapshot: another change of the directory is running: %w", fault.Unavailable)
	}
	return nil, hostError("lock", name, err)
}

func (s *stage) close() {
	s.lock.Close() // nil if it was not taken
	for _, fd := range []int{s.fd, s.above} {
		if fd >= 0 {
			unix.Close(fd) //nolint:errcheck // nothing is written through it
		}
	}
}

// writeJournal writes the steps.
func (s *stage) writeJournal(ops []op, durable bool) error {
	var data []byte
	var err error
	if s.journals != "" {
		err = s.writePrivateJournal(ops, durable) // an empty file in the stage marks that there is one
	} else {
		var buf bytes.Buffer
		err = stageJournal{Dir: s.dir, Ops: ops, Undo: s.undo}.writeTo(&buf)
		data = buf.Bytes()
	}
	if err != nil {
		return err
	}
	if err := writeFileAt(s.fd, journalName, data, durable); err != nil {
		return hostError("write", "the journal", err)
	}
	return nil
}

// writePrivateJournal writes the journal to the directory of journals.
func (s *stage) writePrivateJournal(ops []op, durable bool) error {
	j := stageJournal{Dir: s.dir, Ops: ops, Undo: s.undo}
	if s.aboveDir != s.dir {
		j.Above = s.aboveDir
	}
	if err := os.MkdirAll(s.journals, 0o700); err != nil {
		return hostError("write", "the journal", err)
	}
	lock := flock.New(s.journals, flock.SetFlag(os.O_RDONLY))
	defer lock.Close()                   //nolint:errcheck // closing releases the flock in any case
	if err := lock.RLock(); err != nil { // RecoverAll holds it for a moment
		return hostError("write", "the journal", err)
	}
	if err := atomicfile.WriteTo(filepath.Join(s.journals, s.name), atomicfile.Options{Durable: durable}, j.writeTo); err != nil {
		return hostError("write", "the journal", err)
	}
	return nil
}

// removeUnfinishedJournals removes the temporary files of journals that killed processes
// were writing. It does nothing while a process writes a journal.
func removeUnfinishedJournals(journals string) error {
	lock := flock.New(journals, flock.SetFlag(os.O_RDONLY))
	defer lock.Close() //nolint:errcheck // closing releases the flock in any case
	if ok, err := lock.TryLock(); !ok || err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(journals, "."+stagePrefix+"*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

func (s *stage) removePrivateJournal() error {
	if err := os.Remove(filepath.Join(s.journals, s.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFileAt writes a file in an open directory atomically.
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

// readJournal reads the journal. Without a journal file, the result has no steps.
func (s *stage) readJournal() (j stageJournal, err error) {
	begun := inodeAt(s.fd, journalName) != 0
	var data []byte
	if s.journals != "" {
		data, err = os.ReadFile(filepath.Join(s.journals, s.name))
	} else {
		data, err = readFileAt(s.fd, journalName)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if begun && s.journals != "" {
			return j, fmt.Errorf("snapshot: %s in the directory belongs to a change with an unknown journal: %w: "+
				"run the command with the data directory that has the journal, or remove the directory if another program made it", s.name, fault.WrongState)
		}
		return j, nil
	}
	if err != nil {
		return j, hostError("read", "the journal", err)
	}
	return decodeStageJournal(data)
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

// decodeStageJournal decodes a journal. It rejects steps that lead outside the
// directory or the stage, which Croft never writes.
func decodeStageJournal(data []byte) (j stageJournal, err error) {
	if err := decodeJournal(data, &j); err != nil {
		return j, err
	}
	for _, o := range j.Ops {
		name := string(o.Path)
		if !driver.ValidName(name) || name == "." || strings.Trim(o.Temp, "0123456789") != "" {
			return stageJournal{}, corruptError("the journal of a change to the directory: a step at %q is not valid", name)
		}
	}
	return j, nil
}

// remove removes the stage: first the mark that there is a journal, then the steps,
// so that a change is never repeated in part.
func (s *stage) remove() error {
	if err := unix.Unlinkat(s.fd, journalName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if s.journals == "" {
		return removeAll(s.above, s.name)
	}
	// The journal goes last if it has no steps: RecoverAll finds the stage by it.
	if err := s.writePrivateJournal(nil, false); err != nil {
		return err
	}
	if err := removeAll(s.above, s.name); err != nil {
		return err
	}
	if s.keepJournal {
		return nil
	}
	return s.removePrivateJournal()
}

// Recover completes the changes of a directory that killed processes left, and
// removes stages without steps. stage and journals are the values of
// RestoreOptions for that change, and undo are stores, or nil, that may have the snapshot
// for Undo of a change that never began, which is deleted. A path that was changed since
// the process was killed is left as it is (see RestoreOptions.Stage). A change that is
// running is fault.Unavailable.
func Recover(ctx context.Context, dir, stage, journals string, undo ...*Store) ([]Recovered, error) {
	above := stage
	if above == "" {
		above = dir
	}
	names, err := listStages(above)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	root, err := openRetry(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, hostError("open", dir, err)
	}
	defer unix.Close(root) //nolint:errcheck // nothing is written through it
	var all []Recovered
	for _, name := range names {
		r, err := recoverStage(ctx, root, dir, above, name, journals, undo)
		if err != nil {
			return all, err
		}
		if r != nil {
			all = append(all, *r)
		}
	}
	return all, nil
}

// RecoverAll is Recover for every directory with a journal in a directory of
// journals. Changes that are running, and directories that are missing, are left
// alone.
func RecoverAll(ctx context.Context, journals string, undo ...*Store) ([]Recovered, error) {
	entries, err := os.ReadDir(journals)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, hostError("list", journals, err)
	}
	errs := []error{removeUnfinishedJournals(journals)}
	var all []Recovered
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagePrefix) && files.IsTemp(e.Name()) {
			done, err := recoverJournal(ctx, journals, e.Name(), undo)
			all, errs = append(all, done...), append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// recoverJournal completes the change of one journal.
func recoverJournal(ctx context.Context, journals, name string, undo []*Store) ([]Recovered, error) {
	data, err := os.ReadFile(filepath.Join(journals, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the change is complete
	}
	if err != nil {
		return nil, hostError("read", "a journal", err)
	}
	j, err := decodeStageJournal(data)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(j.Dir); err != nil {
		return nil, nil // it may be on a file system that is not mounted
	}
	above := cmp.Or(j.Above, j.Dir)
	if _, err := os.Lstat(filepath.Join(above, name)); errors.Is(err, fs.ErrNotExist) && len(j.Ops) == 0 {
		s := &stage{name: name, journals: journals, dir: j.Dir, undo: j.Undo}
		if err := s.dropUndo(ctx, undo); err != nil || s.keepJournal {
			return nil, err
		}
		return nil, s.removePrivateJournal()
	}
	done, err := Recover(ctx, j.Dir, j.Above, journals, undo...)
	if fault.Of(err) == fault.Unavailable {
		err = nil // a change is running
	}
	return done, err
}

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

func recoverStage(ctx context.Context, root int, dir, above, name, journals string, undo []*Store) (*Recovered, error) {
	fd, err := openRetry(unix.AT_FDCWD, above, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, hostError("open", above, err)
	}
	s, err := openStage(dir, fd, above, name, journals)
	if err != nil {
		unix.Close(fd) //nolint:errcheck // nothing is written through it
		switch {
		case errors.Is(err, fs.ErrNotExist): // another process has recovered it
			return nil, nil
		case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP): // not a stage
			return nil, nil
		}
		return nil, err
	}
	defer s.close()
	j, err := s.readJournal()
	if err != nil {
		return nil, err
	}
	s.undo = j.Undo
	var res *Recovered
	began := false
	if j.Ops != nil {
		dirs := &parentCache{root: root, stage: s.fd, recovers: true}
		if whole, err := dirs.runOps(ctx, j.Ops, &RestoreOptions{}); err != nil {
			if whole {
				err = errors.Join(err, s.dropUndo(ctx, undo), s.remove())
			}
			return nil, fmt.Errorf("snapshot: complete an interrupted change: %w", err)
		}
		res = &Recovered{Dir: dir, Apply: j.Undo != "", None: true}
		for i := range j.Ops {
			o := &j.Ops[i]
			res.None = res.None && (o.skip || o.TimeOnly)
			switch {
			case !o.left:
				began = began || !o.TimeOnly
			case !o.TimeOnly:
				res.Left = append(res.Left, string(o.Path))
			}
		}
		res.None = res.None && len(res.Left) > 0
		slices.Sort(res.Left)
	}
	if began {
		s.undo = ""
	} else if err := s.dropUndo(ctx, undo); err != nil {
		return nil, err
	}
	if err := s.remove(); err != nil {
		return nil, hostError("remove", name, err)
	}
	return res, nil
}

// dropUndo deletes the snapshot for Undo of a change that never began. Without a store it
// stays in the journal, for a RecoverAll that has one. A snapshot of another directory is
// never deleted: a journal in the stage may be forged.
func (s *stage) dropUndo(ctx context.Context, stores []*Store) error {
	if s.undo == "" {
		return nil
	}
	stores = slices.DeleteFunc(slices.Clone(stores), func(s *Store) bool { return s == nil })
	if s.keepJournal = len(stores) == 0; s.keepJournal {
		return nil
	}
	real, err := realPath(s.dir)
	if err != nil {
		return err
	}
	for _, store := range stores {
		m, err := store.Get(ctx, s.undo)
		if err == nil && m.Labels[DirLabel] == real {
			err = store.be.Delete(ctx, kindSnapshots+"/"+s.undo)
		}
		if err != nil && fault.Of(err) != fault.NotFound {
			return err
		}
	}
	s.undo = ""
	return nil
}
