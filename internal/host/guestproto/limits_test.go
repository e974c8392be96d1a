package guestproto

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/workspace/driver"
)

// TestEveryLimitReachesTheGuest follows each resource of the table from croft.yaml,
// through a policy that extends another, to what the guest and its commands get. Each
// limit has a number of its own, so that none can stand for another.
func TestEveryLimitReachesTheGuest(t *testing.T) {
	want, lines := driver.Limits{}, []string{}
	for i, r := range driver.Resources {
		text := map[driver.Unit]string{driver.UnitBytes: "%dK", driver.UnitMillicores: "%dm", driver.UnitNanoseconds: "%dms", driver.UnitCount: "%d"}[r.Unit]
		text = fmt.Sprintf(text, 100+i)
		n, err := config.ParseAmount(r.Unit, text)
		if err != nil || n == 0 {
			t.Fatalf("%s: %q is %d, %v", r.Name, text, n, err)
		}
		want[r.Name] = driver.Limit{Max: n, BestEffort: i%2 == 1}
		lines = append(lines, fmt.Sprintf("%s: {max: %s, bestEffort: %v}", r.Name, text, i%2 == 1))
	}
	half := len(lines) / 2
	cfg, err := config.Parse([]byte(fmt.Sprintf("version: 1\npolicies:\n  base: {limits: {%s}}\n  all: {extends: base, limits: {%s}}\n",
		strings.Join(lines[:half], ", "), strings.Join(lines[half:], ", "))))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := cfg.Policy("all")
	if err != nil {
		t.Fatal(err)
	}
	applied, err := cfg.Apply("base", driver.Policy{Limits: policy.Limits})
	if err != nil {
		t.Fatal(err)
	}
	data, err := (&Config{Limits: policy.Limits}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	sent, err := DecodeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]driver.Limits{
		"the policy": policy.Limits, "a policy over another": applied.Limits, "the guest's configuration": sent.Limits,
		"a command": FromCommand(ToCommand(&driver.Command{Limits: policy.Limits})).Limits,
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the limits of %s differ (-want +got):\n%s", name, diff)
		}
	}
}
