package stage

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

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// DirDigest returns the digest of a directory of the host: of paths, types, modes,
// contents, targets of symlinks and empty directories. It equals Workspace.Digest, so
// a tree and its copy in a workspace can be compared. FIFOs, sockets and devices are
// left out, and no symlink is followed.
func DirDigest(ctx context.Context, dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("stage: digest %s: %w: %w", dir, fault.Of(err), err)
	}
	defer root.Close() //nolint:errcheck // read only
	d := &digester{ctx: ctx, root: root, buf: make([]byte, 64<<10), tree: driver.NewTreeDigest()}
	if err := d.addDir("."); err != nil {
		return "", fmt.Errorf("stage: digest %s: %w: %w", dir, fault.Of(err), err)
	}
	return d.tree.Sum(), nil
}

type digester struct {
	ctx  context.Context // context of the one call
	root *os.Root
	buf  []byte
	tree *driver.TreeDigest
}

// readDir lists a directory in byte order.
func (d *digester) readDir(dir string) ([]fs.DirEntry, error) {
	if err := d.ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

func (d *digester) addDir(dir string) error {
	entries, err := d.readDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		fi, err := e.Info()
		if err != nil {
			return err
		}
		info, content := workspace.Info{Mode: fi.Mode().Perm()}, ""
		switch e.Type() {
		case 0:
			info.Type = driver.TypeFile
			if content, err = d.fileDigest(at); err != nil {
				return err
			}
		case fs.ModeDir:
			info.Type = driver.TypeDir
		case fs.ModeSymlink:
			info.Type = driver.TypeSymlink
			if info.Target, err = d.root.Readlink(at); err != nil {
				return err
			}
		default:
			continue
		}
		d.tree.Add(at, info, content)
		if e.IsDir() {
			if err := d.addDir(at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *digester) fileDigest(at string) (string, error) {
	f, err := d.root.OpenFile(at, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := driver.NewDigest()
	if _, err := io.CopyBuffer(h, onlyReader{f}, d.buf); err != nil {
		return "", err
	}
	return driver.SumDigest(h), nil
}

// onlyReader hides WriteTo, which would not use the buffer.
type onlyReader struct{ io.Reader }

// Fingerprint is a digest of the stat data of a tree of the host: paths, sizes,
// times, modes and inodes, without reading any content. An equal fingerprint means
// equal content, unless the clock was set back.
func Fingerprint(dir string) (string, error) {
	return FingerprintEach(dir, func(string, fs.FileMode) {})
}

// FingerprintEach is Fingerprint, and calls each with the slash path and the mode of
// each entry below the directory.
func FingerprintEach(dir string, each func(name string, mode fs.FileMode)) (string, error) {
	h := driver.NewDigest()
	var line []byte
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = filepath.WalkDir(real, func(at string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed since it was listed
			}
			if err != nil {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(at[len(real):], string(filepath.Separator)))
			line = strconv.AppendQuote(line[:0], name)
			line = strconv.AppendInt(append(line, ' '), fi.Size(), 10)
			line = strconv.AppendInt(append(line, ' '), fi.ModTime().UnixNano(), 10)
			line = strconv.AppendUint(append(line, ' '), uint64(fi.Mode()), 8)
			h.Write(append(appendInode(append(line, ' '), fi), '\n'))
			if name != "" {
				each(name, fi.Mode())
			}
			return nil
		})
	}
	if err != nil {
		return "", fmt.Errorf("stage: fingerprint of %s: %w: %w", dir, fault.Of(err), err)
	}
	return driver.SumDigest(h), nil
}
