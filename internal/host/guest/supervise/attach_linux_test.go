package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// fake is a connection to a guest that the test ends.
type fake struct {
	gone   chan struct{}
	closed bool
	ends   bool
}

func (f *fake) Gone() <-chan struct{} { return f.gone }
func (f *fake) ExpectEnd()            { f.ends = true }
func (f *fake) Close() error          { f.closed = true; return nil }

func TestAttachment(t *testing.T) {
	g, err := wsdir.New(&wsdir.Config{Kind: "test", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Ensure(t.Context(), driver.Spec{ID: driver.NewID(), Kind: "test"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := g.Attach(t.Context(), m, wsdir.OpenDirectory)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var made []*fake
	a := NewAttachment(h, g.Dir(m.ID), func(context.Context) (*fake, error) {
		made = append(made, &fake{gone: make(chan struct{})})
		return made[len(made)-1], nil
	})
	guest := func(want int, code fault.Code) {
		t.Helper()
		c, err := a.Guest(t.Context())
		if fault.Of(err) != code && (err != nil || code != "") {
			t.Errorf("got %v, want %q", err, code)
		}
		if err == nil && c != made[want] {
			t.Errorf("got another connection than number %d", want)
		}
	}
	guest(0, "")
	guest(0, "")
	if err := a.ExpectEnd(t.Context()); err != nil || !made[0].ends {
		t.Errorf("Ends: %v, the connection was told: %v", err, made[0].ends)
	}
	close(made[0].gone)
	guest(0, fault.Evicted)
	guest(1, "")
	if len(made) != 2 || !made[0].closed || made[1].closed {
		t.Errorf("%d connections were made, want 2, of which the first is closed", len(made))
	}
	if err := (&Record{Key: "present"}).Write(t.Context(), a.Dir); err != nil {
		t.Fatal(err)
	}
	if err := a.EndIfChanged(t.Context(), "present", nil); err != nil || made[1].closed || ReadRecord(a.Dir) == nil {
		t.Errorf("Renew under the same key: %v, the connection is closed: %v, the record is %v", err, made[1].closed, ReadRecord(a.Dir))
	}
	if err := a.EndIfChanged(t.Context(), "another", nil); err != nil || !made[1].closed || ReadRecord(a.Dir) != nil {
		t.Errorf("Renew under another key: %v, the connection is closed: %v, the record is %v", err, made[1].closed, ReadRecord(a.Dir))
	}
	guest(2, "")
	failing := errors.New("not yet")
	if err := a.Close(t.Context(), func() error { return failing }); !errors.Is(err, failing) || !made[2].closed {
		t.Errorf("Close: %v, want what release answers; the connection is closed: %v", err, made[2].closed)
	}
	guest(0, fault.WrongState)
	if err := h.Destroy(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	guest(0, fault.WrongState)
}

// TestEndOnAFullDisk ends a guest whose record can't be removed: a workspace must be
// removable then above all.
func TestEndOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: host: a file system of a limited size can be mounted by root alone")
	}
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	g, err := wsdir.New(&wsdir.Config{Kind: "test", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Ensure(t.Context(), driver.Spec{ID: driver.NewID(), Kind: "test"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec, cmd := child(t)
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }() // ends with the process
	lock, err := Lock(t.Context(), g.Path(m.ID))
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if err := rec.Write(t.Context(), g.Dir(m.ID)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "full"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	if err := LockAndEnd(t.Context(), g.Dir(m.ID), nil); err != nil {
		t.Errorf("EndIn: %v", err)
	}
	<-waited
}
