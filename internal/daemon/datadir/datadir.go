package datadir

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
)

// Layout is the version of the data directory's layout.
const Layout = 2

// Names of files in the data directory, see the package comment.
const (
	VersionFile = "version"
	TokenFile   = "token"
	StoreFile   = "croft.db"
	E2BKeyFile  = "e2b.key"
	PageKeyFile = "page.key"

	lockFile = "up.lock"
)

// Default returns the default data directory: $CROFT_DATA, else
// $XDG_DATA_HOME/croft, else ~/.local/share/croft.
func Default() (string, error) {
	if dir := os.Getenv("CROFT_DATA"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "croft"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.Advise(fmt.Errorf("app: find the data directory: %w", fault.InvalidArgument), "give --data or set CROFT_DATA or HOME")
	}
	return filepath.Join(home, ".local", "share", "croft"), nil
}

// Abs returns the absolute path of a data directory; "" is the default one.
func Abs(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = Default(); err != nil {
			return "", err
		}
	}
	return filepath.Abs(dir)
}

// Prepare creates the data directory, "" for the default one, or checks the existing one, and returns
// its absolute path.
func Prepare(dir string) (string, error) {
	abs, err := Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", fmt.Errorf("app: make data directory: %w", err)
	}
	info, err := CheckOwner(abs)
	if err != nil {
		return "", err
	}
	if err := checkVersion(abs); err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(abs, 0o700) // other users must not read workspaces
	}
	if err != nil {
		return "", fmt.Errorf("app: data directory: %w", err)
	}
	return abs, nil
}

// StoreURL returns the URL of a store of a data directory: the default for "", and
// a SQLite path relative to the directory.
func StoreURL(dir, url string) string {
	if url == "" {
		url = "sqlite:" + StoreFile
	}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok && path != "" && !filepath.IsAbs(path) {
		url = "sqlite:" + filepath.Join(dir, path)
	}
	return url
}

// CheckOwner stats a data directory, and refuses a symlink, and a directory of another user.
func CheckOwner(dir string) (fs.FileInfo, error) {
	return checkOwned("data directory", dir, fs.ModeDir)
}

// checkOwned stats path and refuses another type, a symlink, or a file of another
// user. Another user could otherwise plant a known token, or redirect data by a link.
func checkOwned(what, path string, want fs.FileMode) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("app: %s: %w", what, err)
	}
	switch got := info.Mode().Type(); {
	case got == fs.ModeSymlink:
		return nil, fmt.Errorf("app: %s %s: %w: it is a symlink; name its target", what, path, fault.PermissionDenied)
	case got != want:
		return nil, fmt.Errorf("app: %s %s: %w: it has the wrong type (%s)", what, path, fault.InvalidArgument, info.Mode())
	}
	if owner, ok := isOwnedByUser(info); !ok {
		return nil, fault.Advise(fmt.Errorf("app: %s %s: %w: it belongs to user %d, and this program runs as user %d", what, path, fault.PermissionDenied, owner, os.Geteuid()), "run it as the owner, chown it, or choose another --data")
	}
	return info, nil
}

// checkVersion refuses a directory of another layout version, or one that croft did
// not create, and writes the version into an empty one.
func checkVersion(dir string) error {
	path := filepath.Join(dir, VersionFile)
	const what = "version of the data directory"
	_, err := checkOwned(what, path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if marked := writeVersion(dir, path); !errors.Is(marked, fs.ErrExist) {
			return marked
		}
		_, err = checkOwned(what, path, 0) // another process wrote it meanwhile
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("app: data directory: %w", err)
	}
	text := strings.TrimSpace(string(data))
	version, err := strconv.Atoi(text)
	switch {
	case err != nil || version < 1:
		return fault.Advise(fmt.Errorf("app: data directory %s: version %.20q: %w: this croft needs version %d", dir, text, fault.InvalidArgument, Layout), "name another directory with --data")
	case version > Layout:
		return fault.Advise(fmt.Errorf("app: data directory %s has version %d: %w: a later croft made it; this one needs version %d", dir, version, fault.Unsupported, Layout), "upgrade croft, or name another directory with --data")
	case version < Layout:
		return fault.Advise(fmt.Errorf("app: data directory %s has version %d: %w: an earlier croft made it; this one needs version %d and changed nothing in it", dir, version, fault.Unsupported, Layout), "name another directory with --data")
	}
	return nil
}

// writeVersion writes the version file of an empty directory. It returns fs.ErrExist
// if another process wrote it meanwhile.
func writeVersion(dir, path string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("app: data directory: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() == config.FileName {
			continue
		}
		// The version is the first file that croft writes, so in a data directory it
		// exists by now.
		if _, err := os.Lstat(path); err == nil {
			return fs.ErrExist
		}
		// A mistyped --data must not turn a home directory into a data directory.
		return fault.Advise(fmt.Errorf("app: data directory %s: %w: it is not empty, and no data directory (it has %q and no %q)", dir, fault.InvalidArgument, e.Name(), VersionFile), "name another one with --data")
	}
	if err := Mark(dir); err != nil {
		return fmt.Errorf("app: mark data directory: %w", err)
	}
	return nil
}

// Mark writes the version into a directory, which makes it a data directory. It fails with
// fs.ErrExist.
func Mark(dir string) error {
	return createFile(filepath.Join(dir, VersionFile), strconv.Itoa(Layout)+"\n", 0o644)
}

// createFile creates a file atomically with its content, by link(2) of a temporary
// file. It fails with fs.ErrExist.
func createFile(path, content string, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(content)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}

// Token returns the token of the data directory, and creates it the first time.
func Token(dir string) (string, error) { return SecretFile(dir, TokenFile) }

// SecretFile returns the random text of a file, and creates it the first time.
func SecretFile(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	info, err := checkOwned("token", path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		var raw [32]byte
		rand.Read(raw[:]) // never fails
		err = createFile(path, base64.RawURLEncoding.EncodeToString(raw[:])+"\n", 0o600)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("app: make token: %w", err)
		}
		info, err = checkOwned("token", path, 0)
	}
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("app: token %s has mode %04o: %w: other users can read it; remove the file to get a new token, or chmod it to 0600",
			path, info.Mode().Perm(), fault.PermissionDenied)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("app: token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("app: token %s is empty: %w: remove the file to get a new token", path, fault.InvalidArgument)
	}
	return token, nil
}
