//go:build !linux

package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// system is the root through os.Root.
type system struct {
	root       *os.Root
	commit     commitFunc
	keepMounts bool // unused: there are no mount namespaces
}

func openSystem(dir string, noSymlinks bool) (system, error) {
	if noSymlinks {
		if _, err := identifyDir(dir); err != nil {
			return system{}, err
		}
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, syscall.ENOTDIR) {
		err = errNotDir
	}
	return system{root: root}, err
}

// reopen opens the same directory again.
func (s system) reopen() (system, error) {
	root, err := s.root.OpenRoot(".")
	return system{root: root}, err
}

// SameMount returns false: mounts are not known on this system.
func SameMount(_, _ string) bool { return false }

func dirLineage(dir string) ([]Identity, error) { return lineageByPath(dir) }

// identifyDir checks the path for symlinks and then stats the directory. These are two
// steps: a TOCTOU race remains on this system.
func identifyDir(dir string) (Identity, error) {
	plain, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Identity{}, err
	}
	if plain != filepath.Clean(dir) {
		return Identity{}, errSymlinkInPath
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return Identity{}, err
	}
	return identityOf(fi)
}

func (s system) dirIdentity() (Identity, error) {
	fi, err := s.root.Stat(".")
	if err != nil {
		return Identity{}, err
	}
	return identityOf(fi)
}

func identityOf(fi fs.FileInfo) (Identity, error) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !fi.IsDir():
		return Identity{}, errNotDir
	case !ok:
		return Identity{}, fmt.Errorf("%w: directories have no identity on this system", fault.Unsupported)
	}
	return Identity{Dev: uint64(st.Dev), Ino: uint64(st.Ino)}, nil
}

func (s system) close() error { return s.root.Close() }

// osRootError gives an error of os.Root its code.
func osRootError(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "path escapes from parent"):
		return errLeaves
	case errors.Is(err, syscall.ENOTDIR):
		return errNotDir
	}
	return err
}

func (s system) stat(ctx context.Context, t cleanName, o *driver.StatOptions) (driver.Info, error) {
	stat := s.root.Stat
	if o.NoFollow && !t.mustBeDir {
		stat = s.root.Lstat
	}
	fi, err := stat(t.name)
	if err != nil {
		return driver.Info{}, osRootError(err)
	}
	if t.mustBeDir && !fi.IsDir() {
		return driver.Info{}, errNotDir
	}
	info, err := s.infoOf(t.name, fi)
	if err == nil && o.Digest && info.Type == driver.TypeFile {
		var body io.ReadCloser
		if body, info, err = s.read(t, new(driver.ReadOptions)); err == nil {
			defer body.Close()
			info.Digest, err = driver.DigestReader(withContext(ctx, body))
		}
	}
	return info, err
}

func (s system) infoOf(name string, fi fs.FileInfo) (driver.Info, error) {
	info := driver.Info{Path: name, Type: driver.TypeOther, Size: fi.Size(), Mode: chmodBits(fi.Mode()), ModTime: fi.ModTime().UTC()}
	var err error
	switch {
	case fi.Mode().IsRegular():
		info.Type = driver.TypeFile
	case fi.IsDir():
		info.Type, info.Size = driver.TypeDir, 0
	case fi.Mode()&fs.ModeSymlink != 0:
		info.Type = driver.TypeSymlink
		info.Target, err = s.root.Readlink(name)
	}
	return info, osRootError(err)
}

// chmodBits converts a Go file mode to the bits of chmod.
func chmodBits(m fs.FileMode) fs.FileMode {
	bits := m.Perm()
	for flag, bit := range map[fs.FileMode]fs.FileMode{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// goMode is the inverse of chmodBits.
func goMode(bits fs.FileMode) fs.FileMode {
	m := bits.Perm()
	for flag, bit := range map[fs.FileMode]fs.FileMode{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if bits&bit != 0 {
			m |= flag
		}
	}
	return m
}

// readDir lists a directory. Change tokens are not supported here.
func (s system) readDir(t cleanName, _ bool) ([]driver.Info, error) {
	f, err := s.root.Open(t.name)
	if err != nil {
		return nil, osRootError(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, osRootError(err)
	}
	slices.Sort(names)
	var infos []driver.Info
	for _, base := range names {
		if IsTemp(base) {
			continue
		}
		fi, err := s.root.Lstat(joinName(t.name, base))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, osRootError(err)
		}
		info, err := s.infoOf(joinName(t.name, base), fi)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (s system) read(t cleanName, o *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	if t.mustBeDir {
		return nil, driver.Info{}, errIsDir
	}
	f, err := s.root.OpenFile(t.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, driver.Info{}, osRootError(err)
	}
	fi, err := f.Stat()
	if err == nil {
		err = regularInfo(fi)
	}
	var info driver.Info
	if err == nil {
		info, err = s.infoOf(t.name, fi)
	}
	if err == nil && o.Offset > 0 {
		_, err = f.Seek(o.Offset, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, driver.Info{}, osRootError(err)
	}
	if o.Limit > 0 {
		return limitedReader{io.LimitReader(f, o.Limit), f}, info, nil
	}
	return f, info, nil
}

type limitedReader struct {
	io.Reader
	io.Closer
}

func regularInfo(fi fs.FileInfo) error {
	switch {
	case fi.Mode().IsRegular():
		return nil
	case fi.IsDir():
		return errIsDir
	}
	return errNotRegular
}

func (s system) syncDir(name string) error {
	dir, _ := splitName(name)
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (s system) mkdir(t cleanName, o *driver.MkdirOptions, sync bool) error {
	mode := o.Mode
	if mode == 0 {
		mode = 0o755
	}
	var err error
	dir, _ := splitName(t.name)
	if o.Parents && dir != "." {
		err = s.root.MkdirAll(dir, 0o755)
	}
	if err == nil {
		if err = s.root.Mkdir(t.name, mode.Perm()); err == nil {
			err = s.root.Chmod(t.name, goMode(mode))
		}
	}
	if errors.Is(err, fs.ErrExist) && o.Parents {
		fi, errStat := s.root.Stat(t.name)
		if errStat == nil && fi.IsDir() {
			return nil
		}
	}
	if err == nil && sync {
		err = s.syncDir(t.name)
	}
	return osRootError(err)
}

func (s system) remove(_ context.Context, t cleanName, o *driver.RemoveOptions, sync bool) error {
	fi, err := s.root.Lstat(t.name)
	if err == nil && t.mustBeDir && !fi.IsDir() {
		return errNotDir
	}
	if err == nil && o.Recursive {
		err = s.root.RemoveAll(t.name)
	} else if err == nil {
		err = s.root.Remove(t.name)
	}
	if err == nil && sync {
		err = s.syncDir(t.name)
	}
	return osRootError(err)
}

func (s system) rename(from, to cleanName, o *driver.RenameOptions, sync bool) error {
	if dir, _ := splitName(to.name); o.Parents && dir != "." {
		if err := s.root.MkdirAll(dir, 0o755); err != nil {
			return osRootError(err)
		}
	}
	fi, err := s.root.Lstat(from.name)
	if err != nil {
		return osRootError(err)
	}
	if (from.mustBeDir || to.mustBeDir) && !fi.IsDir() {
		return errNotDir
	}
	if o.CreateOnly {
		// os.Root has no RENAME_NOREPLACE: another process may create
		// the name between the check and the rename.
		if _, err := s.root.Lstat(to.name); err == nil {
			return errExists
		}
	}
	if err := s.root.Rename(from.name, to.name); err != nil || !sync {
		return osRootError(err)
	}
	return errors.Join(s.syncDir(from.name), s.syncDir(to.name))
}

func (s system) chmod(_ context.Context, t cleanName, mode fs.FileMode, _ bool) error {
	fi, err := s.root.Stat(t.name)
	switch {
	case err != nil:
		return osRootError(err)
	case t.mustBeDir && !fi.IsDir():
		return errNotDir
	case !fi.IsDir() && !fi.Mode().IsRegular():
		return errNotRegular
	}
	return osRootError(s.root.Chmod(t.name, goMode(mode)))
}

func (s system) symlink(dest, name string, sync bool) error {
	dir, _ := splitName(name)
	elems := strings.Split(dest, "/")
	at := dir
	for i, elem := range elems {
		at += "/" + elem
		if !slices.Contains(elems[i+1:], "..") {
			break
		}
		if fi, err := s.root.Lstat(at); err != nil || !fi.IsDir() {
			return errDotDotTarget
		}
	}
	if _, err := s.root.Stat(joinName(dir, dest)); osRootError(err) != nil && errors.Is(osRootError(err), errLeaves) {
		return errLeaves
	}
	return s.symlinkUnchecked(dest, name, sync)
}

func (s system) symlinkUnchecked(dest, name string, sync bool) error {
	err := s.root.Symlink(dest, name)
	if err == nil && sync {
		err = s.syncDir(name)
	}
	return osRootError(err)
}

func (s system) sameFile(a, b string) (bool, error) {
	x, err := s.root.Stat(a)
	if err != nil {
		return false, osRootError(err)
	}
	y, err := s.root.Stat(b)
	return err == nil && os.SameFile(x, y), osRootError(err)
}

// staleAfter is the age at which cleanTemps removes a temporary file.
const staleAfter = time.Minute

// cleanTemps goes by age, because os.Root can't flock.
func (s system) cleanTemps(ctx context.Context) error {
	before := time.Now().Add(-staleAfter)
	return fs.WalkDir(s.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !IsTemp(path.Base(name)) {
			return ctx.Err()
		}
		if fi, err := d.Info(); err == nil && fi.Mode().IsRegular() && fi.ModTime().Before(before) {
			_ = s.root.Remove(name) // another process may remove it, too
		}
		return ctx.Err()
	})
}

func (s system) watch(name string, isDir bool, o *driver.WatchOptions, b *batch) (changeSource, error) {
	return s.watchByPolling(name, isDir, o, b)
}

func (r *Root) glob(ctx context.Context, pattern string, o *driver.GlobOptions) (driver.GlobResult, error) {
	return search.GlobFiles(ctx, r, pattern, o)
}

func (r *Root) grep(ctx context.Context, pattern string, o *driver.GrepOptions) (driver.GrepResult, error) {
	return search.GrepFiles(ctx, r, pattern, o)
}

// FromFD is supported on Linux only.
func FromFD(fd int, _ *Options) (*Root, error) {
	return nil, opError("open", "descriptor "+strconv.Itoa(fd), fmt.Errorf("%w: only Linux opens a root by its descriptor", fault.Unsupported))
}
