package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/google/go-cmp/cmp"
)

func TestEveryCallIsALine(t *testing.T) {
	inner, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	rec := New(&out)
	p, ctx := rec.Wrap(inner), t.Context()
	id := driver.NewID()
	ws, err := p.Open(ctx, driver.Spec{ID: id, Kind: p.Kind()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ws.FS.Write(ctx, "a/f", strings.NewReader("a text"), &driver.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.FS.Read(ctx, "none", &driver.ReadOptions{}); err == nil {
		t.Fatal("a read of nothing succeeds")
	}
	cmd := driver.Command{Argv: []string{"true"}, Env: map[string]string{"TOKEN": "hidden-value"}}
	if _, err := ws.Shell.Run(ctx, cmd); err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"a text", "hidden-value"} {
		if strings.Contains(out.String(), content) {
			t.Errorf("%q was written down", content)
		}
	}
	type short struct {
		Verb, Workspace, Code string
		Args                  map[string]any
	}
	var got []short
	for line := range strings.Lines(out.String()) {
		var l Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if l.Verb == "open" {
			l.Args = nil
		}
		got = append(got, short{l.Verb, l.Workspace, l.Code, l.Args})
	}
	want := []short{
		{"open", id, "", nil},
		{"fs.Write", id, "", map[string]any{"name": "a/f", "Parents": true}},
		{"fs.Read", id, "E_NOT_FOUND", map[string]any{"name": "none"}},
		{"shell.Run", id, "", map[string]any{"argv": []any{"true"}, "script": "", "dir": "", "env": []any{"TOKEN"}}},
		{"life.Destroy", id, "", nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if err := rec.Err(); err != nil {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestALineThatIsLost proves that what can't be written down still happens.
func TestALineThatIsLost(t *testing.T) {
	inner, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rec := New(broken{})
	ws, err := rec.Wrap(inner).Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: testshell.Kind})
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if rec.Err() == nil {
		t.Error("nobody hears that lines are lost")
	}
}
