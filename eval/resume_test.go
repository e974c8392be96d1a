package eval

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestHowARunWasMadeIsInItsJournal writes it and reads it back.
func TestHowARunWasMadeIsInItsJournal(t *testing.T) {
	dir := t.TempDir()
	want := &Made{Provider: "sandbox", Isolation: driver.IsolationNamespaces, Tools: "coding", Record: "/tapes", AllowNet: []string{"host:1"}, NoModelNet: true,
		Read: []string{"/dir"}, Limits: driver.Limits{driver.ResourceMemory: {Max: 1 << 20}}}
	j, err := newJournal(dir, journalHeader{Version: journalVersion, Suite: "/s.ts", Config: "/c.ts", Made: want})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	got, err := Resumable(dir)
	if diff := cmp.Diff(&Begun{"/s.ts", "/c.ts", want}, got); diff != "" || err != nil {
		t.Errorf("it differs, %v (-want +got):\n%s", err, diff)
	}
}

func TestARunGoesOnAsItWasBegun(t *testing.T) {
	was := Made{Provider: "sandbox", Tools: "coding", Record: "/tapes"}
	for name, c := range map[string]struct {
		change func(*Made)
		want   fault.Code
	}{
		"the same":          {func(*Made) {}, ""},
		"another network":   {func(m *Made) { m.AllowNet = []string{"more"} }, ""},
		"another provider":  {func(m *Made) { m.Provider = "local" }, fault.InvalidArgument},
		"without its tools": {func(m *Made) { m.Tools = "" }, fault.InvalidArgument},
		"another tape":      {func(m *Made) { m.Record = "/other" }, fault.InvalidArgument},
		"replayed":          {func(m *Made) { m.Record, m.Replay = "", "/tapes" }, fault.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			is := was
			c.change(&is)
			err := is.like(&was)
			if (err == nil) != (c.want == "") || err != nil && fault.Of(err) != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
