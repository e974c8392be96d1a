package evalcmd

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestEveryLimitHasAFlag gives each flag a number of its own, to a workspace and to an
// evaluation.
func TestEveryLimitHasAFlag(t *testing.T) {
	want, args := driver.Limits{}, []string{}
	for i, r := range driver.Resources {
		text := map[driver.Unit]string{driver.UnitBytes: "%dK", driver.UnitMillicores: "%dm", driver.UnitNanoseconds: "%dms", driver.UnitCount: "%d"}[r.Unit]
		text = fmt.Sprintf(text, 100+i)
		n, err := config.ParseAmount(r.Unit, text)
		if err != nil {
			t.Fatal(err)
		}
		want[r.Name] = driver.Limit{Max: n}
		args = append(args, "--"+console.LimitFlagName(r), text)
	}
	var p console.PolicyFlags
	f := pflag.NewFlagSet("open", pflag.ContinueOnError)
	p.RegisterFlags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	var spec workspace.Spec
	if err := p.Apply(&spec, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, spec.Policy.Limits); diff != "" {
		t.Errorf("the limits of the workspace differ (-want +got):\n%s", diff)
	}
	var place envFlags
	f = pflag.NewFlagSet("eval", pflag.ContinueOnError)
	place.registerFlags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	var opts eval.Options
	if err := place.apply(&opts); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, opts.Limits); diff != "" {
		t.Errorf("the limits of the evaluation differ (-want +got):\n%s", diff)
	}
	if err := f.Parse([]string{args[0], "0"}); err != nil {
		t.Fatal(err)
	}
	if got := place.policy.RequestedLimits()[driver.Resources[0].Name]; got.Max != 0 {
		t.Errorf("a limit of 0 is %+v, want none", got)
	}
}
