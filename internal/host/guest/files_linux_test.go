package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/workspace/driver"
)

// TestFilesByTheGuest: what takes more than one message, in both directions, and what
// is given up.
func TestFilesByTheGuest(t *testing.T) {
	var root string
	r := plain(t, func(l *guest.Launch) { root, l.Config.Files = l.Config.Root, true })
	files, ctx := r.Files(), t.Context()
	for _, size := range []int{0, 1, 256 << 10, 1<<20 + 1} {
		want := bytes.Repeat([]byte("x"), size)
		res, err := files.Write(ctx, "f", bytes.NewReader(want), &driver.WriteOptions{})
		if err != nil || res.Info.Size != int64(size) {
			t.Fatalf("Write of %d bytes = %+v, %v", size, res, err)
		}
		body, info, err := files.Read(ctx, "f", &driver.ReadOptions{})
		if err != nil || info.Size != int64(size) {
			t.Fatalf("Read = %+v, %v", info, err)
		}
		if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes are read, %v; want %d", len(got), err, size)
		}
		body.Close()
	}
	broken := errors.New("broken")
	half := io.MultiReader(bytes.NewReader(make([]byte, 300<<10)), failing{broken})
	if _, err := files.Write(ctx, "g", half, &driver.WriteOptions{}); !errors.Is(err, broken) {
		t.Errorf("a body that breaks: %v", err)
	}
	if names, err := os.ReadDir(root); err != nil || len(names) != 1 {
		t.Errorf("after that the workspace holds %v, %v; want f alone", names, err)
	}
	if _, _, err := files.Read(ctx, "none", &driver.ReadOptions{}); fault.Of(err) != fault.NotFound {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := files.Write(ctx, "none/f", bytes.NewReader(make([]byte, 300<<10)), &driver.WriteOptions{}); fault.Of(err) != fault.NotFound {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// failing is a reader that has only an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestWatchByTheGuest: a change arrives, a caller that gives up loses nothing, and
// Close ends a Next that waits.
func TestWatchByTheGuest(t *testing.T) {
	var root string
	r := plain(t, func(l *guest.Launch) { root, l.Config.Files = l.Config.Root, true })
	w, err := r.Files().Watch(t.Context(), ".", &driver.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("Next of a caller that is gone: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	batch, err := w.Next(t.Context())
	if err != nil || len(batch.Changes) == 0 || batch.Changes[0].Path != "f" {
		t.Errorf("Next = %+v, %v; want f", batch, err)
	}
	waits := make(chan error)
	go func() {
		for err := error(nil); ; {
			if _, err = w.Next(context.Background()); err != nil {
				waits <- err
				return
			}
		}
	}()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, io.EOF) {
		t.Errorf("Next after Close: %v", err)
	}
}
