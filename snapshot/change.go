package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/workspace/driver"
)

// A change to a directory is made ready in a stage: a hidden directory on the same
// file system with what is new, a lock that is held while the change is under way,
// and a journal, which says what is to be done. While there is no journal, nothing
// was done; from then on the change is to be completed.
type change struct {
	dir   string
	opts  *RestoreOptions
	only  *pathSet
	place *placer
	root  int // the directory

	stage   string // "" until something is made ready
	stageFD int
	lock    *flock.Flock
	seq     int
	ops     []op
}

// An op is a step of a change. Doing it twice is doing it once.
type op struct {
	Path   []byte `json:"path"`             // names are bytes
	Temp   string `json:"temp,omitempty"`   // it becomes what is in the stage under this name
	Remove bool   `json:"remove,omitempty"` // it goes
	Attr   *attr  `json:"attr,omitempty"`   // it has these attributes
	Touch  bool   `json:"touch,omitempty"`  // only its time changed, by what was done below
}

type attr struct {
	Mode   uint32          `json:"mode"`
	Sec    int64           `json:"sec"`
	Nsec   int             `json:"nsec"`
	Xattrs []Xattr         `json:"xattrs,omitempty"`
	Type   driver.FileType `json:"type"`
}

const (
	stagePrefix = boundary.TempPrefix + "stage-"
	journalName = "journal"
	journalHead = "croft-journal 1 "
)

func newChange(dir string, opts *RestoreOptions) (*change, error) {
	root, err := openRetry(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, hostError("open", dir, err)
	}
	return &change{dir: dir, opts: opts, only: newPathSet(opts.Only), place: newPlacer(opts), root: root, stageFD: -1}, nil
}

// ready makes the stage.
func (c *change) ready() error {
	if c.stage != "" {
		return nil
	}
	above := c.opts.Stage
	if above == "" {
		above = c.dir
	}
	stage := filepath.Join(above, stagePrefix+driver.NewID())
	if err := os.Mkdir(stage, 0o700); err != nil {
		return hostError("stage", stage, err)
	}
	c.stage = stage
	c.lock = flock.New(filepath.Join(stage, "lock"))
	if _, err := c.lock.TryLock(); err != nil {
		return hostError("stage", stage, err)
	}
	var err error
	if c.stageFD, err = openRetry(unix.AT_FDCWD, stage, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return hostError("stage", stage, err)
	}
	return nil
}

// put makes a node ready, to be at name.
func (c *change) put(ctx context.Context, from Directory, n *Node, name string) error {
	if err := c.ready(); err != nil {
		return err
	}
	c.seq++
	temp := strconv.Itoa(c.seq)
	if err := c.place.make(ctx, from, n, c.stageFD, temp); err != nil {
		return within(name, err)
	}
	c.ops = append(c.ops, op{Path: []byte(name), Temp: temp})
	return nil
}

func (c *change) remove(name string) { c.ops = append(c.ops, op{Path: []byte(name), Remove: true}) }

func (c *change) attr(n *Node, name string, touch bool) {
	a := &attr{Mode: c.place.mode(n), Sec: n.ModTime.Unix(), Nsec: n.ModTime.Nanosecond(), Xattrs: n.Xattrs, Type: n.Type}
	c.ops = append(c.ops, op{Path: []byte(name), Attr: a, Touch: touch})
}

// commit writes down what is to be done, does it, and removes the stage.
func (c *change) commit(ctx context.Context) error {
	if len(c.ops) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snapshot: restore: %w", err)
	}
	if err := c.ready(); err != nil {
		return err
	}
	if err := writeJournal(c.stage, c.ops, c.opts.Sync); err != nil {
		return err
	}
	driver.Step(ctx, "journal")
	// From here on there is no way back, whatever the context says.
	if err := do(ctx, c.root, c.stageFD, c.ops, c.opts); err != nil {
		return err
	}
	driver.Step(ctx, "done")
	return nil
}

// close ends the change: one that was not committed is undone.
func (c *change) close() {
	unix.Close(c.root) //nolint:errcheck // nothing is written through it
	if c.stage == "" {
		return
	}
	unix.Close(c.stageFD) //nolint:errcheck // likewise
	removeStage(c.stage)  //nolint:errcheck // Recover removes what is left
	c.lock.Close()        //nolint:errcheck // the lock ends with the descriptor
}

// removeStage removes the journal first, lest a part of a change be repeated.
func removeStage(stage string) error {
	if err := os.Remove(filepath.Join(stage, journalName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeAll(unix.AT_FDCWD, stage)
}

func writeJournal(stage string, ops []op, durable bool) error {
	body, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("snapshot: write the journal: %w: %w", fault.Internal, err)
	}
	data := append([]byte(journalHead+driver.DigestBytes(body)+"\n"), body...)
	temp := filepath.Join(stage, journalName+".new")
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(data)
		if err == nil && durable {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = os.Rename(temp, filepath.Join(stage, journalName))
	}
	if err == nil && durable {
		err = syncDir(stage)
	}
	if err != nil {
		return hostError("write", "the journal", err)
	}
	return nil
}

func readJournal(stage string) ([]op, error) {
	data, err := os.ReadFile(filepath.Join(stage, journalName))
	if err != nil {
		return nil, err
	}
	head, body, _ := bytes.Cut(data, []byte("\n"))
	digest, ok := strings.CutPrefix(string(head), journalHead)
	if !ok || driver.DigestBytes(body) != digest {
		return nil, corrupt("the journal of a change to the directory is damaged")
	}
	var ops []op
	if err := json.Unmarshal(body, &ops); err != nil {
		return nil, corrupt("the journal of a change to the directory: %v", err)
	}
	return ops, nil
}

// Recover completes what a process that was killed had begun to do to a directory,
// and removes what another only made ready. stage is RestoreOptions.Stage of what
// they did. A change that is under way is fault.Unavailable.
func Recover(ctx context.Context, dir, stage string) error {
	above := stage
	if above == "" {
		above = dir
	}
	names, err := stages(above)
	if err != nil || len(names) == 0 {
		return err
	}
	root, err := openRetry(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return hostError("open", dir, err)
	}
	defer unix.Close(root) //nolint:errcheck // nothing is written through it
	for _, name := range names {
		if err := recoverStage(ctx, root, filepath.Join(above, name)); err != nil {
			return err
		}
	}
	return nil
}

// stages lists the stages in a directory.
func stages(above string) ([]string, error) {
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
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, stagePrefix) }), nil
}

func recoverStage(ctx context.Context, root int, stage string) error {
	lock := flock.New(filepath.Join(stage, "lock"))
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	ok, err := lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // someone else has just recovered it
	}
	if err != nil {
		return hostError("lock", stage, err)
	}
	if !ok {
		return fmt.Errorf("snapshot: a change to the directory is under way: %w", fault.Unavailable)
	}
	ops, err := readJournal(stage)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		fd, err := openRetry(unix.AT_FDCWD, stage, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return hostError("open", stage, err)
		}
		defer unix.Close(fd) //nolint:errcheck // nothing is written through it
		if err := do(ctx, root, fd, ops, &RestoreOptions{}); err != nil {
			return err
		}
	}
	if err := removeStage(stage); err != nil {
		return hostError("remove", stage, err)
	}
	return nil
}

// do carries out the steps: first what is put and removed, then attributes, those
// of directories after those of what is in them.
func do(ctx context.Context, root, stage int, ops []op, opts *RestoreOptions) error {
	dirs := &parents{root: root}
	defer dirs.close()
	for i := range ops {
		o := &ops[i]
		if o.Attr != nil {
			continue
		}
		if err := dirs.move(stage, o); err != nil {
			return hostError("change", string(o.Path), err)
		}
		driver.Step(ctx, "moved")
	}
	for i := len(ops) - 1; i >= 0; i-- {
		if o := &ops[i]; o.Attr != nil {
			if err := dirs.attr(o, opts); err != nil {
				return hostError("change", string(o.Path), err)
			}
		}
	}
	return nil
}

// parents keeps the directory that was used last open.
type parents struct {
	root int
	name string
	fd   int
	open bool
}

func (p *parents) close() {
	if p.open {
		unix.Close(p.fd) //nolint:errcheck // nothing is written through it
		p.open = false
	}
}

func (p *parents) of(name string) (fd int, base string, err error) {
	dir, base := parent(name)
	if p.open && p.name == dir {
		return p.fd, base, nil
	}
	p.close()
	if p.fd, err = openBelow(p.root, dir); err != nil {
		return -1, "", err
	}
	p.name, p.open = dir, true
	return p.fd, base, nil
}

// move puts or removes something.
func (p *parents) move(stage int, o *op) error {
	dir, base, err := p.of(string(o.Path))
	if err != nil {
		if o.Remove && isNotExist(err) {
			return nil
		}
		return err
	}
	err = move(dir, base, stage, o)
	if errors.Is(err, unix.EACCES) && unix.Fchmod(dir, 0o700) == nil { // its own attributes come last
		err = move(dir, base, stage, o)
	}
	return err
}

func move(dir int, base string, stage int, o *op) error {
	if o.Remove {
		return removeAll(dir, base)
	}
	err := unix.Renameat(stage, o.Temp, dir, base)
	for _, clash := range []error{unix.EISDIR, unix.ENOTDIR, unix.ENOTEMPTY, unix.EEXIST} {
		if errors.Is(err, clash) {
			if err := removeAll(dir, base); err != nil {
				return err
			}
			err = unix.Renameat(stage, o.Temp, dir, base)
			break
		}
	}
	if errors.Is(err, unix.ENOENT) && unix.Faccessat(stage, o.Temp, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // it was done before
	}
	return err
}

// attr gives what is there its attributes.
func (p *parents) attr(o *op, opts *RestoreOptions) error {
	dir, base, err := p.of(string(o.Path))
	if err != nil {
		return err
	}
	n := &Node{Name: base, Type: o.Attr.Type, Mode: fs.FileMode(o.Attr.Mode), ModTime: time.Unix(o.Attr.Sec, int64(o.Attr.Nsec)), Xattrs: o.Attr.Xattrs}
	if n.Type == driver.TypeSymlink {
		return setTime(dir, base, n)
	}
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := openRetry(dir, base, flags)
	if errors.Is(err, unix.EACCES) && unix.Fchmodat(dir, base, 0o700, 0) == nil {
		fd, err = openRetry(dir, base, flags)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is written through it
	return (&placer{sync: opts.Sync}).set(fd, n, false)
}
