package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// TestNoGit: entries named .git are neither read nor changed, whatever the tree has, and
// what is around them is.
func TestNoGit(t *testing.T) {
	for _, how := range []string{"restore", "write"} {
		t.Run(how, func(t *testing.T) {
			dir, from := t.TempDir(), t.TempDir()
			for name, content := range map[string]string{"a": "mine", ".git/HEAD": "mine", "new/b": "mine", "new/deep/.git": "mine", "new/deep/c": "mine", "plain/d": "mine"} {
				putFile(t, filepath.Join(dir, name), content)
			}
			for name, content := range map[string]string{"a": "theirs", ".git/HEAD": "theirs", ".git/refs/x": "theirs"} {
				putFile(t, filepath.Join(from, name), content)
			}
			var err error
			if how == "restore" {
				_, err = Restore(t.Context(), HostDir(from, nil), dir, &RestoreOptions{NoGit: true})
			} else {
				var root *files.Root
				if root, err = files.Open(dir, nil); err == nil {
					defer root.Close()
					err = Write(t.Context(), HostDir(from, nil), root.Module(), &WriteOptions{NoGit: true})
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			err = Walk(t.Context(), HostDir(dir, nil), func(name string, _ Directory, n *Node) (bool, error) {
				if n.Type == driver.TypeFile {
					data, err := os.ReadFile(filepath.Join(dir, name))
					got = append(got, name+"="+string(data))
					return false, err
				}
				return true, nil
			})
			want := []string{".git/HEAD=mine", "a=theirs", "new/deep/.git=mine"}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			for _, tree := range []Tree{HostDir(dir, &HostOptions{NoGit: true}), WithoutGit(HostDir(dir, nil))} {
				err := Walk(t.Context(), tree, func(name string, _ Directory, _ *Node) (bool, error) {
					if strings.Contains(name, ".git") {
						t.Errorf("%s is listed", name)
					}
					return true, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func putFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
