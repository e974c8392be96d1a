package gitdir

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/secret"
)

// CleanTree writes clean forms of the files with credentials in the Git directories of a tree,
// below the new directory to: see secret.GitFile. found says whether there are such files.
func CleanTree(tree, to string) (found bool, err error) {
	if err := errors.Join(files.RemoveTree(to), os.Mkdir(to, 0o755)); err != nil {
		return false, err
	}
	from, err := os.OpenRoot(tree)
	if err != nil {
		return false, err
	}
	defer from.Close() //nolint:errcheck // it was only read
	// The names come without the root, which looks at each directory above: a third of the time.
	err = filepath.WalkDir(tree, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || !e.Type().IsRegular():
			return err
		}
		name = strings.TrimPrefix(name[len(tree):], "/")
		clean, leaveOut := gitFileOf(from, name)
		if clean == nil && !leaveOut {
			return nil
		}
		wrote, err := writeClean(from, to, name, clean)
		found = found || wrote
		return err
	})
	return found, err
}

// gitFileOf is secret.GitFile for a file of a tree: a Git directory is named .git or NAME.git,
// or has HEAD, objects and refs.
func gitFileOf(root *os.Root, name string) (clean func([]byte) []byte, leaveOut bool) {
	for i := range name {
		if name[i] != '/' {
			continue
		}
		dir := path.Base(name[:i])
		if autorun.IsGit(dir) || strings.HasSuffix(dir, ".git") {
			return secret.GitFile(name[i+1:])
		}
	}
	// Git takes a directory of any name for a repository.
	if clean, leaveOut = secret.GitFile(path.Base(name)); clean == nil && !leaveOut {
		return nil, false
	}
	for _, part := range []string{"HEAD", "objects", "refs"} {
		if _, err := root.Lstat(path.Join(path.Dir(name), part)); err != nil {
			return nil, false
		}
	}
	return clean, leaveOut
}

// writeClean writes the clean form of a file below to, with the modes of the tree. What is
// left out, and what is too large to be cleaned, is empty.
func writeClean(from *os.Root, to, name string, clean func([]byte) []byte) (wrote bool, err error) {
	f, err := from.Open(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	var data []byte
	if clean != nil && info.Size() <= secret.MaxGitFile {
		was, err := io.ReadAll(io.LimitReader(f, secret.MaxGitFile))
		if err != nil {
			return false, err
		}
		if data = clean(was); bytes.Equal(data, was) {
			return false, nil
		}
	}
	for i := range name {
		if name[i] != '/' {
			continue
		}
		dir, err := from.Stat(name[:i])
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, name[:i]), dir.Mode().Perm()|0o700)
		}
		if err == nil {
			err = os.Chmod(filepath.Join(to, name[:i]), dir.Mode().Perm()|0o700) // whatever the umask
		}
		if err != nil {
			return false, err
		}
	}
	at := filepath.Join(to, name)
	return true, errors.Join(os.WriteFile(at, data, 0o600), os.Chmod(at, info.Mode().Perm()))
}
