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
	want := &RunSettings{Provider: "sandbox", Isolation: driver.IsolationNamespaces, Tools: "default", Record: "/tapes", AllowNet: []string{"host:1"}, NoModelNet: true,
		Read: []string{"/dir"}, Limits: driver.Limits{driver.ResourceMemory: {Max: 1 << 20}}}
	j, err := newJournal(dir, journalHeader{Version: journalVersion, Suite: "/s.ts", Config: "/c.ts", Schedule: Parallel, MaxParallel: 3, Made: want})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	got, err := Resumable(dir)
	if diff := cmp.Diff(&InterruptedRun{"/s.ts", "/c.ts", Parallel, 3, want}, got); diff != "" || err != nil {
		t.Errorf("it differs, %v (-want +got):\n%s", err, diff)
	}
}

func TestARunGoesOnAsItWasBegun(t *testing.T) {
	was := RunSettings{Provider: "sandbox", Tools: "default", Record: "/tapes"}
	for name, c := range map[string]struct {
		change func(*RunSettings)
		want   fault.Code
	}{
		"the same":          {func(*RunSettings) {}, ""},
		"another network":   {func(m *RunSettings) { m.AllowNet = []string{"more"} }, ""},
		"another provider":  {func(m *RunSettings) { m.Provider = "local" }, fault.InvalidArgument},
		"without its tools": {func(m *RunSettings) { m.Tools = "" }, fault.InvalidArgument},
		"another directory": {func(m *RunSettings) { m.Cwd = "/other" }, fault.InvalidArgument},
		"another tape":      {func(m *RunSettings) { m.Record = "/other" }, fault.InvalidArgument},
		"replayed":          {func(m *RunSettings) { m.Record, m.Replay = "", "/tapes" }, fault.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			is := was
			c.change(&is)
			err := is.checkSame(&was)
			if (err == nil) != (c.want == "") || err != nil && fault.Of(err) != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
