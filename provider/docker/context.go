package docker

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/croft-run/croft/fault"
)

// ignoreName is the file that says what of a directory is not for a build.
const ignoreName = ".dockerignore"

// maxIgnore is far more than such a file has.
const maxIgnore = 1 << 20

// An ignoring says what of a directory stays out of a build, in the order of the
// file: the last that matches a path, or one above it, counts.
type ignoring []struct {
	pattern string
	but     bool // what it matches is for the build after all
}

// readIgnoring reads the file, if there is one.
func readIgnoring(root *os.Root) (ignoring, error) {
	f, err := root.Open(ignoreName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil {
		return nil, err
	}
	return parseIgnoring(string(data))
}

func parseIgnoring(text string) (ignoring, error) {
	var list ignoring
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		pattern := strings.TrimSpace(line)
		if pattern == "" || line[0] == '#' {
			continue
		}
		rest, but := strings.CutPrefix(pattern, "!")
		// Braces mean nothing here, and the root is the directory.
		pattern = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(strings.TrimPrefix(path.Clean("/"+strings.TrimSpace(rest)), "/"))
		if pattern == "" {
			continue
		}
		if !doublestar.ValidatePattern(pattern) {
			return nil, fmt.Errorf("%s: %w: pattern %q", ignoreName, fault.InvalidArgument, rest)
		}
		list = append(list, struct {
			pattern string
			but     bool
		}{pattern, but})
	}
	return list, nil
}

// out reports whether a path stays out.
func (i ignoring) out(name string) bool {
	ignored := false
	for _, p := range i {
		if ignored != p.but { // it would change nothing
			continue
		}
		for at := name; at != "."; at = path.Dir(at) {
			if ok, err := doublestar.Match(p.pattern, at); ok && err == nil {
				ignored = !p.but
				break
			}
		}
	}
	return ignored
}

// tarDir writes what is in a directory for a build by one of its files, without
// following symlinks out of it, and without what is not for a build.
func tarDir(w io.Writer, dir, dockerfile string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	ignored, err := readIgnoring(root)
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." || name != dockerfile && ignored.out(name) {
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
