package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// maxSize bounds the file of one secret.
const maxSize = 64 << 10

// listFiles maps the names of the secrets in a directory to file names. A missing directory
// has none.
func listFiles(dir string) (map[string]string, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("secret: list directory: %w", err)
	}
	found := map[string]string{}
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		if e.IsDir() || !validName(name) {
			continue
		}
		if other, ok := found[name]; ok {
			return nil, fmt.Errorf("secret: list %s: %w: %s and %s are the same name; names are not case-sensitive",
				dir, fault.Conflict, other, e.Name())
		}
		found[name] = e.Name()
	}
	return found, nil
}

// readFile returns the text of a secret in a directory. A symlink is followed within the
// directory only (Kubernetes mounts secrets this way). checkTrusted refuses files that
// another user could have written.
func readFile(dir, name string) (text string, ok bool, err error) {
	names, err := listFiles(dir)
	if err != nil {
		return "", false, err
	}
	file, ok := names[name]
	if !ok {
		return "", false, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", false, fmt.Errorf("secret: open directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened for reading only
	// Without O_NONBLOCK opening a FIFO would block.
	f, err := root.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false, fmt.Errorf("secret: open %s: %w: %w", file, openCode(err), err)
	}
	defer f.Close()
	if err := checkTrusted(f); err != nil {
		return "", false, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return "", false, fmt.Errorf("secret: read %s: %w", file, err)
	}
	if len(data) > maxSize {
		return "", false, fmt.Errorf("secret: read %s: %w: larger than %d bytes", file, fault.ResourceExhausted, maxSize)
	}
	text = strings.TrimRight(string(data), "\r\n")
	return text, text != "", nil
}

// openCode returns the code of a failed open: an error that is neither NotFound nor
// PermissionDenied is a symlink that leaves the directory.
func openCode(err error) fault.Code {
	if c := fault.Of(err); c != fault.Internal {
		return c
	}
	return fault.PermissionDenied
}

// checkTrusted refuses a file that is not regular, that is writable by group or others, or
// that is owned by neither this user nor root. A file readable by others is accepted:
// Docker and Kubernetes mount secrets so.
func checkTrusted(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("secret: stat: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("secret: read %s: %w: not a regular file", f.Name(), fault.PermissionDenied)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("secret: read %s: %w: its mode %v lets other users write it; run chmod go-w", f.Name(), fault.PermissionDenied, info.Mode())
	case !ownedByUsOrRoot(info):
		return fmt.Errorf("secret: read %s: %w: it is owned by another user; it must be owned by this user or root", f.Name(), fault.PermissionDenied)
	}
	return nil
}

func ownedByUsOrRoot(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Uid == 0 || int(st.Uid) == os.Geteuid()
}
