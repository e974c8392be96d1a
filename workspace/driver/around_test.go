package driver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// around opens a workspace with files and a shell under a hook.
func around(t *testing.T, hook driver.Hook) (plain, hooked *driver.Workspace) {
	t.Helper()
	p, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	plain, err = p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: testshell.Kind})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Life.Destroy(context.WithoutCancel(t.Context())) })
	return plain, driver.Around(plain, hook)
}

// TestAroundSeesEverything proves that the hook stands around functions and
// methods alike, those of sessions too, and that nothing is lost on the way.
func TestAroundSeesEverything(t *testing.T) {
	var verbs []string
	plain, ws := around(t, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		verbs = append(verbs, call.Verb)
		return next(ctx)
	})
	for _, lost := range workspacetest.Lost(plain, ws) {
		t.Errorf("wrapping loses %s", lost)
	}
	ctx := t.Context()
	if _, err := ws.FS.Write(ctx, "f", strings.NewReader("hi"), &driver.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	session, err := ws.Shell.Start(ctx, driver.Command{Argv: []string{"cat", "f"}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := session.Wait(ctx)
	if err != nil || string(res.Stdout) != "hi" {
		t.Errorf("Wait = %q, %v", res.Stdout, err)
	}
	again, err := ws.Shell.Attach(ctx, session.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Log(ctx, driver.Stdout, 0, 10); err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Close(ctx); err != nil {
		t.Fatal(err)
	}
	want := []string{"fs.Write", "shell.Start", "session.Wait", "shell.Attach", "session.Log", "life.Close"}
	if !slices.Equal(verbs, want) {
		t.Errorf("seen: %q, want %q", verbs, want)
	}
}

// TestAroundRefusesAndRepeats proves that a hook may keep a call from happening,
// and may make it again.
func TestAroundRefusesAndRepeats(t *testing.T) {
	refused := errors.New("refused")
	_, ws := around(t, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		switch call.Verb {
		case "fs.Write", "fs.Digest":
			return refused
		case "fs.Read":
			if err := next(ctx); err != nil {
				return err
			}
		}
		return next(ctx)
	})
	ctx := t.Context()
	if err := ws.FS.Mkdir(ctx, "d", &driver.MkdirOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.FS.Write(ctx, "d/f", strings.NewReader("hi"), &driver.WriteOptions{}); !errors.Is(err, refused) {
		t.Errorf("Write: %v, want %v", err, refused)
	}
	if ws.FS.Digest != nil {
		if _, err := ws.FS.Digest(ctx, "."); !errors.Is(err, refused) {
			t.Errorf("Digest: %v, want %v", err, refused)
		}
	}
	if infos, err := ws.FS.ReadDir(ctx, "d"); err != nil || len(infos) != 0 {
		t.Errorf("ReadDir = %v, %v, want nothing", infos, err)
	}
	if _, _, err := ws.FS.Read(ctx, "none", &driver.ReadOptions{}); err == nil {
		t.Error("Read of a file that is not there succeeds")
	}
}
