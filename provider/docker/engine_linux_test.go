package docker

import (
	"io"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestEngine goes through what the real client does with one container.
func TestEngine(t *testing.T) {
	p := newProvider(t, t.TempDir())
	e := p.engine
	if _, err := p.ensureImage(t.Context(), DefaultImage); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{LabelWorkspace: "engine-test", LabelKey: driver.NewID()}
	u := ContainerSpec{Name: namePrefix + driver.NewID(), Image: DefaultImage, Labels: labels, Command: []string{"/bin/cat"}, User: "1000:1000", Stdin: true}
	id, err := e.Create(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Remove(t.Context(), id) // it is gone by then, if all is well
	if _, err := e.Create(t.Context(), u); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("the same name again: %v", err)
	}
	conn, err := e.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "there and back"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("there and back"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "there and back" {
		t.Errorf("the stream gives %q, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	s, err := e.Inspect(t.Context(), id) // it ends with its standard input
	for till := time.Now().Add(2 * time.Minute); err == nil && s.Running && time.Now().Before(till); {
		time.Sleep(10 * time.Millisecond)
		s, err = e.Inspect(t.Context(), id)
	}
	if err != nil || s.Running || s.Name != u.Name {
		t.Errorf("ended: %+v, %v", s, err)
	}
	if list, err := e.List(t.Context(), labels); err != nil || len(list) != 1 || list[0].ID != id {
		t.Errorf("List: %+v, %v", list, err)
	}
	for range 2 { // the second time it is gone
		if err := e.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Inspect(t.Context(), id); fault.Of(err) != fault.NotFound {
		t.Errorf("Inspect of what is gone: %v", err)
	}
}

func TestAnEngineThatIsNotThere(t *testing.T) {
	p, err := New(&Config{Root: t.TempDir(), Host: "unix://" + t.TempDir() + "/none.sock"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Probe(t.Context()); fault.Of(err) != fault.Unavailable {
		t.Errorf("Probe gives %v", err)
	}
	_, err = p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind})
	if fault.Of(err) != fault.Failed || !fault.IsTransient(err) {
		t.Errorf("Open gives %v, want a transient failure", err)
	}
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Errorf("Sweep of nothing gives %v", err)
	}
	if removed, err := p.Collect(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("Collect gives %v, %v", removed, err)
	}
}
