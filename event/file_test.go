package event

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
)

// TestMain lets the test binary be a second process that writes to a file.
func TestMain(m *testing.M) {
	if path := os.Getenv("EVENT_TEST_WRITER"); path != "" {
		f, err := OpenFile(path, &FileOptions{MaxSize: 20_000, Keep: 100, Sync: SyncNone})
		if err != nil {
			panic(err)
		}
		s := NewStream(f)
		for range 500 {
			s.Emit(Event{Kind: Operation, Workspace: os.Getenv("EVENT_TEST_NAME"), Fields: map[string]any{FieldMessage: strings.Repeat("x", 200)}})
		}
		if err := errors.Join(f.Err(), f.Close()); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

func openFile(t *testing.T, path string, opts *FileOptions) *File {
	t.Helper()
	f, err := OpenFile(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// readAll returns the events at path and the lines that are none.
func readAll(t *testing.T, path string) (events []Event, bad []*LineError) {
	t.Helper()
	for e, err := range ReadFiles(path) {
		var le *LineError
		switch {
		case errors.As(err, &le):
			bad = append(bad, le)
		case err != nil:
			t.Fatal(err)
		default:
			events = append(events, e)
		}
	}
	return events, bad
}

func sequences(events []Event) (list []uint64) {
	for _, e := range events {
		list = append(list, e.Sequence)
	}
	return list
}

func TestFileKeepsWhatWasEmitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	for _, sync := range Syncs {
		f := openFile(t, path, &FileOptions{Sync: sync})
		last, err := LastSequence(path)
		if err != nil {
			t.Fatal(err)
		}
		s := NewStream(f)
		s.Continue(last)
		s.Emit(NewSandboxViolation("w1", "s1", Violation{Tool: "read", Path: "../x", Err: fault.SandboxViolation}))
		s.Emit(Event{Kind: Operation, Fields: map[string]any{FieldBytesIn: int64(1) << 60}})
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		s.Emit(Event{Kind: Operation}) // after Close: left out, and no panic
	}
	events, bad := readAll(t, path)
	if len(bad) > 0 {
		t.Errorf("bad lines: %v", bad)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6}, sequences(events)); diff != "" {
		t.Errorf("sequences differ (-want +got):\n%s", diff)
	}
	if got := events[1].Fields[FieldBytesIn]; got != int64(1)<<60 {
		t.Errorf("a large number came back as %v (%T)", got, got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("the file has mode %v, want 0600", got)
	}
}

func TestOpenFileTightensTheMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	openFile(t, path, nil)
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, want 0600", info.Mode())
	}
}

func TestOpenFileRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink("target", link)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		opts FileOptions
		want fault.Code
	}{
		{fifo, FileOptions{}, fault.InvalidArgument},
		{link, FileOptions{}, fault.InvalidArgument},
		{dir, FileOptions{}, fault.InvalidArgument},
		{filepath.Join(dir, "no", "e"), FileOptions{}, fault.NotFound},
		{filepath.Join(dir, "e"), FileOptions{Sync: "sometimes"}, fault.InvalidArgument},
		{filepath.Join(dir, "e"), FileOptions{MaxSize: -1}, fault.InvalidArgument},
		{filepath.Join(dir, "e"), FileOptions{Keep: -1}, fault.InvalidArgument},
	}
	for _, tt := range tests {
		if _, err := OpenFile(tt.path, &tt.opts); fault.Of(err) != tt.want {
			t.Errorf("OpenFile(%s, %+v) = %v, want %s", tt.path, tt.opts, err, tt.want)
		}
	}
}

func TestTornLineIsReportedAndSpoilsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	f := openFile(t, path, nil)
	s := NewStream(f)
	s.Emit(Event{Kind: Operation})
	tear := func() {
		t.Helper()
		w, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := w.WriteString(`{"event":"workspace.oper`); err != nil {
			t.Fatal(err)
		}
	}
	tear()
	events, bad := readAll(t, path)
	if len(events) != 1 || len(bad) != 1 || !bad[0].Torn || bad[0].Line != 2 || fault.Of(bad[0]) != fault.InvalidArgument {
		t.Fatalf("got %d events and %v, want one event and a torn line 2", len(events), bad)
	}
	s.Emit(Event{Kind: Operation}) // the same handle finds the tear
	tear()
	s2 := NewStream(openFile(t, path, nil)) // and so does one opened after a crash
	s2.Continue(2)
	s2.Emit(Event{Kind: Operation})
	events, bad = readAll(t, path)
	if diff := cmp.Diff([]uint64{1, 2, 3}, sequences(events)); diff != "" {
		t.Errorf("sequences differ (-want +got):\n%s", diff)
	}
	if len(bad) != 2 || bad[0].Torn || bad[1].Torn {
		t.Errorf("bad lines are %v, want two in the middle", bad)
	}
}

func TestFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	f := openFile(t, path, &FileOptions{MaxSize: 1000, Keep: 3})
	s := NewStream(f)
	for range 100 {
		s.Emit(Event{Kind: Operation, Workspace: "w"})
	}
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 4 {
		t.Errorf("files are %v, want 4", names)
	}
	for _, name := range names {
		if info, _ := os.Stat(name); info.Size() > 1000 {
			t.Errorf("%s has %d bytes, want at most 1000", name, info.Size())
		}
	}
	events, bad := readAll(t, path)
	if len(events) < 30 || len(bad) > 0 {
		t.Fatalf("got %d events, %v", len(events), bad)
	}
	for i, e := range events { // the latest, oldest first, without a gap
		if want := uint64(100 - len(events) + 1 + i); e.Sequence != want {
			t.Fatalf("event %d has sequence %d, want %d", i, e.Sequence, want)
		}
	}
	if last, err := LastSequence(path); err != nil || last != 100 {
		t.Errorf("LastSequence = %d, %v; want 100", last, err)
	}
}

func TestFileIsMadeAnewWhenRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	s := NewStream(openFile(t, path, nil))
	s.Emit(Event{Kind: Operation})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.Emit(Event{Kind: Operation})
	if events, _ := readAll(t, path); len(events) != 1 || events[0].Sequence != 2 {
		t.Errorf("got %v, want event 2", events)
	}
}

func TestFileTellsWhatItLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	path := filepath.Join(dir, "e")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var told []error
	f := openFile(t, path, &FileOptions{OnError: func(err error) { told = append(told, err) }})
	s := NewStream(f)
	s.Emit(Event{Kind: Operation})
	away := dir + "-away"
	if err := os.Rename(dir, away); err != nil { // as if the file system had gone
		t.Fatal(err)
	}
	s.Emit(Event{Kind: Operation})
	s.Emit(Event{Kind: Operation})
	if f.Err() == nil || len(told) != 1 || fault.Of(told[0]) != fault.NotFound {
		t.Errorf("Err() = %v and %v was told, want one NotFound", f.Err(), told)
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	s.Emit(Event{Kind: Operation})
	s.Emit(Event{Kind: Operation})
	if err := f.Err(); err != nil {
		t.Errorf("Err() = %v after a write that succeeded", err)
	}
	events, bad := readAll(t, path)
	if diff := cmp.Diff([]uint64{1, 3, 4, 5}, sequences(events)); diff != "" || len(bad) > 0 {
		t.Fatalf("sequences differ (-want +got):\n%s%v", diff, bad)
	}
	want := map[string]any{FieldReason: DropWrite, FieldCount: int64(2), FieldFirst: int64(2)}
	if diff := cmp.Diff(want, events[1].Fields); diff != "" || events[1].Kind != Dropped {
		t.Errorf("%s differs (-want +got):\n%s", events[1].Kind, diff)
	}
}

func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("skipped: host: it has no /dev/full")
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "e")
	f := openFile(t, path, &FileOptions{Sync: SyncNone})
	f.mu.Lock()
	real := f.f
	f.f = full // the path is still the same file, as on a disk that is full
	f.mu.Unlock()
	f.Emit(Event{Kind: Operation, Sequence: 1})
	if got := fault.Of(f.Err()); got != fault.ResourceExhausted {
		t.Errorf("Err() = %v, want ResourceExhausted", f.Err())
	}
	f.mu.Lock()
	f.f = real
	f.mu.Unlock()
	full.Close()
	f.Emit(Event{Kind: Operation, Sequence: 2})
	events, _ := readAll(t, path)
	if len(events) != 2 || events[0].Kind != Dropped || events[1].Sequence != 2 {
		t.Errorf("got %v, want a dropped event and event 2", events)
	}
}

func TestProcessesShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	const writers = 4
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "EVENT_TEST_WRITER="+path, fmt.Sprintf("EVENT_TEST_NAME=w%d", i))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %d: %v\n%s", i, err, out)
			}
		})
	}
	wg.Wait()
	events, bad := readAll(t, path)
	if len(bad) > 0 {
		t.Errorf("%d bad lines, such as %v", len(bad), bad[0])
	}
	seen := map[string]int{}
	for _, e := range events {
		seen[e.Workspace]++
	}
	for i := range writers {
		if got := seen[fmt.Sprintf("w%d", i)]; got != 500 {
			t.Errorf("writer %d: %d events in the files, want 500", i, got)
		}
	}
	// While one of them is about to rotate, the others fill the file beyond its size:
	// how many files there are is a matter of chance, but for the first.
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Errorf("nobody rotated: %v", err)
	}
}

func TestKilledWriterLosesNothingEmitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EVENT_TEST_WRITER="+path, "EVENT_TEST_NAME=w")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) { // until it has begun
		if events, _ := readAll(t, path); len(events) > 20 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the writer does not begin: %v, %v", cmd.Process.Kill(), cmd.Wait())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed, or had just ended
	events, bad := readAll(t, path)
	for i, e := range events {
		if e.Sequence != uint64(i+1) {
			t.Fatalf("event %d has sequence %d", i, e.Sequence)
		}
	}
	for _, b := range bad {
		if !b.Torn {
			t.Errorf("%v, which is not the last line", b)
		}
	}
}

func TestConcurrentEmitters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	f := openFile(t, path, &FileOptions{MaxSize: 5000, Keep: 1000})
	s := NewStream(f)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				s.Emit(Event{Kind: Operation})
				f.Emit(Event{Kind: Operation}) // without a stream above it, too
			}
		})
	}
	wg.Wait()
	if events, bad := readAll(t, path); len(events) != 800 || len(bad) > 0 {
		t.Errorf("got %d events and %v, want 800", len(events), bad)
	}
}

func TestIntervalSync(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "e"), nil)
	f.Emit(Event{Kind: Operation})
	f.syncUnlocked()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dirty || f.failed != nil {
		t.Errorf("dirty = %v, failed = %v after a sync", f.dirty, f.failed)
	}
}

func BenchmarkFileEmit(b *testing.B) {
	f, err := OpenFile(filepath.Join(b.TempDir(), "e"), &FileOptions{Sync: SyncInterval})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	s := NewStream(f)
	fields := map[string]any{FieldVerb: "read", FieldPath: "a/b/c.txt", FieldDuration: int64(3)}
	for b.Loop() {
		s.Emit(Event{Kind: Operation, Workspace: "abcdefghij0123456789", Fields: fields, Time: time.Unix(1, 0)})
	}
}

// TestAttackEventFlood fills the files with events after a violation, and with violations of
// one workspace after that of another.
func TestAttackEventFlood(t *testing.T) {
	testenv.ReportAttack(t, "flood of events that evicts violations", "audit stream", testenv.Prevented, "")
	path := filepath.Join(t.TempDir(), "events.jsonl")
	f, err := OpenFile(path, &FileOptions{MaxSize: 4 << 10, Keep: 1, Sync: SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	s := NewStream(f)
	violation := func(workspace string) {
		s.Emit(NewSandboxViolation(workspace, "", Violation{Path: "/etc/shadow", Err: fault.SandboxViolation}))
	}
	s.Emit(Event{Kind: Operation, Workspace: "first"})
	violation("victim")
	for range 1000 {
		s.Emit(Event{Kind: EgressRequest, Workspace: "hostile"})
	}
	for range 3 * maxKept {
		violation("hostile")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	found, last, violations := 0, uint64(0), 0
	for e, err := range ReadFiles(path) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Sequence <= last {
			t.Fatalf("sequence %d after %d", e.Sequence, last)
		}
		last = e.Sequence
		if e.Kind == SandboxViolation {
			violations++
		}
		if e.Kind == SandboxViolation && e.Workspace == "victim" {
			found++
		}
	}
	if found != 1 || violations < maxKept || last != 2+1000+3*maxKept {
		t.Errorf("the violation was found %d times among %d, the last event is %d", found, violations, last)
	}
}

// TestReadWorkspace reads the events of one workspace, from the rotated and the kept files
// as well. An id in another field is no match.
func TestReadWorkspace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	f := openFile(t, path, &FileOptions{MaxSize: 20 << 10, Keep: 100})
	s := NewStream(f)
	for range 300 {
		s.Emit(Event{Kind: Operation, Workspace: "mine", Fields: map[string]any{FieldCommand: "cat of other"}})
		s.Emit(Event{Kind: Operation, Workspace: "other", Fields: map[string]any{FieldCommand: "cat of mine"}})
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var want []Event
	all, _ := readAll(t, path)
	for _, e := range all {
		if e.Workspace == "mine" {
			want = append(want, e)
		}
	}
	var got []Event
	for e, err := range ReadWorkspace(path, "mine") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 300 {
		t.Errorf("%d events (-want +got):\n%s", len(got), diff)
	}
}
