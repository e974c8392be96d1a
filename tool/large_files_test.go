package tool_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestEditsThatExplode: each occurrence of a short text becomes a long one, and a
// few such edits of a small file would take all memory.
//
//croft:slow
func TestEditsThatExplode(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "f", strings.Repeat("a", 5000)+"\n")
	ok(t, env, "Read", `{"file_path":"f"}`)
	refused(t, env, "Edit", fmt.Sprintf(`{"file_path":"f","old_string":"a","new_string":%q,"replace_all":true}`, strings.Repeat("b", 20_000)), fault.ResourceExhausted)
	tenfold := `{"old_string":"a","new_string":"aaaaaaaaaa","replace_all":true}`
	refused(t, env, "MultiEdit", `{"file_path":"f","edits":[`+strings.Repeat(tenfold+",", 20)+tenfold+`]}`, fault.ResourceExhausted)
	ok(t, env, "MultiEdit", `{"file_path":"f","edits":[`+tenfold+`]}`)
	edits := []driver.Edit{}
	for range 20 {
		edits = append(edits, driver.Edit{Old: "a", New: "aaaaaaaaaa", All: true})
	}
	if _, _, err := driver.ApplyEdits([]byte("aaaa"), edits); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("ApplyEdits: %v, want %v", err, fault.ResourceExhausted)
	}
}

// TestFilesOfOddShape: a line without end and lines without number are no reason to
// hold all of them.
func TestFilesOfOddShape(t *testing.T) {
	env := coding(t, "w")
	ws, err := env.Workspaces.Get(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, body io.Reader) {
		t.Helper()
		if _, err := ws.Write(t.Context(), name, body, nil); err != nil {
			t.Fatal(err)
		}
	}
	write("line", io.LimitReader(endless("a"), 40<<20))
	if got, want := refused(t, env, "Read", `{"file_path":"line"}`, fault.ResourceExhausted), "read: line 1 of line has more than 16777216 bytes"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	write("lines", io.LimitReader(endless("\n"), 3<<20))
	if got, want := ok(t, env, "Read", `{"file_path":"lines","limit":1}`), "1\t\n... (3145727 more lines; Read with offset=2 shows them)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// What was read of it counts all the same.
	ok(t, env, "Read", `{"file_path":"lines","limit":1,"offset":3145728}`)
	write("lines", io.LimitReader(endless("\n"), 3<<20+1))
	if got, want := refused(t, env, "Edit", `{"file_path":"lines","old_string":"\n","new_string":"x"}`, fault.Conflict), "refusing to edit lines: it changed since it was read; Read it again\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	refused(t, env, "apply_patch", `{"patch":"--- a/lines\n+++ b/lines\n@@ -1,1 +1,1 @@\n-\n+x\n"}`, fault.ResourceExhausted)
}

type endless string

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e[0]
	}
	return len(p), nil
}
