package eval

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
)

func TestJournalGoesOnAfterACrash(t *testing.T) {
	dir := t.TempDir()
	j, err := newJournal(dir, journalHeader{Version: journalVersion, Suite: "s", Cases: []string{"a", "b"}, Runners: []string{"r"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.add(journalEntry{"a", "r", &ExecutionResult{Passed: true, Report: session.Empty(session.Runner{}, "p")}}); err != nil {
		t.Fatal(err)
	}
	j.close()
	path := filepath.Join(dir, journalName)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"case":"b","runner":"r","result":{"pas`) // the process died here
	f.Close()
	var cases []string
	j, p, err := openJournal(dir, func(d *journalEntry, _ lineSpan) { cases = append(cases, d.Case) })
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(cases, " ") != "a" || p.Suite != "s" {
		t.Errorf("the journal has %v of %q", cases, p.Suite)
	}
	at, err := j.add(journalEntry{"b", "r", &ExecutionResult{}})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := j.read(at); err != nil || d.Case != "b" {
		t.Errorf("read back %v, %v", d, err)
	}
	j.close()
	data, _ := os.ReadFile(path)
	if n := bytes.Count(data, []byte("\n")); n != 3 {
		t.Errorf("the journal has %d lines, want 3: %s", n, data)
	}
}

// TestJournalHasAReportOnce: what is read is what was written, whatever sessions there
// were, and no report is written twice.
func TestJournalHasAReportOnce(t *testing.T) {
	for name, test := range map[string]struct {
		repeat, retries int
		passes          []bool // of the sessions, one after another
		reports         int
	}{
		"one": {1, 0, []bool{true}, 1}, "one that failed": {1, 0, []bool{false}, 1}, "tried again": {1, 2, []bool{false, false, true}, 3},
		"repeated": {3, 0, []bool{true, true, true}, 3}, "stopped": {3, 1, []bool{true, false, false}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			try := func(_ context.Context, e *execution, dir string) *ExecutionResult {
				r := session.Empty(session.Runner{}, "p")
				r.FinalOutput, r.DurationMs, r.Usage.TotalTokens = "said once", new(float64(n)), new(float64(10*n))
				n++
				return &ExecutionResult{Passed: test.passes[n-1], DurationMs: float64(n), ExecutionDir: dir, ArtifactDir: dir, Report: r}
			}
			want := runRepetitions(t.Context(), &execution{c: &plannedCase{}, runner: &plannedRunner{}}, test.repeat, test.retries, try, nil)
			j, err := newJournal(t.TempDir(), journalHeader{Version: journalVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer j.close()
			at, err := j.add(journalEntry{"c", "r", compactResult(want)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := j.read(at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Result, cmpopts.IgnoreUnexported(ExecutionResult{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("what was read (-want +got):\n%s", diff)
			}
			data, err := os.ReadFile(filepath.Join(j.dir, journalName))
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Count(data, []byte("said once")); got != test.reports {
				t.Errorf("the journal has %d reports, want %d", got, test.reports)
			}
		})
	}
}

// TestOneProcessRunsARun: who would go on with a run that is under way is told so, and
// changes nothing.
//
//croft:slow-race
func TestOneProcessRunsARun(t *testing.T) {
	dir := t.TempDir()
	j, err := newJournal(dir, journalHeader{Version: journalVersion, Suite: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openJournal(dir, func(*journalEntry, lineSpan) {}); fault.Of(err) != fault.WrongState {
		t.Errorf("a run that is under way is resumed: %v", err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	again, _, err := openJournal(dir, func(*journalEntry, lineSpan) {})
	if err != nil {
		t.Fatal(err)
	}
	again.close()
}

func TestWhatIsNoRunIsNotResumed(t *testing.T) {
	if _, _, err := openJournal(t.TempDir(), nil); err == nil {
		t.Error("an empty directory is resumed")
	}
}

func FuzzReadJournal(f *testing.F) {
	f.Add([]byte("{\"version\":1}\n{\"case\":\"a\",\"runner\":\"r\",\"result\":{}}\n{"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p journalHeader
		good, err := readJournal(bytes.NewReader(data), &p, func(d *journalEntry, at lineSpan) {
			if d.Result == nil || at.at+at.size > int64(len(data)) {
				t.Errorf("a line at %v of %d bytes", at, len(data))
			}
		})
		if err == nil && (good > int64(len(data)) || good > 0 && data[good-1] != '\n') {
			t.Errorf("good up to %d of %d", good, len(data))
		}
	})
}
