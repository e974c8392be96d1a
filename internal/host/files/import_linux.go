package files

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Import copies a directory of the host to name, which must not exist. The tree is built
// under a temporary name and renamed when it is complete. Symlinks are copied unless they
// lead out of the root; FIFOs, sockets and devices are skipped. The caller is trusted for
// dir itself; no symlink below it is followed.
func (r *Root) Import(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
	t, err := r.beginCall(ctx, changes, "import", name)
	if err != nil {
		return driver.ImportResult{}, err
	}
	defer r.endCall()
	if t.name == "." {
		return driver.ImportResult{}, opError("import", name, errRoot)
	}
	src, err := retry(func() (int, error) { return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return driver.ImportResult{}, opError("import", dir, err)
	}
	defer closeFD(src)
	m := &importer{root: r, opts: *orZero(opts), ctx: ctx, top: t.name, spare: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	m.res.Method = driver.ImportReflink
	if m.opts.Make == nil {
		m.opts.Make = func(step func() error) error { return step() }
	}
	if err := m.run(src); err != nil {
		return driver.ImportResult{}, opError("import", name, err)
	}
	if m.copied.Load() || m.res.Files == 0 {
		m.res.Method = driver.ImportCopy
	}
	return m.res, nil
}

// An importer copies one directory, with one goroutine for each processor.
type importer struct {
	root *Root
	opts driver.ImportOptions
	ctx  context.Context // of the call of Import
	top  string          // the name of the new tree

	mask    uint32        // the umask of the process
	spare   chan struct{} // semaphore of the additional goroutines
	copied  atomic.Bool   // a file was copied, because it could not be cloned
	noClone atomic.Bool

	mu  sync.Mutex
	res driver.ImportResult // guarded by mu
}

// run builds the tree under a temporary name and renames it.
func (m *importer) run(src int) error {
	p, err := m.root.sys.openParent(m.top)
	if err != nil {
		return err
	}
	defer p.close()
	var st unix.Stat_t
	if err := unix.Fstatat(p.dirfd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		return errExists
	}
	temp := atPath{dirfd: p.dirfd, base: tempName()}
	dst, err := m.makeTempDir(temp)
	if err != nil {
		return err
	}
	defer closeFD(dst)
	if err = m.importDir(src, dst, "."); err == nil {
		err = m.copyDirMode(src, dst)
	}
	if err == nil && m.root.opts.Sync {
		err = unix.Syncfs(dst)
	}
	if err == nil {
		err = m.root.sys.commit.run(func() error {
			return m.opts.Make(func() error { return unix.Renameat2(p.dirfd, temp.base, p.dirfd, p.base, unix.RENAME_NOREPLACE) })
		})
	}
	if err == nil && m.root.opts.Sync {
		return p.sync()
	}
	if err != nil {
		err = errors.Join(err, m.opts.Make(func() error { return removeTree(context.WithoutCancel(m.ctx), temp) }))
	}
	return err
}

// makeTempDir creates the temporary directory, flocks it against CleanTemps, and derives
// the umask from its mode.
func (m *importer) makeTempDir(temp atPath) (dst int, err error) {
	const all = 0o777
	err = m.opts.Make(func() error {
		if err := unix.Mkdirat(temp.dirfd, temp.base, all); err != nil {
			return err
		}
		dst, err = openDirAt(temp.dirfd, temp.base)
		return err
	})
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(dst, &st); err == nil {
		m.mask = all &^ st.Mode
		err = unix.Flock(dst, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		closeFD(dst)
		return -1, err
	}
	return dst, nil
}

// copyDirMode gives a complete directory the mode of its source.
func (m *importer) copyDirMode(src, dst int) error {
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return err
	}
	return m.opts.Make(func() error { return unix.Fchmod(dst, m.entryMode(&st)) })
}

// entryMode returns the mode of a new entry: permission bits only.
func (m *importer) entryMode(st *unix.Stat_t) uint32 {
	mode := st.Mode & uint32(driver.MaxMode)
	if m.opts.ReadOnly {
		mode &^= 0o222
	}
	return mode
}

type importEntry struct {
	name string
	typ  byte
}

// importDir copies the entries of a directory. The caller closes src and dst.
func (m *importer) importDir(src, dst int, rel string) error {
	entries, err := m.listEntries(src, rel)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	note := func(err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	}
	const chunk = 16
	for part := range slices.Chunk(entries, chunk) {
		if err := m.ctx.Err(); err != nil {
			note(err)
		}
		mu.Lock()
		stop := len(errs) > 0
		mu.Unlock()
		if stop {
			break
		}
		select {
		case m.spare <- struct{}{}:
			wg.Go(func() {
				defer func() { <-m.spare }()
				note(m.importEntries(src, dst, rel, part))
			})
		default:
			note(m.importEntries(src, dst, rel, part))
		}
	}
	wg.Wait()
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

func (m *importer) listEntries(src int, rel string) ([]importEntry, error) {
	var entries []importEntry
	err := EachEntry(src, func(name []byte, typ byte) {
		e := importEntry{string(name), typ}
		at := joinName(rel, e.name)
		switch {
		case slices.Contains(m.opts.Exclude, at):
		case IsTemp(e.name):
			m.recordSkip(at, driver.ImportNamed)
		default:
			if typ == unix.DT_UNKNOWN {
				e.typ = typeOf(src, e.name)
			}
			entries = append(entries, e)
		}
	})
	return entries, err
}

func (m *importer) recordSkip(path string, reason driver.ImportReason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.res.Skip(path, reason)
}

func (m *importer) importEntries(src, dst int, rel string, part []importEntry) error {
	buf := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(buf)
	for _, e := range part {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		at := joinName(rel, e.name)
		var err error
		switch e.typ {
		case unix.DT_REG:
			err = m.importFile(src, dst, e.name, at, *buf)
		case unix.DT_DIR:
			err = m.importSubdir(src, dst, e.name, at)
		case unix.DT_LNK:
			err = m.importSymlink(src, dst, e.name, at)
		default:
			m.recordSkip(at, driver.ImportSpecial)
		}
		if err != nil {
			var code fault.Code
			if !errors.As(err, &code) {
				return fmt.Errorf("%s: %w", quoteName(at), err)
			}
			return err
		}
	}
	return nil
}

func (m *importer) importSubdir(src, dst int, name, at string) error {
	if strings.Count(at, "/") > maxOpenDirs*2 {
		return fmt.Errorf("%s: %w: the tree is deeper than %d directories", quoteName(at), fault.ResourceExhausted, maxOpenDirs*2)
	}
	from, err := openDirAt(src, name)
	if err != nil {
		return err
	}
	defer closeFD(from)
	if err := m.countEntry(func(r *driver.ImportResult) { r.Dirs++ }, 0); err != nil {
		return err
	}
	const usable = 0o700 // while it is filled
	to := -1
	if err := m.opts.Make(func() (err error) {
		if err = unix.Mkdirat(dst, name, usable); err == nil {
			to, err = openDirAt(dst, name)
		}
		return err
	}); err != nil {
		return err
	}
	defer closeFD(to)
	if err := m.importDir(from, to, at); err != nil {
		return err
	}
	return m.copyDirMode(from, to)
}

// importSymlink copies a symlink, unless its target is absolute or lexically outside the
// root.
func (m *importer) importSymlink(src, dst int, name, at string) error {
	target, err := readlink(src, name)
	if err != nil {
		return err
	}
	if path.IsAbs(target) || climbsOut([]string{path.Dir(joinName(m.top, at)), target}) {
		m.recordSkip(at, driver.ImportLeaves)
		return nil
	}
	if err := m.countEntry(func(r *driver.ImportResult) { r.Symlinks++ }, 0); err != nil {
		return err
	}
	return m.opts.Make(func() error { return unix.Symlinkat(target, dst, name) })
}

// countEntry counts an entry and checks the limits.
func (m *importer) countEntry(what func(*driver.ImportResult), size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	what(&m.res)
	m.res.Bytes += size
	r := &m.res
	if n := r.Files + r.Dirs + r.Symlinks; m.opts.MaxFiles > 0 && n > m.opts.MaxFiles {
		return fmt.Errorf("%w: there are more than %d entries", fault.ResourceExhausted, m.opts.MaxFiles)
	}
	if m.opts.MaxBytes > 0 && r.Bytes > m.opts.MaxBytes {
		return fmt.Errorf("%w: there are more than %d bytes", fault.ResourceExhausted, m.opts.MaxBytes)
	}
	return nil
}
