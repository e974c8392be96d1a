package files

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Options are the options of Open and FromFD. The zero value is a root that can
// be written to.
type Options struct {
	ReadOnly   bool // every change is fault.PermissionDenied
	Sync       bool // every change is on stable storage before it returns, whatever the call's own options say
	NoSymlinks bool // Open refuses a path in which any element is a symlink, as fault.SandboxViolation

	// Exact takes what is asked for as it is: symlinks that lead outside, which
	// no call follows, and modes with all bits that there are. It is for who
	// brings back what was there, and never for what an agent asks for.
	Exact bool

	// KeepMounts refuses to replace, rename and remove what is a mount point. The
	// kernel does so by itself only in the mount namespace of the caller; it is for a
	// root on the mounts of another one.
	KeepMounts bool

	// Commit, where it is set, makes the last step of each Write and Edit, and of
	// each file of a Copy: the one that others see. It either calls change, once,
	// and returns its error, or returns why the change may not be made any more.
	// So a permission that is withdrawn while a body is on its way counts.
	Commit func(change func() error) error
}

// commit is Options.Commit, and calls change where that is nil.
type commit func(change func() error) error

func (c commit) do(change func() error) error {
	if c == nil {
		return change()
	}
	return c(change)
}

// A Root is a directory that no path leaves. Its methods are those of
// driver.FS; they take any string for a name and nil for options, and may be
// called from any number of goroutines.
type Root struct {
	opts Options
	sys  system // what the operating system does, in terms of clean names

	// refs counts the calls that use sys, and one for being open: the last to
	// leave closes it, so that no call sees a descriptor that is someone else's.
	refs   atomic.Int64
	closed atomic.Bool
}

// Open returns the root at dir, which must be a directory. dir itself is the
// caller's word: it is opened as it is, through any symlinks unless the options
// forbid them.
func Open(dir string, opts *Options) (*Root, error) {
	s, err := openSystem(dir, orZero(opts).NoSymlinks)
	if err != nil {
		return nil, failed("open", dir, err)
	}
	return newRoot(s, opts), nil
}

func newRoot(s system, opts *Options) *Root {
	r := &Root{opts: *orZero(opts), sys: s}
	r.sys.commit, r.sys.keepMounts = r.opts.Commit, r.opts.KeepMounts
	r.refs.Store(1)
	return r
}

// With returns another root at the same directory, with options of its own.
func (r *Root) With(opts *Options) (*Root, error) {
	if !r.acquire() {
		return nil, failed("open", ".", ErrClosed)
	}
	defer r.done()
	s, err := r.sys.again()
	if err != nil {
		return nil, failed("open", ".", err)
	}
	return newRoot(s, opts), nil
}

// Close lets go of the directory. Calls that are under way finish; readers and
// watchers that are open stay so.
func (r *Root) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	return r.end()
}

// Module returns the root as a driver's module for files, with every function set.
func (r *Root) Module() *driver.FS {
	return &driver.FS{
		Files: r, List: r.List, Edit: r.Edit, Rename: r.Rename, Copy: r.Copy, Chmod: r.Chmod,
		Symlink: r.Symlink, Glob: r.Glob, Grep: r.Grep, Watch: r.Watch, Digest: r.Digest, Import: r.Import,
	}
}

var _ driver.Files = (*Root)(nil)

// access says what a call does.
type access bool

const (
	reads   access = false
	changes access = true
)

// begin judges a call before anything happens. Where it returns no error, end
// must follow.
func (r *Root) begin(ctx context.Context, a access, verb, name string) (target, error) {
	if err := ctx.Err(); err != nil {
		return target{}, failed(verb, name, err)
	}
	t, err := clean(name)
	if err == nil && a == changes && r.opts.ReadOnly {
		err = errReadOnly
	}
	if err == nil && !r.acquire() {
		err = ErrClosed
	}
	if err != nil {
		return target{}, failed(verb, name, err)
	}
	return t, nil
}

func (r *Root) acquire() bool {
	for {
		n := r.refs.Load()
		if n <= 0 || r.closed.Load() {
			return false
		}
		if r.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (r *Root) end() error {
	if r.refs.Add(-1) > 0 {
		return nil
	}
	return r.sys.close()
}

// done is end for a call, whose result does not depend on whether the directory
// of a root that is closed meanwhile could be closed.
func (r *Root) done() { _ = r.end() }

// Stat describes name.
func (r *Root) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	t, err := r.begin(ctx, reads, "stat", name)
	if err != nil {
		return driver.Info{}, err
	}
	defer r.done()
	info, err := r.sys.stat(ctx, t, orZero(opts))
	return info, failed("stat", name, err)
}

// ReadDir lists the directory name, sorted. A symlink to a directory is
// followed; symlinks in it are listed as such.
func (r *Root) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	t, err := r.begin(ctx, reads, "list", name)
	if err != nil {
		return nil, err
	}
	defer r.done()
	infos, err := r.sys.readDir(t, false)
	return infos, failed("list", name, err)
}

// Read opens a regular file. The reader must be closed.
func (r *Root) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	t, err := r.begin(ctx, reads, "read", name)
	if err != nil {
		return nil, driver.Info{}, err
	}
	defer r.done()
	opts = orZero(opts)
	if opts.Offset < 0 || opts.Limit < 0 {
		err := fmt.Errorf("%w: offset %d, limit %d; neither may be negative", fault.InvalidArgument, opts.Offset, opts.Limit)
		return nil, driver.Info{}, failed("read", name, err)
	}
	body, info, err := r.sys.read(t, opts)
	if err != nil {
		return nil, driver.Info{}, failed("read", name, err)
	}
	return body, info, nil
}

// Write makes or replaces a file: see the package for what is kept and what is
// exact.
func (r *Root) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	t, err := r.begin(ctx, changes, "write", name)
	if err != nil {
		return driver.WriteResult{}, err
	}
	defer r.done()
	o := *orZero(opts)
	if err := r.checkWrite(t, &o); err != nil {
		return driver.WriteResult{}, failed("write", name, err)
	}
	res, err := r.sys.write(ctx, t.name, body, &o)
	return res, failed("write", name, err)
}

func (r *Root) checkWrite(t target, o *driver.WriteOptions) error {
	o.Sync = o.Sync || r.opts.Sync
	switch {
	case t.dir || t.name == ".":
		return errIsDir
	case o.IfMatch != "" && !driver.ValidDigest(o.IfMatch):
		return fmt.Errorf("%w: IfMatch %s is not a digest, %q and 64 hex digits", fault.InvalidArgument, shown(o.IfMatch), driver.DigestPrefix)
	case o.CreateOnly && o.IfMatch != "":
		return fmt.Errorf("%w: CreateOnly and IfMatch exclude each other", fault.InvalidArgument)
	}
	if err := checkTime(o.ModTime); err != nil {
		return err
	}
	return r.checkMode(o.Mode)
}

func (r *Root) checkMode(mode fs.FileMode) error {
	if r.opts.Exact {
		mode &^= 0o7000
	}
	return driver.CheckMode(mode)
}

// years that RFC 3339, and so JSON, can write.
const minYear, maxYear = 1, 9999

// checkTime accepts a time that can be told to others; none is one, too.
func checkTime(t time.Time) error {
	if y := t.UTC().Year(); y < minYear || y > maxYear {
		return fmt.Errorf("%w: the modification time is in the year %d; %d to %d are allowed", fault.InvalidArgument, y, minYear, maxYear)
	}
	return nil
}

// Mkdir makes a directory.
func (r *Root) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	t, err := r.begin(ctx, changes, "mkdir", name)
	if err != nil {
		return err
	}
	defer r.done()
	opts = orZero(opts)
	if err := r.checkMode(opts.Mode); err != nil {
		return failed("mkdir", name, err)
	}
	return failed("mkdir", name, r.sys.mkdir(t, opts, r.opts.Sync))
}

// Remove removes a file, a symlink or a directory.
func (r *Root) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	t, err := r.begin(ctx, changes, "remove", name)
	if err != nil {
		return err
	}
	defer r.done()
	if t.name == "." {
		return failed("remove", name, errRoot)
	}
	return failed("remove", name, r.sys.remove(ctx, t, orZero(opts), r.opts.Sync))
}

// Rename moves a file, symlink or directory.
func (r *Root) Rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	f, t, err := r.beginTwo(ctx, "rename", from, to)
	if err != nil {
		return err
	}
	defer r.done()
	return failed("rename", from, r.sys.rename(f, t, orZero(opts), r.opts.Sync))
}

// Copy copies a file or a tree. A file at the new name is replaced atomically;
// a tree that is copied over another is merged into it, file by file, and what
// was copied before an error stays.
func (r *Root) Copy(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
	f, t, err := r.beginTwo(ctx, "copy", from, to)
	if err != nil {
		return err
	}
	defer r.done()
	c := copier{r: r, opts: orZero(opts)}
	return failed("copy", from, c.copy(ctx, f, t))
}

// beginTwo is begin for a call that takes something to another name.
func (r *Root) beginTwo(ctx context.Context, verb, from, to string) (f, t target, err error) {
	if t, err = clean(to); err == nil && t.name == "." {
		err = errRoot
	}
	if err != nil {
		return f, t, failed(verb, to, err)
	}
	if f, err = r.begin(ctx, changes, verb, from); err != nil {
		return f, t, err
	}
	if f.name == "." {
		r.done()
		return f, t, failed(verb, from, errRoot)
	}
	return f, t, nil
}

// Chmod sets the permission bits of a file or directory, 0o777 at most, through a
// symlink that stays inside.
func (r *Root) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	t, err := r.begin(ctx, changes, "chmod", name)
	if err != nil {
		return err
	}
	defer r.done()
	if err := r.checkMode(mode); err != nil {
		return failed("chmod", name, err)
	}
	return failed("chmod", name, r.sys.chmod(ctx, t, mode, r.opts.Sync))
}

// Symlink makes a symlink that stays inside when it is resolved. Its target need
// not exist; but what comes before a ".." in it must be a directory, and no
// symlink, because ".." means something else behind what is made there later.
func (r *Root) Symlink(ctx context.Context, dest, name string) error {
	t, err := r.begin(ctx, changes, "symlink", name)
	if err != nil {
		return err
	}
	defer r.done()
	if r.opts.Exact {
		return failed("symlink", name, r.sys.symlinkAsIs(dest, t.name, r.opts.Sync))
	}
	if err := checkLink(t, dest); err != nil {
		return failed("symlink", name, err)
	}
	return failed("symlink", name, r.sys.symlink(dest, t.name, r.opts.Sync))
}

// Digest is the digest of a file's content, or of a tree.
func (r *Root) Digest(ctx context.Context, name string) (string, error) {
	t, err := r.begin(ctx, reads, "digest", name)
	if err != nil {
		return "", err
	}
	defer r.done()
	sum, err := r.digest(ctx, t)
	return sum, failed("digest", name, err)
}

// CleanTemps removes the temporary files that a crash left: those that no living
// process has locked, whatever their age; where files can't be locked, those that
// are older than a minute. It walks the whole tree. Whoever opens a root that
// someone else may have left in the middle of a write calls it.
func (r *Root) CleanTemps(ctx context.Context) error {
	if _, err := r.begin(ctx, changes, "clean", "."); err != nil {
		return err
	}
	defer r.done()
	return failed("clean", ".", r.sys.cleanTemps(ctx))
}

func orZero[T any](opts *T) *T {
	if opts == nil {
		return new(T)
	}
	return opts
}
