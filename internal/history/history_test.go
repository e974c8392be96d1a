package history_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func provider(t *testing.T) *memory.Provider {
	return &memory.Provider{Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)}
}

func open(t *testing.T, p *memory.Provider, from string) *workspace.Workspace {
	t.Helper()
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: p.Kind(), ID: workspace.NewID(), From: driver.Source{Snapshot: from}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	return ws
}

func write(t *testing.T, ws *workspace.Workspace, name, text string) {
	t.Helper()
	if _, err := ws.WriteFile(t.Context(), name, []byte(text), nil); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, ws *workspace.Workspace, name string) string {
	t.Helper()
	data, err := ws.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func take(t *testing.T, ws *workspace.Workspace) driver.SnapshotInfo {
	t.Helper()
	info, err := ws.Snapshot(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestUndoAlongTheLine goes back and forth, and on from an earlier state, from
// which undo leads to where that came from and not to what was left.
func TestUndoAlongTheLine(t *testing.T) {
	ws := open(t, provider(t), "")
	step := func(text string) {
		write(t, ws, "f", text)
		take(t, ws)
	}
	move := func(do func(context.Context, *workspace.Workspace) (history.Move, error), want string) {
		t.Helper()
		if _, err := do(t.Context(), ws); err != nil {
			t.Fatal(err)
		}
		if got := read(t, ws, "f"); got != want {
			t.Fatalf("it is %q, want %q", got, want)
		}
	}
	none := func(do func(context.Context, *workspace.Workspace) (history.Move, error)) {
		t.Helper()
		if _, err := do(t.Context(), ws); fault.Of(err) != fault.NotFound {
			t.Fatalf("got %v, want %v", err, fault.NotFound)
		}
	}
	step("1")
	step("2")
	step("3")
	none(history.Redo)
	write(t, ws, "f", "4") // that nobody remembered
	move(history.Undo, "3")
	move(history.Undo, "2")
	move(history.Redo, "3")
	move(history.Redo, "4")
	none(history.Redo)
	move(history.Undo, "3")
	move(history.Undo, "2")
	step("5")
	none(history.Redo)
	move(history.Undo, "2")
	move(history.Undo, "1")
	none(history.Undo)
	move(history.Redo, "2")
	move(history.Redo, "5")
}

// TestUndoWithAClockThatIsSetBack goes back in the order of what was done, also
// where the clock said that the last came first.
func TestUndoWithAClockThatIsSetBack(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	ws := open(t, &memory.Provider{Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), &snapshot.Options{Now: func() time.Time { return now }})}, "")
	for _, text := range []string{"1", "2", "3"} {
		write(t, ws, "f", text)
		take(t, ws)
		now = now.Add(-time.Hour)
	}
	for _, want := range []string{"2", "1"} {
		now = now.Add(-time.Hour)
		if _, err := history.Undo(t.Context(), ws); err != nil {
			t.Fatal(err)
		}
		if got := read(t, ws, "f"); got != want {
			t.Errorf("after undo it is %q, want %q", got, want)
		}
	}
	for _, want := range []string{"2", "3"} {
		now = now.Add(-time.Hour)
		if _, err := history.Redo(t.Context(), ws); err != nil {
			t.Fatal(err)
		}
		if got := read(t, ws, "f"); got != want {
			t.Errorf("after redo it is %q, want %q", got, want)
		}
	}
}

func TestCheckpoints(t *testing.T) {
	ws := open(t, provider(t), "")
	points := history.NewCheckpoints(ws, history.Limits{Count: 3})
	step := func(name, text string) (made bool) {
		t.Helper()
		if err := points.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(t, ws, name, text)
		_, ok, err := points.Step(t.Context(), "write "+name+"\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	write(t, ws, "before", "x")
	if !step("a", "1") {
		t.Error("a step that changes something leaves no checkpoint")
	}
	list, err := ws.Snapshots(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 {
		t.Fatalf("there are %d states, want the one before and the one after", len(list))
	}
	if got := list[0].Labels[history.StepLabel]; got != "write a 1" {
		t.Errorf("label %q", got)
	}
	if step("a", "1") {
		t.Error("a step that changes nothing leaves a checkpoint")
	}
	step("a", "2")
	step("a", "3")
	if list, err = ws.Snapshots(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		got = append(got, s.Labels[history.StepLabel])
	}
	if diff := cmp.Diff([]string{"write a 3", "write a 2", "write a 1"}, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if _, err := history.Undo(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	if got := read(t, ws, "a"); got != "2" {
		t.Errorf("after undo it is %q", got)
	}
	old := history.NewCheckpoints(ws, history.Limits{Age: time.Nanosecond})
	if err := old.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, ws, "a", "9")
	if _, _, err := old.Step(t.Context(), "last"); err != nil {
		t.Fatal(err)
	}
	if list, err = ws.Snapshots(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("%d are left that are too old, %v", len(list), err)
	}
}

// TestCheckpointsSpareForks keeps a checkpoint that a fork started from beyond its
// time, and forgets it when nobody needs it any more.
func TestCheckpointsSpareForks(t *testing.T) {
	needed := map[string]bool{}
	ws := open(t, &memory.Provider{Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), &snapshot.Options{
		Needed: func(_ context.Context, id string) (bool, error) { return needed[id], nil },
	})}, "")
	points := history.NewCheckpoints(ws, history.Limits{Count: 2})
	step := func(text string) driver.SnapshotInfo {
		t.Helper()
		if err := points.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(t, ws, "f", text)
		info, _, err := points.Step(t.Context(), "write "+text)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	steps := func(want ...string) {
		t.Helper()
		list, err := ws.Snapshots(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range list {
			got = append(got, s.Labels[history.StepLabel])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	}
	first := step("1")
	needed[first.ID] = true
	step("2")
	step("3")
	step("4")
	steps("write 4", "write 3", "write 1")
	needed[first.ID] = false
	step("5")
	steps("write 5", "write 4")
}

func TestParseLimits(t *testing.T) {
	for text, want := range map[string]history.Limits{
		"":        {Count: history.DefaultCount, Age: history.DefaultAge},
		"7":       {Count: 7, Age: history.DefaultAge},
		"7/1h30m": {Count: 7, Age: 90 * time.Minute},
		"/1h":     {Count: history.DefaultCount, Age: time.Hour},
	} {
		if got, err := history.ParseLimits(text); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "x", "1/x", "1/-1h", "1/2h/3"} {
		if _, err := history.ParseLimits(text); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestApply merges a fork into what it was forked from.
func TestApply(t *testing.T) {
	p := provider(t)
	target := open(t, p, "")
	lines := strings.Split("1 2 3 4 5 6 7 8 9", " ")
	text := func(change map[int]string) string {
		out := slices.Clone(lines)
		for i, s := range change {
			out[i] = s
		}
		return strings.Join(out, "\n") + "\n"
	}
	write(t, target, "numbers", text(nil))
	write(t, target, "gone", "x")
	source := open(t, p, take(t, target).ID)
	write(t, source, "numbers", text(map[int]string{0: "one"}))
	write(t, source, "new", "n")
	if err := source.Remove(t.Context(), "gone", nil); err != nil {
		t.Fatal(err)
	}
	write(t, target, "numbers", text(map[int]string{8: "nine"}))
	dry, err := history.Apply(t.Context(), source, target, &history.ApplyOptions{DryRun: true})
	if err != nil || dry.Done || len(dry.Applied) != 3 {
		t.Fatalf("a dry run is %+v, %v", dry, err)
	}
	res, err := history.Apply(t.Context(), source, target, nil)
	if err != nil || !res.Done {
		t.Fatalf("apply: %+v, %v", res, err)
	}
	if diff := cmp.Diff([]string{"gone", "new", "numbers"}, res.Applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	if got, want := read(t, target, "numbers"), text(map[int]string{0: "one", 8: "nine"}); got != want {
		t.Errorf("merged %q, want %q", got, want)
	}
	if _, err := target.Stat(t.Context(), "gone", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("what was removed: %v", err)
	}
	if _, err := history.Undo(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, target, "numbers"), text(map[int]string{8: "nine"}); got != want {
		t.Errorf("after undo %q, want %q", got, want)
	}
	write(t, target, "numbers", text(map[int]string{0: "eins"}))
	res, err = history.Apply(t.Context(), source, target, nil)
	if err != nil || res.Done || len(res.Conflicts) != 1 {
		t.Errorf("a conflict is %+v, %v", res, err)
	}
	if _, err := target.Stat(t.Context(), "new", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("in spite of a conflict something was written: %v", err)
	}
}

// TestUndoToWhatItStartedFrom goes back from the first change of a fork to what it
// began as, also where that was a state before a rollback in the other workspace,
// and forth again.
func TestUndoToWhatItStartedFrom(t *testing.T) {
	p := provider(t)
	ws := open(t, p, "")
	write(t, ws, "f", "one")
	first := take(t, ws)
	write(t, ws, "f", "two")
	before, err := ws.Rollback(t.Context(), first.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{first.ID: "one", before.ID: "two"} {
		kid := open(t, p, from)
		if _, err := history.Undo(t.Context(), kid); fault.Of(err) != fault.NotFound {
			t.Errorf("undo where nothing changed: %v, want %v", err, fault.NotFound)
		}
		write(t, kid, "f", "mine")
		if _, err := history.Undo(t.Context(), kid); err != nil {
			t.Fatal(err)
		}
		if got := read(t, kid, "f"); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
		if _, err := history.Redo(t.Context(), kid); err != nil {
			t.Fatal(err)
		}
		if got := read(t, kid, "f"); got != "mine" {
			t.Errorf("again it is %q, want mine", got)
		}
	}
}

// TestWhatIsCompared compares a workspace that started empty with a snapshot that a
// user took, not with one that a fork took. If the snapshot that a workspace started from
// is gone, it returns an error instead of a comparison with another one.
func TestWhatIsCompared(t *testing.T) {
	p := provider(t)
	ws := open(t, p, "")
	write(t, ws, "f", "one")
	asked := take(t, ws)
	write(t, ws, "f", "two")
	forked, err := ws.Snapshot(t.Context(), &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: "fork"}})
	if err != nil {
		t.Fatal(err)
	}
	files, err := history.Files(t.Context(), ws, history.Origin, nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := files.Stat(t.Context(), "f", &driver.StatOptions{Digest: true})
	if want := driver.DigestBytes([]byte("one")); err != nil || info.Digest != want {
		t.Errorf("it is compared with %s, %v; want %s, of snapshot %s", info.Digest, err, want, asked.ID)
	}
	kid := open(t, p, forked.ID)
	take(t, kid)
	if err := ws.DeleteSnapshot(t.Context(), forked.ID, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := history.Files(t.Context(), kid, history.Origin, nil); fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), forked.ID) {
		t.Errorf("got %v, want %v that names %s", err, fault.NotFound, forked.ID)
	}
}

// TestPutIsTheBase compares a workspace that started empty with what its owner put
// into it, in several steps with work between them.
func TestPutIsTheBase(t *testing.T) {
	ws := open(t, provider(t), "")
	put := func(files map[string]string) {
		t.Helper()
		err := history.RecordPut(t.Context(), ws, func() error {
			for name, text := range files {
				write(t, ws, name, text)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	changes := func(want ...string) {
		t.Helper()
		base, err := history.Tree(t.Context(), ws, history.Origin, nil)
		if err != nil {
			t.Fatal(err)
		}
		now, err := history.Tree(t.Context(), ws, history.Now, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := snapshot.Diff(t.Context(), base, now, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range d.Changes {
			got = append(got, string(c.Kind)+" "+c.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	}
	put(map[string]string{"a": "1", "b": "1"})
	put(map[string]string{"c": "1"})
	changes()
	write(t, ws, "a", "work")
	if err := ws.Mkdir(t.Context(), "d", nil); err != nil {
		t.Fatal(err)
	}
	write(t, ws, "d/work", "work")
	changes("modified a", "added d", "added d/work")
	if _, err := ws.Snapshot(t.Context(), &driver.SnapshotOptions{Name: "mine", Labels: map[string]string{snapshot.ToolLabel: "true"}}); err != nil {
		t.Fatal(err)
	}
	changes("modified a", "added d", "added d/work") // an agent's snapshot is no base
	put(map[string]string{"d/e": "1", "b": "2"})
	changes("modified a", "added d/work")
	put(map[string]string{"a": "again"})
	changes("added d/work")
}
