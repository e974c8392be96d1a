package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A change is a transaction on a directory. New content is written to a stage.
// Before the journal is written, nothing is changed; afterwards the change is
// completed or, if a step fails, rolled back.
type change struct {
	dir       string
	opts      *RestoreOptions
	only      *pathSet
	installer *installer
	root      int // fd of dir

	stage     *stage // nil until ensureStage
	keepStage bool   // leave the stage for Recover
	seq       int
	ops       []op
}

// An op is an idempotent step of a change.
type op struct {
	Path     []byte `json:"path"`             // names are bytes
	Temp     string `json:"temp,omitempty"`   // name in the stage of the new entry
	Ino      uint64 `json:"ino,omitempty"`    // inode of Temp, which tells whether the move was done
	Remove   bool   `json:"remove,omitempty"` // remove the entry
	Attr     *attr  `json:"attr,omitempty"`   // set these attributes
	TimeOnly bool   `json:"touch,omitempty"`  // only its mtime changed, by steps below it

	// Before is what was there before the change; nil if Recover may overwrite what was
	// changed since.
	Before *before `json:"before,omitempty"`

	lost bool // the old entry could not be moved to the stage
	skip bool // Recover leaves the path as it is
	left bool // the step was not done, as the path was changed since
}

type attr struct {
	Mode   uint32          `json:"mode"`
	Sec    int64           `json:"sec"`
	Nsec   int             `json:"nsec"`
	Xattrs []Xattr         `json:"xattrs,omitempty"`
	Type   driver.FileType `json:"type"`
}

func newChange(dir string, opts *RestoreOptions) (*change, error) {
	root, err := openRetry(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, hostError("open", dir, err)
	}
	return &change{dir: dir, opts: opts, only: newPathSet(opts.Only), installer: newInstaller(opts), root: root}, nil
}

// ensureStage creates the stage on first use.
func (c *change) ensureStage() (err error) {
	if c.stage == nil {
		c.stage, err = newStage(c.dir, c.opts.Stage, c.opts.Journals, c.opts.undo)
	}
	return err
}

// addNode writes a node to the stage and adds the step that moves it to name.
func (c *change) addNode(ctx context.Context, from Directory, n *Node, name string) error {
	if err := c.ensureStage(); err != nil {
		return err
	}
	c.seq++
	temp := strconv.Itoa(c.seq)
	if err := c.installer.installNode(ctx, from, n, c.stage.fd, temp); err != nil {
		return wrapPath(name, err)
	}
	c.ops = append(c.ops, op{Path: []byte(name), Temp: temp, Ino: inodeAt(c.stage.fd, temp)})
	return nil
}

func (c *change) addRemoval(name string) { c.ops = append(c.ops, op{Path: []byte(name), Remove: true}) }

func (c *change) addAttr(n *Node, name string, touch bool) {
	c.ops = append(c.ops, op{Path: []byte(name), Attr: c.installer.attrsOf(n), TimeOnly: touch})
}

func (p *installer) attrsOf(n *Node) *attr {
	return &attr{Mode: p.modeBits(n), Sec: n.ModTime.Unix(), Nsec: n.ModTime.Nanosecond(), Xattrs: n.Xattrs, Type: n.Type}
}

// prepare creates the stage if there are steps, and records what is at their paths. In a
// directory with a stage elsewhere, which belongs to a workspace, Recover completes every step.
func (c *change) prepare() error {
	if len(c.ops) == 0 {
		return nil
	}
	if err := c.ensureStage(); err != nil {
		return err
	}
	if c.opts.Stage == "" {
		dirs := &parentCache{root: c.root, stage: c.stage.fd}
		defer dirs.close()
		for i := range c.ops {
			c.ops[i].Before = dirs.describe(&c.ops[i])
		}
	}
	return nil
}

// commit writes the journal, carries out its steps, and lets close remove the
// stage.
func (c *change) commit(ctx context.Context) error {
	if len(c.ops) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snapshot: restore: %w", err)
	}
	if err := c.stage.writeJournal(c.ops, c.opts.Sync); err != nil {
		return err
	}
	driver.Step(ctx, "journal")
	// From here on ctx no longer cancels: the change is completed or rolled back.
	dirs := &parentCache{root: c.root, stage: c.stage.fd}
	back, err := dirs.runOps(ctx, c.ops, c.opts)
	if c.keepStage = !back; err != nil {
		return err
	}
	c.stage.undo = "" // it is the record of a change
	driver.Step(ctx, "done")
	return nil
}

// close ends the change. Without a commit nothing was changed.
func (c *change) close() {
	unix.Close(c.root) //nolint:errcheck // nothing is written through it
	if c.stage == nil {
		return
	}
	if !c.keepStage {
		c.stage.remove() //nolint:errcheck // Recover removes what is left
	}
	c.stage.close()
}

// runOps carries out the steps: moves and removals first, then attributes, those of
// a directory after those of its entries. If a step fails, the earlier ones are
// reverted. whole is false if that failed, too.
func (p *parentCache) runOps(ctx context.Context, ops []op, opts *RestoreOptions) (whole bool, err error) {
	defer p.close()
	for i := range ops {
		if ops[i].Attr != nil || p.skips(&ops[i], i) {
			continue
		}
		if err := p.applyMove(&ops[i], i); err != nil {
			return p.revertOps(ops[:i], nil, hostError("change", string(ops[i].Path), err))
		}
		driver.Step(ctx, "moved")
	}
	var were []op // old attributes, to revert
	for i := range ops {
		if ops[i].Attr == nil || p.skips(&ops[i], i) {
			continue
		}
		was, err := p.setAttrs(&ops[i], opts)
		if err != nil {
			return p.revertOps(ops, were, hostError("change", string(ops[i].Path), err))
		}
		were = append(were, op{Path: ops[i].Path, Attr: was})
	}
	return true, nil
}

// revertOps undoes completed steps, last first.
func (p *parentCache) revertOps(ops, were []op, cause error) (whole bool, err error) {
	errs := []error{cause}
	for i := len(were) - 1; i >= 0; i-- {
		if _, err := p.setAttrs(&were[i], &RestoreOptions{}); err != nil {
			errs = append(errs, hostError("revert the change of", string(were[i].Path), err))
		}
	}
	for i := len(ops) - 1; i >= 0; i-- {
		if ops[i].Attr != nil || ops[i].skip {
			continue
		}
		if err := p.revertMove(&ops[i], i); err != nil {
			errs = append(errs, hostError("revert the change of", string(ops[i].Path), err))
		}
	}
	for _, d := range p.closed {
		if err := chmodBelow(p.root, d.name, d.mode); err != nil {
			errs = append(errs, hostError("revert the mode of", d.name, err))
		}
	}
	return len(errs) == 1, errors.Join(errs...)
}

// parentCache keeps the directory used last open.
type parentCache struct {
	root     int // fd of dir
	stage    int
	recovers bool // the steps are those of a killed process
	name     string
	fd       int
	open     bool
	closed   []closedDir // opened by openClosed
}

// A closedDir is a directory in which its owner may not write.
type closedDir struct {
	name string
	mode uint32
}

func (p *parentCache) close() {
	if p.open {
		unix.Close(p.fd) //nolint:errcheck // nothing is written through it
		p.open = false
	}
}

func (p *parentCache) openParent(name string) (fd int, base string, err error) {
	dir, base := splitParent(name)
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

// applyMove installs or removes one entry. The old entry is then in the stage, if
// the file system supports that move.
func (p *parentCache) applyMove(o *op, number int) error {
	dir, base, err := p.openParent(string(o.Path))
	if err != nil {
		if o.Remove && isNotExist(err) {
			return nil
		}
		return err
	}
	step := func() error { return moveFromStage(p.stage, o, dir, base) }
	if o.Remove {
		step = func() error { return moveToStage(p.stage, o, number, dir, base) }
	}
	err = step()
	if errors.Is(err, unix.EACCES) && p.openClosed() {
		err = step()
	}
	if errors.Is(err, unix.EACCES) && o.Remove { // a directory that can't be read
		o.lost = true
		err = removeAll(dir, base)
	}
	return err
}

// openClosed gives the owner of the current directory the right to change its entries, and
// reports whether it lacked the right. The attribute steps restore its mode.
func (p *parentCache) openClosed() bool {
	var st unix.Stat_t
	if unix.Fstat(p.fd, &st) != nil || st.Mode&0o300 == 0o300 || unix.Fchmod(p.fd, 0o700) != nil {
		return false
	}
	p.closed = append(p.closed, closedDir{p.name, uint32(st.Mode) & 0o7777})
	return true
}

// chmodBelow sets the mode of a directory below root.
func chmodBelow(root int, name string, mode uint32) error {
	fd, err := openBelow(root, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is written through it
	return unix.Fchmod(fd, mode)
}

// moveEntry calls rename, which moves an entry to another directory, or exchanges two. The
// kernel does so with a directory only if its owner may write in it, so the owner gets that right
// meanwhile.
func moveEntry(rename func(from int, name string, to int, newName string) error, from int, name string, to int, newName string) error {
	err := rename(from, name, to, newName)
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	restore := makeWritable(from, name)
	defer restore()
	restoreOther := makeWritable(to, newName)
	defer restoreOther()
	return rename(from, name, to, newName)
}

// makeWritable lets the owner of a directory write in it, until restore is called. It does
// nothing with other entries.
func makeWritable(dir int, name string) (restore func()) {
	fd, err := openRetry(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return func() {}
	}
	var st unix.Stat_t
	closed := unix.Fstat(fd, &st) == nil && st.Mode&0o200 == 0 && unix.Fchmod(fd, uint32(st.Mode)&0o7777|0o200) == nil
	return func() {
		if closed {
			unix.Fchmod(fd, uint32(st.Mode)&0o7777) //nolint:errcheck // it is the owner's
		}
		unix.Close(fd) //nolint:errcheck // nothing is written through it
	}
}

// moveFromStage swaps the staged entry with the one at base by RENAME_EXCHANGE, or
// renames it if the exchange is not possible.
func moveFromStage(stage int, o *op, dir int, base string) error {
	if o.Ino != 0 && inodeAt(dir, base) == o.Ino {
		return nil // done before
	}
	err := moveEntry(exchangeNames, stage, o.Temp, dir, base)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.ENOENT) && !cannotMove(err) {
		return err
	}
	o.lost = inodeAt(dir, base) != 0
	err = moveEntry(unix.Renameat, stage, o.Temp, dir, base)
	for _, clash := range []error{unix.EISDIR, unix.ENOTDIR, unix.ENOTEMPTY, unix.EEXIST} {
		if errors.Is(err, clash) {
			if err := removeAll(dir, base); err != nil {
				return err
			}
			err = moveEntry(unix.Renameat, stage, o.Temp, dir, base)
			break
		}
	}
	if errors.Is(err, unix.ENOENT) && inodeAt(stage, o.Temp) == 0 {
		return nil // done before
	}
	return err
}

// moveToStage moves an entry that is removed into the stage, or deletes it if it
// can't be moved.
func moveToStage(stage int, o *op, number int, dir int, base string) error {
	err := moveEntry(unix.Renameat, dir, base, stage, asideName(number))
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // done before
	case err != nil && cannotMove(err):
		o.lost = true
		return removeAll(dir, base)
	}
	return err
}

func asideName(number int) string { return "gone-" + strconv.Itoa(number) }

// cannotMove reports whether the file system does not support the move, for example
// of a directory of an overlayfs lower layer.
func cannotMove(err error) bool {
	for _, e := range []error{unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.ENOTSUP, unix.EEXIST, unix.ENOTEMPTY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

var errNotKept = fmt.Errorf("the old entry was not kept: %w", fault.Failed)

// revertMove is the inverse of applyMove.
func (p *parentCache) revertMove(o *op, number int) error {
	dir, base, err := p.openParent(string(o.Path))
	if err != nil {
		if o.Remove && isNotExist(err) {
			return nil // nothing was removed
		}
		return err
	}
	switch {
	case o.lost:
		return errNotKept
	case o.Remove && inodeAt(p.stage, asideName(number)) != 0:
		return moveEntry(unix.Renameat, p.stage, asideName(number), dir, base)
	case o.Remove:
		return nil
	case o.Ino == 0 || inodeAt(dir, base) != o.Ino:
		return errNotKept
	case inodeAt(p.stage, o.Temp) == 0: // there was no old entry
		return moveEntry(unix.Renameat, dir, base, p.stage, o.Temp)
	}
	return moveEntry(exchangeNames, p.stage, o.Temp, dir, base)
}

// inodeAt is the inode number of an entry; 0 if it does not exist.
func inodeAt(dir int, name string) uint64 {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return st.Ino
}

// setAttrs sets the attributes of an entry, and returns the old ones.
func (p *parentCache) setAttrs(o *op, opts *RestoreOptions) (was *attr, err error) {
	dir, base, err := p.openParent(string(o.Path))
	if err != nil {
		return nil, err
	}
	n := &Node{Name: base, Type: o.Attr.Type, Mode: fs.FileMode(o.Attr.Mode), ModTime: time.Unix(o.Attr.Sec, int64(o.Attr.Nsec)), Xattrs: o.Attr.Xattrs}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	old := nodeFromStat(base, &st)
	if n.Type == driver.TypeSymlink {
		return (&installer{}).attrsOf(&old), setTime(dir, base, n)
	}
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := openRetry(dir, base, flags)
	if errors.Is(err, unix.EACCES) && unix.Fchmodat(dir, base, 0o700, 0) == nil {
		fd, err = openRetry(dir, base, flags)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is written through it
	attrs, err := listXattrs(fd)
	if err != nil {
		return nil, err
	}
	old.Xattrs = userXattrs(attrs)
	return (&installer{}).attrsOf(&old), (&installer{sync: opts.Sync}).setAttrs(fd, n, false)
}
