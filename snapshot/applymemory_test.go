package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// TestApplyMemory: what an apply holds when it has prepared everything is bounded for each file:
// an agent that makes very many would end the program of the user.
//
//croft:slow
func TestApplyMemory(t *testing.T) {
	const files, most = 20_000, 900 // bytes for each file: its node takes 208
	from, to := t.TempDir(), t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(from, fmt.Sprintf("%05d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	live := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools hold is gone
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, held := live(), 0
	ctx := driver.WithSteps(t.Context(), func(step string) {
		if step == "journal" {
			held = (live() - before) / files
		}
	})
	res, err := Apply(ctx, Empty, HostDir(from, nil), to, &ApplyOptions{Undo: Open(Dir(t.TempDir()), nil), Journals: t.TempDir()})
	if err != nil || len(res.Applied) != files {
		t.Fatalf("%v, %v", res, err)
	}
	t.Logf("%d bytes for each file", held)
	if held == 0 || held > most {
		t.Errorf("an apply holds %d bytes for each file, want at most %d", held, most)
	}
}

// TestJournalInSteps: a journal that is written step by step is the same as one that is encoded
// at once.
func TestJournalInSteps(t *testing.T) {
	for _, j := range []stageJournal{
		{Dir: "/d"},
		{Dir: `/a "ops":null b`, Above: "/a", Ops: []op{}, Undo: "u"},
		{Dir: "/d", Ops: []op{{Path: []byte("a\xff"), Temp: "1", Ino: 7, Before: nothing}, {Path: []byte("b"), Remove: true}}, Undo: "u"},
	} {
		want, err := encodeJournal(j)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := j.writeTo(&got); err != nil || got.String() != string(want) {
			t.Errorf("%v:\n%s, want\n%s", err, got.String(), want)
		}
	}
}
