package evalcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestGoingOnTakesOverHowARunWasMade resumes with and without flags of its own.
func TestGoingOnTakesOverHowARunWasMade(t *testing.T) {
	made := &eval.RunSettings{Provider: "local", Tools: "default", Record: "/tapes", AllowNet: []string{"host:1"}, NoModelNet: true, Read: []string{"/dir"},
		Limits: workspace.Limits{driver.ResourcePIDs: {Max: 9}}}
	for name, c := range map[string]struct {
		flags []string
		want  eval.RunSettings
	}{
		"no flags": {nil, *made},
		"some": {[]string{"--toolset", "workspace", "--allow-net", "other:2", "--record", "/else"}, eval.RunSettings{Provider: "local", Tools: "workspace", Record: "/else",
			AllowNet: []string{"other:2"}, NoModelNet: true, Read: made.Read, Limits: made.Limits}},
	} {
		t.Run(name, func(t *testing.T) {
			var o runOptions
			f := pflag.NewFlagSet("run", pflag.ContinueOnError)
			o.registerFlags(f)
			if err := f.Parse(c.flags); err != nil {
				t.Fatal(err)
			}
			opts, err := o.evalOptions(f)
			if err != nil {
				t.Fatal(err)
			}
			o.applyResumed(made, opts, f)
			got := eval.RunSettings{Provider: o.env.provider, Tools: o.env.tools, Record: opts.Record, Replay: opts.Replay, AllowNet: opts.AllowNet,
				NoModelNet: opts.NoModelNet, Read: opts.Read, Limits: opts.Limits}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("it differs (-want +got):\n%s", diff)
			}
		})
	}
}
