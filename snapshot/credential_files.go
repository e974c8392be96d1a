package snapshot

import (
	"bytes"
	"fmt"
	"io"
	pathpkg "path"
	"slices"
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

// errPrivateKey says that a file is a private key, by its content.
var errPrivateKey = fmt.Errorf("snapshot: %w: a private key", fault.PermissionDenied)

// IsPrivateKey reports whether a file is a private key, by its content: see
// secret.HasPrivateKey.
func IsPrivateKey(r io.ReaderAt, size int64) (bool, error) {
	if size > secret.MaxKeyFile {
		return false, nil
	}
	data, err := io.ReadAll(io.NewSectionReader(r, 0, secret.MaxKeyFile+1))
	return err == nil && secret.HasPrivateKey(data), err
}

// IsGitConfig reports whether a slash-separated path is the configuration of a Git
// repository, which may contain credentials; see secret.StripGitConfig.
func IsGitConfig(path string) bool {
	dir, name := pathpkg.Split(path)
	return secret.IsGitConfigName(name) && slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool {
		return autorun.IsGit(name) || strings.HasSuffix(name, ".git") // a bare repository
	})
}

// isGitCredentials reports whether a file in a .git is a store of credentials.
func isGitCredentials(at string, n *Node) bool {
	return slices.Contains([]string{"git-credentials", ".git-credentials", "credentials"}, n.Name) && autorun.InGit(at)
}

// StripGitConfig reads the configuration of a Git repository, without its credentials.
func StripGitConfig(r io.Reader) (stripped []byte, changed bool, err error) {
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, false, err
	}
	if len(data) > most {
		return nil, false, fmt.Errorf("%w: a Git configuration has at most %d bytes", fault.InvalidArgument, most)
	}
	stripped = secret.StripGitConfig(data)
	return stripped, !bytes.Equal(stripped, data), nil
}
