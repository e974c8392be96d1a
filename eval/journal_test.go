package eval

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
)

func TestJournalGoesOnAfterACrash(t *testing.T) {
	dir := t.TempDir()
	j, err := newJournal(dir, plan{Version: journalVersion, Suite: "s", Cases: []string{"a", "b"}, Runners: []string{"r"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.add(done{"a", "r", &ExecutionResult{Passed: true, Report: session.Empty(session.Runner{}, "p")}}); err != nil {
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
	j, p, err := openJournal(dir, func(d *done, _ span) { cases = append(cases, d.Case) })
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(cases, " ") != "a" || p.Suite != "s" {
		t.Errorf("the journal has %v of %q", cases, p.Suite)
	}
	at, err := j.add(done{"b", "r", &ExecutionResult{}})
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

// TestOneProcessRunsARun: who would go on with a run that is under way is told so, and
// changes nothing.
func TestOneProcessRunsARun(t *testing.T) {
	dir := t.TempDir()
	j, err := newJournal(dir, plan{Version: journalVersion, Suite: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openJournal(dir, func(*done, span) {}); fault.Of(err) != fault.WrongState {
		t.Errorf("a run that is under way is resumed: %v", err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	again, _, err := openJournal(dir, func(*done, span) {})
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
		var p plan
		good, err := readJournal(bytes.NewReader(data), &p, func(d *done, at span) {
			if d.Result == nil || at.at+at.size > int64(len(data)) {
				t.Errorf("a line at %v of %d bytes", at, len(data))
			}
		})
		if err == nil && (good > int64(len(data)) || good > 0 && data[good-1] != '\n') {
			t.Errorf("good up to %d of %d", good, len(data))
		}
	})
}
