package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// An Algorithm is a way to compute the digest of a directory.
type Algorithm string

// Algorithms of DirDigest.
const (
	// AlgorithmCroft counts paths, types, modes, contents, the targets of symlinks
	// and empty directories, each preceded by its length. It is that of
	// Workspace.Digest, so a tree and its copy in a workspace can be compared.
	AlgorithmCroft Algorithm = "croft"

	// AlgorithmTRPC is that of trpc-agent-go: the SHA-256 of the path and content
	// of each file. It takes different trees for equal, and is for those who have
	// such digests.
	AlgorithmTRPC Algorithm = "trpc"
)

// DirDigest returns the digest of a directory of the host. FIFOs, sockets and
// devices are left out, and no symlink is followed, except that AlgorithmTRPC
// follows those to files inside.
func DirDigest(ctx context.Context, dir string, algorithm Algorithm) (string, error) {
	if algorithm != AlgorithmCroft && algorithm != AlgorithmTRPC {
		return "", fmt.Errorf("stage: digest %s: algorithm %q: %w: there are %s and %s", dir, algorithm, fault.InvalidArgument, AlgorithmCroft, AlgorithmTRPC)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("stage: digest %s: %w: %w", dir, fault.Of(err), err)
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	d := &digester{ctx: ctx, root: root, buf: make([]byte, 64<<10)}
	var sum string
	if algorithm == AlgorithmTRPC {
		sum, err = d.trpc()
	} else {
		tree := driver.NewTreeDigest()
		if err = d.croft(tree, "."); err == nil {
			sum = tree.Sum()
		}
	}
	if err != nil {
		return "", fmt.Errorf("stage: digest %s: %w: %w", dir, fault.Of(err), err)
	}
	return sum, nil
}

type digester struct {
	ctx  context.Context // of the one call that a digester is
	root *os.Root
	buf  []byte
}

// sorted lists a directory in byte order, which is what fs.ReadDir has.
func (d *digester) list(dir string) ([]fs.DirEntry, error) {
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

func (d *digester) croft(tree *driver.TreeDigest, dir string) error {
	entries, err := d.list(dir)
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
			if content, err = d.file(at); err != nil {
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
		tree.Add(at, info, content)
		if e.IsDir() {
			if err := d.croft(tree, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *digester) file(at string) (string, error) {
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

// trpc is the algorithm of trpc-agent-go: files sorted by path, each as its path,
// NUL, content, NUL.
func (d *digester) trpc() (string, error) {
	files, err := d.files(".")
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	h := sha256.New()
	for _, at := range files {
		f, err := d.root.OpenFile(at, os.O_RDONLY|nonBlocking, 0)
		if err != nil {
			return "", err
		}
		io.WriteString(h, at+"\x00") //nolint:errcheck // a hash never fails
		_, err = io.CopyBuffer(h, onlyReader{f}, d.buf)
		_ = f.Close() // only read from
		if err != nil {
			return "", err
		}
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (d *digester) files(dir string) ([]string, error) {
	entries, err := d.list(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		switch e.Type() {
		case 0, fs.ModeSymlink:
			files = append(files, at)
		case fs.ModeDir:
			below, err := d.files(at)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		}
	}
	return files, nil
}

// Look describes how a directory or file of the host looks without reading any
// content: the digest of the paths, sizes, times, modes and inodes below it. While
// it is the same, so is the content, unless someone set the clock back.
func Look(dir string) (string, error) {
	return LookEach(dir, func(string, fs.FileMode) {})
}

// LookEach is Look, and calls each with the slash path and the mode of each entry
// below the directory.
func LookEach(dir string, each func(name string, mode fs.FileMode)) (string, error) {
	h := driver.NewDigest()
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
			fmt.Fprintf(h, "%q %d %d %o %s\n", name, fi.Size(), fi.ModTime().UnixNano(), fi.Mode(), inode(fi))
			if name != "" {
				each(name, fi.Mode())
			}
			return nil
		})
	}
	if err != nil {
		return "", fmt.Errorf("stage: look at %s: %w: %w", dir, fault.Of(err), err)
	}
	return driver.SumDigest(h), nil
}
