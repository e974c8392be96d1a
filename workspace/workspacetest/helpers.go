package workspacetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// wantCode reports an error whose code is not one of codes.
func wantCode(t testing.TB, what string, err error, codes ...fault.Code) {
	t.Helper()
	got := fault.Of(err)
	for _, c := range codes {
		if got == c {
			return
		}
	}
	if err == nil {
		t.Errorf("%s: succeeded, want %v", what, codes)
		return
	}
	t.Errorf("%s: got %q (%v), want %v", what, got, err, codes)
}

// wantNil reports an error, and returns whether there was none.
func wantNil(t testing.TB, what string, err error) bool {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

// wantFailed reports an error of Open or Resolve that is not permanent.
func wantFailed(t testing.TB, what string, err error) {
	t.Helper()
	wantCode(t, what, err, fault.Failed)
	if fault.IsTransient(err) {
		t.Errorf("%s: is marked transient, want permanent: %v", what, err)
	}
	if errors.Is(err, fault.Evicted) {
		t.Errorf("%s: is Evicted, which only a module may answer: %v", what, err)
	}
}

// write writes a file, for set-up.
func (p *testWorkspace) write(t testing.TB, name, content string) driver.WriteResult {
	t.Helper()
	res, err := p.WriteFile(t.Context(), name, []byte(content), &workspace.WriteOptions{Parents: true})
	if err != nil {
		t.Fatalf("Write(%q): %v", name, err)
	}
	return res
}

// wantContent reports a file with other content.
func (p *testWorkspace) wantContent(t testing.TB, name, want string) {
	t.Helper()
	got, err := p.ReadFile(t.Context(), name)
	if err != nil {
		t.Errorf("ReadFile(%q): %v", name, err)
		return
	}
	if string(got) != want {
		t.Errorf("%q holds %s, want %s", name, clip(string(got)), clip(want))
	}
}

// wantMissing reports a path that exists.
func (p *testWorkspace) wantMissing(t testing.TB, name string) {
	t.Helper()
	_, err := p.Stat(t.Context(), name, &workspace.StatOptions{NoFollow: true})
	wantCode(t, "Stat of "+name+", which should not be there", err, fault.NotFound)
}

// listNames lists a directory.
func (p *testWorkspace) listNames(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := p.ReadDir(t.Context(), dir)
	if err != nil {
		t.Errorf("ReadDir(%q): %v", dir, err)
	}
	return namesOf(entries)
}

// wantNames reports a directory with other entries.
func (p *testWorkspace) wantNames(t testing.TB, dir string, want ...string) {
	t.Helper()
	if got := p.listNames(t, dir); strings.Join(got, "\x00") != strings.Join(want, "\x00") {
		t.Errorf("%q holds %q, want %q", dir, got, want)
	}
}

func namesOf(entries []driver.Info) []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func pathsOf(entries []driver.Info) []string {
	var paths []string
	for _, e := range entries {
		paths = append(paths, e.Path)
	}
	return paths
}

// listTree lists the whole workspace.
func (p *testWorkspace) listTree(t testing.TB) []driver.Info {
	t.Helper()
	var entries []driver.Info
	opts := workspace.ListOptions{Depth: -1}
	for {
		page, err := p.List(t.Context(), ".", &opts)
		if err != nil {
			t.Errorf("List: %v", err)
			return entries
		}
		entries = append(entries, page.Entries...)
		if page.Next == "" {
			return entries
		}
		opts.After = page.Next
	}
}

// wantUsable writes to a workspace and reads it back.
func (p *testWorkspace) wantUsable(t testing.TB) {
	t.Helper()
	if p.d.FS == nil {
		return
	}
	const name, content = "it-works", "yes\n"
	if _, err := p.WriteFile(t.Context(), name, []byte(content), nil); err != nil {
		t.Errorf("the workspace can't be written: %v", err)
		return
	}
	p.wantContent(t, name, content)
}

// wantNothing reports leftovers in the directory of the check.
func (e *Env) wantNothing(t testing.TB, when string) {
	t.Helper()
	if e.Leftovers == nil {
		return
	}
	if left := e.Leftovers(t, e.Dir); len(left) > 0 {
		t.Errorf("%s: %d left over: %q", when, len(left), left)
	}
}

// readAll reads and closes a body.
func readAll(body io.ReadCloser) (string, error) {
	data, err := io.ReadAll(body)
	return string(data), errors.Join(err, body.Close())
}

// clip shortens a text for a message.
func clip(s string) string {
	const most = 120
	if len(s) > most {
		return quote(s[:most]) + "..."
	}
	return quote(s)
}

func quote(s string) string { return strings.ToValidUTF8(`"`+s+`"`, "?") }

// patternBytes returns n bytes that differ after any shift or cut.
func patternBytes(seed byte, n int) []byte {
	data := make([]byte, n)
	x := uint32(seed) + 1
	for i := range data {
		x = x*1664525 + 1013904223
		data[i] = byte(x >> 24)
	}
	return data
}

// plainReader returns a reader of s without any other method.
func plainReader(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

// failingReader returns a reader of data that then fails with err.
func failingReader(data []byte, err error) io.Reader {
	return io.MultiReader(bytes.NewReader(data), errReader{err})
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// cancellingReader returns a reader of data that ends a context in between and continues,
// like a peer that does not know.
func cancellingReader(data []byte, cancel context.CancelFunc) io.Reader {
	return io.MultiReader(bytes.NewReader(data[:len(data)/2]), callReader{cancel}, bytes.NewReader(data[len(data)/2:]))
}

type callReader struct{ call func() }

func (r callReader) Read([]byte) (int, error) { r.call(); return 0, io.EOF }

func fileMode(mode uint32) fs.FileMode { return fs.FileMode(mode) }
