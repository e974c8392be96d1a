package workspacetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var importChecks = []Check{
	{"Import/brings-a-tree-as-it-is", needFS, importBrings},
	{"Import/leaves-the-source-alone", needFS, importLeavesSource},
	{"Import/keeps-out-what-leads-out-or-hangs", needFS, importKeepsOut},
	{"Import/refuses-what-can't-be", needFS, importRefused},
	{"Import/is-all-or-nothing", needFS, importAllOrNothing},
	{"Import/read-only-is-without-permission-to-write", needFunc("Chmod"), importReadOnly},
	{"Import/excludes", needFS, importExcludes},
}

// hostTree creates a directory of the host with all kinds of entries.
func hostTree(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	for name, content := range map[string]string{"a": "1", "d/b": "22", "d/e/c": strings.Repeat("x", 100_000), ".hidden": "h"} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil { // as in any project
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0o755); err != nil { // a program
		t.Fatal(err)
	}
	return dir
}

// importOptions are the combinations of import options.
var importOptions = map[string]workspace.ImportOptions{"copied": {}, "by a mount": {Mount: true}}

func importBrings(t testing.TB, e *Env) {
	for way, opts := range importOptions {
		p := e.open(t)
		res, err := p.Import(t.Context(), hostTree(t), "in", &opts)
		if !wantNil(t, "Import "+way, err) {
			continue
		}
		if res.Files != 4 || res.Dirs != 3 || res.Skips != 0 {
			t.Errorf("Import %s counts %+v, want 4 files and 3 directories", way, res)
		}
		p.wantNames(t, "in", ".hidden", "a", "d", "empty")
		p.wantContent(t, "in/d/b", "22")
		p.wantContent(t, "in/d/e/c", strings.Repeat("x", 100_000))
		info, err := p.Stat(t.Context(), "in/a", nil)
		if wantNil(t, "Stat", err) && e.sample.FS.Chmod != nil && info.Mode.Perm() != 0o755 {
			t.Errorf("Import %s gives mode %o, want 755", way, info.Mode.Perm())
		}
		p.write(t, "in/d/new", "n")
		p.write(t, "in/d/b", "changed")
		p.wantContent(t, "in/d/b", "changed")
		wantNil(t, "Rename of what was imported", p.Rename(t.Context(), "in", "moved", nil))
		p.wantContent(t, "moved/d/new", "n")
		wantNil(t, "Remove of what was imported", p.Remove(t.Context(), "moved", &workspace.RemoveOptions{Recursive: true}))
		p.wantNames(t, ".")
	}
}

func importLeavesSource(t testing.TB, e *Env) {
	for way, opts := range importOptions {
		p, dir := e.open(t), hostTree(t)
		if _, err := p.Import(t.Context(), dir, "in", &opts); !wantNil(t, "Import "+way, err) {
			continue
		}
		p.write(t, "in/a", "changed")
		wantNil(t, "Remove", p.Remove(t.Context(), "in/d", &workspace.RemoveOptions{Recursive: true}))
		wantNil(t, "Destroy", p.Destroy(t.Context()))
		for name, want := range map[string]string{"a": "1", "d/b": "22"} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Errorf("Import %s: the source holds %q, %v at %s, want %q", way, clip(string(got)), err, name, want)
			}
		}
	}
}

func importKeepsOut(t testing.TB, e *Env) {
	p, dir := e.open(t), hostTree(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": secret, "climbs": "../../../../../../../.." + secret} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := mkfifo(filepath.Join(dir, "fifo")); err != nil {
		t.Skipf("skipped: host: it has no FIFOs: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := p.Import(ctx, dir, "in", nil)
	if !wantNil(t, "Import of a tree with a FIFO", err) {
		return
	}
	if res.Skips != 3 {
		t.Errorf("Import left out %+v, want the FIFO and two symlinks", res.Skipped)
	}
	p.wantNames(t, "in", ".hidden", "a", "d", "empty")
}

func importRefused(t testing.TB, e *Env) {
	p, dir := e.open(t), hostTree(t)
	p.write(t, "there", "t")
	imp := func(dir, name string) error {
		_, err := p.Import(t.Context(), dir, name, nil)
		return err
	}
	wantCode(t, "Import over what is there", imp(dir, "there"), fault.AlreadyExists)
	wantCode(t, "Import to outside", imp(dir, "../x"), fault.SandboxViolation)
	wantCode(t, "Import over the workspace", imp(dir, "."), fault.InvalidArgument)
	wantCode(t, "Import of a relative path", imp("source", "x"), fault.InvalidArgument)
	wantCode(t, "Import of what is missing", imp(filepath.Join(dir, "no"), "x"), fault.NotFound)
	p.wantNames(t, ".", "there")
	p.wantContent(t, "there", "t")
}

func importAllOrNothing(t testing.TB, e *Env) {
	p, dir := e.open(t), hostTree(t)
	_, err := p.Import(t.Context(), dir, "in", &workspace.ImportOptions{MaxFiles: 3})
	wantCode(t, "Import of more than MaxFiles", err, fault.ResourceExhausted)
	_, err = p.Import(t.Context(), dir, "in", &workspace.ImportOptions{MaxBytes: 1000})
	wantCode(t, "Import of more than MaxBytes", err, fault.ResourceExhausted)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, opts := range importOptions {
		_, err = p.Import(ctx, dir, "in", &opts)
		wantCode(t, "Import that was cancelled", err, fault.Canceled)
	}
	p.wantNames(t, ".")
}

func importReadOnly(t testing.TB, e *Env) {
	p := e.open(t)
	if _, err := p.Import(t.Context(), hostTree(t), "in", &workspace.ImportOptions{ReadOnly: true}); !wantNil(t, "Import", err) {
		return
	}
	for _, name := range []string{"in", "in/a", "in/d", "in/d/b"} {
		info, err := p.Stat(t.Context(), name, nil)
		if wantNil(t, "Stat", err) && info.Mode.Perm()&0o222 != 0 {
			t.Errorf("%s has mode %o, want no permission to write", name, info.Mode.Perm())
		}
	}
	if e.sample.Shell != nil {
		res, err := p.Run(t.Context(), driver.Command{Script: "cat in/a; sh -c 'echo y 2>/dev/null >in/d/b'; cat in/d/b"})
		if wantNil(t, "Run", err) && os.Getuid() != 0 && string(res.Stdout) != "122" {
			t.Errorf("a command changed what is read-only: %q", res.Stdout)
		}
	}
}

func importExcludes(t testing.TB, e *Env) {
	p := e.open(t)
	for way, opts := range importOptions {
		opts.Exclude = []string{"d/e", "a"}
		if _, err := p.Import(t.Context(), hostTree(t), way, &opts); wantNil(t, "Import "+way, err) {
			p.wantNames(t, way, ".hidden", "d", "empty")
			p.wantNames(t, way+"/d", "b")
		}
	}
}
