package wsdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A loss of power can leave the name of a state that was not on stable storage
// yet, without what was in it. Such a workspace is still whose it was.
func TestWhatLostItsStateIsCorruptAndSwept(t *testing.T) {
	root := t.TempDir()
	grounds := map[string]*Store{}
	for _, kind := range []string{"test", "other"} {
		g, err := New(&Config{Kind: kind, Root: root})
		if err != nil {
			t.Fatal(err)
		}
		grounds[kind] = g
	}
	for name, left := range map[string][]byte{"empty": nil, "zeroes": make([]byte, 100)} {
		t.Run(name, func(t *testing.T) {
			g, spec := grounds["test"], driver.Spec{ID: driver.NewID(), Kind: "test"}
			if _, err := g.Ensure(t.Context(), spec, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(g.Dir(spec.ID).statePath(), left, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Read(spec.ID); fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseCorrupt {
				t.Errorf("got %v, want %s with the cause %s", err, fault.Failed, fault.CauseCorrupt)
			}
			for _, kind := range []string{"other", "test"} {
				if err := grounds[kind].Sweep(t.Context(), nil, nil); err != nil {
					t.Fatal(err)
				}
				_, err := os.Lstat(g.Path(spec.ID))
				if got, want := err == nil, kind == "other"; got != want {
					t.Errorf("after the sweep of the kind %q: there is %v, want %v", kind, got, want)
				}
			}
		})
	}
}

func newGround(t *testing.T) *Store {
	t.Helper()
	g, err := New(&Config{Kind: "test", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStateOfAnotherVersionIsRefused(t *testing.T) {
	g := newGround(t)
	spec := driver.Spec{ID: driver.NewID(), Kind: "test"}
	m, err := g.Ensure(t.Context(), spec, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Version = 7
	if err := g.Dir(spec.ID).write(m, false); err != nil {
		t.Fatal(err)
	}
	_, err = g.Read(spec.ID)
	if fault.Of(err) != fault.Failed || !strings.Contains(err.Error(), "version 7") || !strings.Contains(err.Error(), fmt.Sprintf("version %d", stateVersion)) {
		t.Errorf("got %v, want %s with both versions", err, fault.Failed)
	}
	if err := g.Sweep(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(g.Path(spec.ID)); err == nil {
		t.Error("a workspace of another version was not swept")
	}
}

type counted struct {
	N int `json:"n"`
}

// TestSections changes a section from many goroutines, while a handle is used.
func TestSections(t *testing.T) {
	const section = Section[counted]("counted")
	g := newGround(t)
	spec := driver.Spec{ID: driver.NewID(), Kind: "test"}
	h := attach(t, g, spec)
	const goroutines, times = 8, 20
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range times {
				_, err := g.Dir(spec.ID).Update(t.Context(), false, func(m *State) error {
					c, err := section.Get(m)
					if c == nil {
						c = new(counted)
					}
					c.N++
					return errors.Join(err, section.Set(m, c))
				})
				if err = errors.Join(err, h.Current()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	m, err := g.Read(spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := section.Get(m); err != nil || c == nil || c.N != goroutines*times {
		t.Errorf("got %+v, %v; want %d", c, err, goroutines*times)
	}
	if _, err := g.Dir(spec.ID).Update(t.Context(), false, func(m *State) error { return section.Set(m, nil) }); err != nil {
		t.Fatal(err)
	}
	if m, err = g.Read(spec.ID); err != nil || len(m.Sections) != 0 {
		t.Errorf("after the removal: %v, %v", m, err)
	}
	if _, err := (Dir{g.Path("nothing"), "test"}).Update(t.Context(), false, func(*State) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}
