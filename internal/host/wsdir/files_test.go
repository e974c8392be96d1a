package wsdir

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestCallsOutliveAnUpdate changes the policy between a call's finding the files and
// its asking them: it is answered by those that there are then.
func TestCallsOutliveAnUpdate(t *testing.T) {
	g, err := New(&Config{Kind: "test", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h := attach(t, g, driver.Spec{ID: driver.NewID(), Kind: "test"})
	update := false
	h.Via = func(ctx context.Context) (*driver.FS, error) {
		fs, err := h.currentFS()
		if update {
			update = false
			if _, err := h.Update(ctx, driver.Policy{Env: map[string]string{"A": "b"}}); err != nil {
				t.Error(err)
			}
		}
		return fs, err
	}
	fs := h.FS()
	for name, call := range map[string]func() error{
		"stat":  func() error { _, err := fs.Stat(t.Context(), ".", &driver.StatOptions{}); return err },
		"mkdir": func() error { return fs.Mkdir(t.Context(), "dir", &driver.MkdirOptions{}) },
		"write and read": func() error {
			if _, err := fs.Write(t.Context(), "f", strings.NewReader("text"), &driver.WriteOptions{}); err != nil {
				return err
			}
			update = true
			r, info, err := fs.Read(t.Context(), "f", &driver.ReadOptions{})
			if err != nil {
				return err
			}
			defer r.Close()
			if text, err := io.ReadAll(r); string(text) != "text" || info.Size != 4 {
				t.Errorf("read %q of %d bytes, %v", text, info.Size, err)
			}
			return nil
		},
	} {
		update = true
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.Via = func(context.Context) (*driver.FS, error) {
		defer h.Close() // the call after it tells
		return h.currentFS()
	}
	if _, err := fs.Stat(t.Context(), ".", &driver.StatOptions{}); fault.Of(err) != fault.WrongState {
		t.Errorf("closed meanwhile: %v, want %v", err, fault.WrongState)
	}
}
