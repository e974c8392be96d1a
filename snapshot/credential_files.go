package snapshot

import (
	"bytes"
	"fmt"
	"io"
	pathpkg "path"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/secret"
)

var credentialFiles = (*search.Ignore)(nil).With(".", []byte(strings.Join(secret.CredentialFiles, "\n")))

// IsCredentialFile reports whether a slash-separated path is a known credential file,
// or a directory of such files.
func IsCredentialFile(path string, dir bool) bool { return credentialFiles.Ignores(path, dir) }

// errCredential says that a file is left out for its content.
var errCredential = fmt.Errorf("snapshot: %w: a private key, or a file of Git that is too large to look for credentials", fault.PermissionDenied)

// IsPrivateKey reports whether a file is a private key, by its content: see
// secret.HasPrivateKey.
func IsPrivateKey(r io.ReaderAt, size int64) (bool, error) {
	if size > secret.MaxKeyFile {
		return false, nil
	}
	data, err := io.ReadAll(io.NewSectionReader(r, 0, secret.MaxKeyFile+1))
	return err == nil && secret.HasPrivateKey(data), err
}

// gitPath returns the part of a slash-separated path that is relative to a Git directory: a
// .git, or a bare repository whose name ends in .git. It returns "" if there is none.
func gitPath(path string) string {
	for i := range path {
		if path[i] == '/' && isGitDir(path[:i]) {
			return path[i+1:]
		}
	}
	return ""
}

// isGitDir reports whether a path is that of a Git directory, by its name.
func isGitDir(path string) bool {
	name := pathpkg.Base(path)
	return autorun.IsGit(name) || strings.HasSuffix(name, ".git")
}

// GitFile is secret.GitFile for a slash-separated path of a tree.
func GitFile(path string) (clean func([]byte) []byte, leaveOut bool) {
	name := gitPath(path)
	if name == "" {
		return nil, false
	}
	return secret.GitFile(name)
}

// CleanGitFile reads a file of a Git directory, without its credentials. ok is false if it
// is too large to be cleaned, and must be left out.
func CleanGitFile(r io.Reader, clean func([]byte) []byte) (cleaned []byte, changed, ok bool, err error) {
	data, err := io.ReadAll(io.LimitReader(r, secret.MaxGitFile+1))
	if err != nil || len(data) > secret.MaxGitFile {
		return nil, false, false, err
	}
	cleaned = clean(data)
	return cleaned, !bytes.Equal(cleaned, data), true, nil
}
