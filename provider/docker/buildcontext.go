package docker

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/croft-run/croft/fault"
)

// ignoreName is the file with the patterns that a build context excludes.
const ignoreName = ".dockerignore"

// maxIgnore bounds the size of that file.
const maxIgnore = 1 << 20

// readIgnored reads .dockerignore, if it exists, as Docker's own client does.
func readIgnored(root *os.Root) (*patternmatcher.PatternMatcher, error) {
	f, err := root.Open(ignoreName)
	if errors.Is(err, fs.ErrNotExist) {
		return patternmatcher.New(nil)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return parseIgnored(io.LimitReader(f, maxIgnore))
}

func parseIgnored(r io.Reader) (*patternmatcher.PatternMatcher, error) {
	patterns, err := ignorefile.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", ignoreName, fault.InvalidArgument, err)
	}
	m, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", ignoreName, fault.InvalidArgument, err)
	}
	return m, nil
}

// tarDir writes the build context of a Dockerfile in dir as a tar. It follows no symlinks out
// of dir, and leaves out what .dockerignore excludes, but not the Dockerfile.
func tarDir(w io.Writer, dir, dockerfile string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	ignored, err := readIgnored(root)
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if out, err := ignored.MatchesOrParentMatches(name); err != nil || out && name != dockerfile {
			return err
		}
		return tarOne(t, root, name, d)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func tarOne(t *tar.Writer, root *os.Root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	link := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if link, err = root.Readlink(name); err != nil {
			return err
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil // a socket, a pipe, a device
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	if info.IsDir() {
		h.Name += "/"
	}
	if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	_, err = io.CopyN(t, f, h.Size)
	return err
}
