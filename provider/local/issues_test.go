package local

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A workspace in place followed its path: who could rename what is above it, from
// another workspace for example, took it anywhere.
func TestInPlaceDirectoryThatIsReplaced(t *testing.T) {
	tests := []struct {
		name    string
		replace func(t *testing.T, dir, secret string)
	}{
		{"by a symlink", func(t *testing.T, dir, secret string) {
			must(t, errors.Join(os.Rename(dir, dir+"-old"), os.Symlink(secret, dir)))
		}},
		{"by another directory", func(t *testing.T, dir, secret string) {
			must(t, errors.Join(os.Rename(dir, dir+"-old"), os.Rename(secret, dir)))
		}},
		{"by a symlink to itself", func(t *testing.T, dir, _ string) {
			must(t, errors.Join(os.Rename(dir, dir+"-old"), os.Symlink(dir+"-old", dir)))
		}},
		{"by a symlink above it", func(t *testing.T, dir, secret string) {
			above := filepath.Dir(dir)
			must(t, os.Mkdir(filepath.Join(secret, filepath.Base(dir)), 0o700))
			must(t, errors.Join(os.Rename(above, above+"-old"), os.Symlink(secret, above)))
		}},
		{"by a symlink to a directory that holds it", func(t *testing.T, dir, _ string) {
			must(t, errors.Join(os.Rename(dir, dir+"-old"), os.Symlink("..", dir)))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			dir, secret := filepath.Join(top, "q", "sub"), filepath.Join(top, "secret")
			must(t, errors.Join(os.MkdirAll(dir, 0o700), os.Mkdir(secret, 0o700)))
			p := newProvider(t, t.TempDir())
			s := spec(in(dir))
			ws, err := p.Open(t.Context(), s)
			must(t, err)
			tt.replace(t, dir, secret)
			_, err = ws.FS.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{})
			wantCode(t, "Write", err, fault.Evicted)
			_, err = p.Resolve(t.Context(), ws.Ref)
			wantCode(t, "Resolve", err, fault.Failed)
			if got := fault.CauseOf(err); got != fault.CauseGone {
				t.Errorf("the cause is %q, want %q", got, fault.CauseGone)
			}
			if err != nil && strings.Contains(err.Error(), top) {
				t.Errorf("the message echoes what was stored: %v", err)
			}
			_, err = p.Open(t.Context(), s)
			wantCode(t, "Open", err, fault.Failed)
			_, err = ws.Life.Update(t.Context(), driver.Policy{ReadOnly: true})
			wantCode(t, "Update", err, fault.Failed)
			err = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
				if d != nil && d.Type().IsRegular() {
					t.Errorf("%s was written", path)
				}
				return err
			})
			must(t, err)
		})
	}
}

// One workspace in place holds another, and renames a symlink over it.
func TestInPlaceDirectoryReplacedFromAnotherWorkspace(t *testing.T) {
	q := filepath.Join(t.TempDir(), "q")
	must(t, os.MkdirAll(filepath.Join(q, "sub"), 0o700))
	must(t, os.MkdirAll(filepath.Join(q, "other"), 0o700))
	p := newProvider(t, t.TempDir())
	qa, qb := open(t, p, in(q)), open(t, p, in(filepath.Join(q, "sub")))
	write(t, qb, "f", "of b")
	must(t, qa.FS.Rename(t.Context(), "sub", "moved", &driver.RenameOptions{}))
	must(t, qa.FS.Symlink(t.Context(), "other", "sub"))
	_, err := qb.FS.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{})
	wantCode(t, "Write", err, fault.Evicted)
	_, err = p.Resolve(t.Context(), qb.Ref)
	wantCode(t, "Resolve", err, fault.Failed)
	must(t, qa.FS.Remove(t.Context(), "sub", &driver.RemoveOptions{}))
	must(t, qa.FS.Rename(t.Context(), "moved", "sub", &driver.RenameOptions{}))
	again, err := p.Resolve(t.Context(), qb.Ref)
	must(t, err)
	write(t, again, "f", "of b, back in its place")
}

// Only the provider's own root was refused, and only by its name.
func TestInPlaceOnForbiddenGround(t *testing.T) {
	top := t.TempDir()
	data := filepath.Join(top, "data")
	store := filepath.Join(data, "filestore", "deep")
	must(t, os.MkdirAll(store, 0o700))
	must(t, os.Symlink(data, filepath.Join(top, "alias")))
	apart := filepath.Join(top, "apart")
	must(t, os.Mkdir(apart, 0o700))
	p, err := New(&Config{Root: filepath.Join(top, "ws"), Forbidden: []string{filepath.Join(top, "alias"), filepath.Join(top, "not-yet")}})
	must(t, err)
	for _, dir := range []string{data, filepath.Dir(store), store, filepath.Join(top, "alias", "filestore"), top, "/"} {
		_, err := p.Open(t.Context(), spec(in(dir)))
		wantCode(t, "Open in "+dir, err, fault.InvalidArgument)
	}
	open(t, p, in(apart))
	// Forbidden ground that comes to be later counts for workspaces that are there.
	ws := open(t, p, in(apart))
	p, err = New(&Config{Root: filepath.Join(top, "ws"), Forbidden: []string{apart}})
	must(t, err)
	_, err = p.Resolve(t.Context(), ws.Ref)
	wantCode(t, "Resolve", err, fault.Failed)
}

// A write whose body was on its way while the workspace became read-only was
// committed when that had been acknowledged.
func TestWriteUnderWayObeysTheNewPolicy(t *testing.T) {
	tests := []struct {
		name   string
		policy driver.Policy
		want   fault.Code
		left   string
	}{
		{"read-only", driver.Policy{ReadOnly: true}, fault.PermissionDenied, "old"},
		{"durable", driver.Policy{Durable: true}, fault.Evicted, "old"},
		{"as before for writers", driver.Policy{Persist: true}, "", "new"},
	}
	for _, tt := range tests {
		for _, inPlace := range []bool{false, true} {
			p := newProvider(t, t.TempDir())
			dir := ""
			if inPlace {
				dir = t.TempDir()
			}
			for _, who := range []string{"itself", "another handle"} {
				ws := open(t, p, in(dir))
				by := ws
				if who != "itself" { // as another process has one
					var err error
					by, err = p.Resolve(t.Context(), ws.Ref)
					must(t, err)
				}
				write(t, ws, "f", "old")
				body := io.MultiReader(strings.NewReader("new"), atEnd(func() {
					_, err := by.Life.Update(t.Context(), tt.policy)
					must(t, err)
				}))
				_, err := ws.FS.Write(t.Context(), "f", body, &driver.WriteOptions{})
				wantCode(t, tt.name+" by "+who, err, tt.want)
				if diff := cmp.Diff(map[string]string{"f": tt.left}, tree(t, ws.Traits.Root)); diff != "" {
					t.Errorf("%s by %s: the files differ (-want +got):\n%s", tt.name, who, diff)
				}
			}
		}
	}
}

// atEnd is an empty reader that does something.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) { f(); return 0, io.EOF }
