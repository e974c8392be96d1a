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

// Options are the options of Open and FromFD. The zero value is a writable root.
type Options struct {
	ReadOnly   bool // every change is fault.PermissionDenied
	Sync       bool // every change is on stable storage before the call returns, also if the call does not ask for it
	NoSymlinks bool // Open refuses a path with a symlink in it, with fault.SandboxViolation

	// Exact allows symlinks that lead outside, which no call follows, and modes with all
	// bits. It is for restoring a saved tree, and never for requests of an agent.
	Exact bool

	// KeepMounts refuses to replace, rename and remove mount points. The kernel does so
	// only in the mount namespace of the caller; this option is for a root on the mounts of
	// another namespace.
	KeepMounts bool

	// Commit, if set, performs the last, visible step of each Write and Edit, and of each
	// file of a Copy. It either calls change once and returns its error, or returns why the
	// change is not allowed any more. So a permission that is withdrawn while a body is
	// being read takes effect.
	Commit func(change func() error) error
}

// commitFunc is Options.Commit, which may be nil.
type commitFunc func(change func() error) error

func (c commitFunc) run(change func() error) error {
	if c == nil {
		return change()
	}
	return c(change)
}

// A Root is a directory that no path leaves. Its methods are those of driver.FS; they
// accept any string as a name and nil options, and are safe for concurrent use.
type Root struct {
	opts Options
	sys  system // the operations of this operating system, on clean names

	// refs counts the calls that use sys, plus one while the root is open. The last user
	// closes sys, so that no call uses a descriptor number that was reused.
	refs   atomic.Int64
	closed atomic.Bool

	watchers atomic.Int64 // that are open
}

// Open returns the root at dir, which must be a directory. The caller is trusted for dir:
// symlinks in it are followed unless the options forbid them.
func Open(dir string, opts *Options) (*Root, error) {
	s, err := openSystem(dir, orZero(opts).NoSymlinks)
	if err != nil {
		return nil, opError("open", dir, err)
	}
	return newRoot(s, opts), nil
}

func newRoot(s system, opts *Options) *Root {
	r := &Root{opts: *orZero(opts), sys: s}
	r.sys.commit, r.sys.keepMounts = r.opts.Commit, r.opts.KeepMounts
	r.refs.Store(1)
	return r
}

// With returns another root at the same directory with other options.
func (r *Root) With(opts *Options) (*Root, error) {
	if !r.acquire() {
		return nil, opError("open", ".", ErrClosed)
	}
	defer r.endCall()
	s, err := r.sys.reopen()
	if err != nil {
		return nil, opError("open", ".", err)
	}
	return newRoot(s, opts), nil
}

// Close closes the root. Calls under way finish; open readers and watchers stay usable.
func (r *Root) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	return r.releaseRef()
}

// Module returns the root as a driver's module for files, with every function set.
func (r *Root) Module() *driver.FS {
	return &driver.FS{
		Files: r, List: r.List, Edit: r.Edit, Rename: r.Rename, Copy: r.Copy, Chmod: r.Chmod, Xattrs: r.Xattrs, SetXattrs: r.SetXattrs,
		Symlink: r.Symlink, Glob: r.Glob, Grep: r.Grep, Watch: r.Watch, Digest: r.Digest, Import: r.Import,
	}
}

var _ driver.Files = (*Root)(nil)

// access says whether a call changes files.
type access bool

const (
	reads   access = false
	changes access = true
)

// beginCall checks a call before it has an effect. If the error is nil, endCall must
// follow.
func (r *Root) beginCall(ctx context.Context, a access, verb, name string) (cleanName, error) {
	if err := ctx.Err(); err != nil {
		return cleanName{}, opError(verb, name, err)
	}
	t, err := parseName(name)
	if err == nil && a == changes && r.opts.ReadOnly {
		err = errReadOnly
	}
	if err == nil && !r.acquire() {
		err = ErrClosed
	}
	if err != nil {
		return cleanName{}, opError(verb, name, err)
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

func (r *Root) releaseRef() error {
	if r.refs.Add(-1) > 0 {
		return nil
	}
	return r.sys.close()
}

// endCall is releaseRef for a call, whose result does not depend on an error of close.
func (r *Root) endCall() { _ = r.releaseRef() }

// Stat describes name.
func (r *Root) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	t, err := r.beginCall(ctx, reads, "stat", name)
	if err != nil {
		return driver.Info{}, err
	}
	defer r.endCall()
	info, err := r.sys.stat(ctx, t, orZero(opts))
	return info, opError("stat", name, err)
}

// ReadDir lists the directory name, sorted. It follows name if that is a symlink to a
// directory, but no symlink in the directory.
func (r *Root) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	t, err := r.beginCall(ctx, reads, "list", name)
	if err != nil {
		return nil, err
	}
	defer r.endCall()
	infos, err := r.sys.readDir(t, false)
	return infos, opError("list", name, err)
}

// Read opens a regular file. The reader must be closed.
func (r *Root) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	t, err := r.beginCall(ctx, reads, "read", name)
	if err != nil {
		return nil, driver.Info{}, err
	}
	defer r.endCall()
	opts = orZero(opts)
	if opts.Offset < 0 || opts.Limit < 0 {
		err := fmt.Errorf("%w: offset %d, limit %d; neither may be negative", fault.InvalidArgument, opts.Offset, opts.Limit)
		return nil, driver.Info{}, opError("read", name, err)
	}
	body, info, err := r.sys.read(t, opts)
	if err != nil {
		return nil, driver.Info{}, opError("read", name, err)
	}
	return body, info, nil
}

// Write creates or replaces a file: see the package doc for what is kept and what is exact.
func (r *Root) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	t, err := r.beginCall(ctx, changes, "write", name)
	if err != nil {
		return driver.WriteResult{}, err
	}
	defer r.endCall()
	o := *orZero(opts)
	if err := r.checkWrite(t, &o); err != nil {
		return driver.WriteResult{}, opError("write", name, err)
	}
	res, err := r.sys.write(ctx, t.name, body, &o)
	return res, opError("write", name, err)
}

func (r *Root) checkWrite(t cleanName, o *driver.WriteOptions) error {
	o.Sync = o.Sync || r.opts.Sync
	switch {
	case t.mustBeDir || t.name == ".":
		return errIsDir
	case o.IfMatch != "" && !driver.ValidDigest(o.IfMatch):
		return fmt.Errorf("%w: IfMatch %s is not a digest, %q and 64 hex digits", fault.InvalidArgument, quoteName(o.IfMatch), driver.DigestPrefix)
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

// minYear and maxYear are the years that RFC 3339, and so JSON, can express.
const minYear, maxYear = 1, 9999

// checkTime checks that a modification time can be expressed in JSON; zero is allowed.
func checkTime(t time.Time) error {
	if y := t.UTC().Year(); y < minYear || y > maxYear {
		return fmt.Errorf("%w: the modification time is in the year %d; %d to %d are allowed", fault.InvalidArgument, y, minYear, maxYear)
	}
	return nil
}

// Mkdir creates a directory.
func (r *Root) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	t, err := r.beginCall(ctx, changes, "mkdir", name)
	if err != nil {
		return err
	}
	defer r.endCall()
	opts = orZero(opts)
	if err := r.checkMode(opts.Mode); err != nil {
		return opError("mkdir", name, err)
	}
	return opError("mkdir", name, r.sys.mkdir(t, opts, r.opts.Sync))
}

// Remove removes a file, a symlink or a directory.
func (r *Root) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	t, err := r.beginCall(ctx, changes, "remove", name)
	if err != nil {
		return err
	}
	defer r.endCall()
	if t.name == "." {
		return opError("remove", name, errRoot)
	}
	return opError("remove", name, r.sys.remove(ctx, t, orZero(opts), r.opts.Sync))
}

// Rename moves a file, symlink or directory.
func (r *Root) Rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	f, t, err := r.beginTwoNames(ctx, "rename", from, to)
	if err != nil {
		return err
	}
	defer r.endCall()
	return opError("rename", from, r.sys.rename(f, t, orZero(opts), r.opts.Sync))
}

// Copy copies a file or a tree. A file at the new name is replaced atomically. A tree is
// merged into an existing one, file by file; after an error the files copied so far stay.
func (r *Root) Copy(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
	f, t, err := r.beginTwoNames(ctx, "copy", from, to)
	if err != nil {
		return err
	}
	defer r.endCall()
	c := copier{r: r, opts: orZero(opts)}
	return opError("copy", from, c.copy(ctx, f, t))
}

// beginTwoNames is beginCall for a call with a source and a destination.
func (r *Root) beginTwoNames(ctx context.Context, verb, from, to string) (f, t cleanName, err error) {
	if t, err = parseName(to); err == nil && t.name == "." {
		err = errRoot
	}
	if err != nil {
		return f, t, opError(verb, to, err)
	}
	if f, err = r.beginCall(ctx, changes, verb, from); err != nil {
		return f, t, err
	}
	if f.name == "." {
		r.endCall()
		return f, t, opError(verb, from, errRoot)
	}
	return f, t, nil
}

// Chmod sets the permission bits, at most 0o777, of a file or directory. It follows
// symlinks inside the root.
func (r *Root) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	t, err := r.beginCall(ctx, changes, "chmod", name)
	if err != nil {
		return err
	}
	defer r.endCall()
	if err := r.checkMode(mode); err != nil {
		return opError("chmod", name, err)
	}
	return opError("chmod", name, r.sys.chmod(ctx, t, mode, r.opts.Sync))
}

// Xattrs returns extended attributes of a file or directory; see driver.FS.
func (r *Root) Xattrs(ctx context.Context, name, prefix string) (map[string]string, error) {
	t, err := r.beginCall(ctx, reads, "read attributes of", name)
	if err != nil {
		return nil, err
	}
	defer r.endCall()
	attrs, err := r.sys.xattrs(t, prefix)
	return attrs, opError("read attributes of", name, err)
}

// SetXattrs replaces extended attributes of a file or directory; see driver.FS.
func (r *Root) SetXattrs(ctx context.Context, name, prefix string, attrs map[string]string) error {
	t, err := r.beginCall(ctx, changes, "set attributes of", name)
	if err != nil {
		return err
	}
	defer r.endCall()
	return opError("set attributes of", name, r.sys.setXattrs(t, prefix, attrs))
}

// Symlink creates a symlink that does not lead outside. Its target need not exist, but each
// element before a ".." in it must be a directory and no symlink, because ".." would change
// its meaning if another entry were created there later.
func (r *Root) Symlink(ctx context.Context, dest, name string) error {
	t, err := r.beginCall(ctx, changes, "symlink", name)
	if err != nil {
		return err
	}
	defer r.endCall()
	if r.opts.Exact {
		return opError("symlink", name, r.sys.symlinkUnchecked(dest, t.name, r.opts.Sync))
	}
	if err := checkSymlinkTarget(t, dest); err != nil {
		return opError("symlink", name, err)
	}
	return opError("symlink", name, r.sys.symlink(dest, t.name, r.opts.Sync))
}

// Digest returns the digest of a file's content or of a tree.
func (r *Root) Digest(ctx context.Context, name string) (string, error) {
	t, err := r.beginCall(ctx, reads, "digest", name)
	if err != nil {
		return "", err
	}
	defer r.endCall()
	sum, err := r.digest(ctx, t)
	return sum, opError("digest", name, err)
}

// CleanTemps walks the whole tree and removes the temporary files that a crash left: those
// without a flock of a living process, or, on systems without flock, those older than a
// minute. Call it on a root in which another process may have crashed during a write.
func (r *Root) CleanTemps(ctx context.Context) error {
	if _, err := r.beginCall(ctx, changes, "clean", "."); err != nil {
		return err
	}
	defer r.endCall()
	return opError("clean", ".", r.sys.cleanTemps(ctx))
}

func orZero[T any](opts *T) *T {
	if opts == nil {
		return new(T)
	}
	return opts
}
