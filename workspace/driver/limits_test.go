package driver

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

// everyLimit sets each resource to a number that no other one has.
func everyLimit() Limits {
	limits := Limits{}
	for i, r := range Resources {
		limits[r.Name] = Limit{Max: int64(i + 1), BestEffort: i%2 == 0}
	}
	return limits
}

func TestResourcesAreDescribedOnce(t *testing.T) {
	seen := map[Resource]bool{}
	for _, r := range Resources {
		if r.Name == "" || r.Unit == "" || r.Doc == "" || r.Beyond == "" || seen[r.Name] {
			t.Errorf("row %+v says too little, or its name is there twice", r)
		}
		seen[r.Name] = true
	}
}

// TestLimitsArePairedByName asks for one limit at a time, of traits that enforce all
// limits but that one, and of traits that enforce that one alone.
func TestLimitsArePairedByName(t *testing.T) {
	for _, r := range Resources {
		asked := Policy{Limits: Limits{r.Name: {Max: 1}}}
		others := LimitTraits{}
		for _, o := range Resources {
			if o.Name != r.Name {
				others[o.Name] = Enforcement{By: "test"}
			}
		}
		err := asked.Check(Traits{Limits: others})
		if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "limit "+string(r.Name)+":") {
			t.Errorf("%s, which alone is not enforced, gives %v, want Unsupported with its name", r.Name, err)
		}
		if err := asked.Check(Traits{Limits: LimitTraits{r.Name: {By: "test"}}}); err != nil {
			t.Errorf("%s, which alone is enforced, gives %v", r.Name, err)
		}
		asked.Limits[r.Name] = Limit{Max: 1, BestEffort: true}
		if err := asked.Check(Traits{}); err != nil {
			t.Errorf("%s as best effort gives %v", r.Name, err)
		}
	}
	err := Policy{Limits: Limits{"patience": {Max: 1, BestEffort: true}}}.Check(Traits{})
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), ResourceNames()) {
		t.Errorf("an unknown resource gives %v, want InvalidArgument with the names that are allowed", err)
	}
}

func TestLimitsInJSON(t *testing.T) {
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"no limits", Policy{}, `{}`},
		{"limits of 0", Policy{Limits: Limits{ResourceCPU: {BestEffort: true}}}, `{}`},
		{"limits", Policy{Limits: Limits{ResourceMemory: {Max: 5}, ResourceOpenFiles: {Max: 7, BestEffort: true}, ResourceCPU: {}}},
			`{"limits":{"memory":{"max":5},"openFiles":{"max":7,"bestEffort":true}}}`},
		{"nil", Limits(nil), `{}`},
	} {
		if got, err := json.Marshal(c.v); err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	var traits map[string]map[string]string
	data, err := json.Marshal(LimitTraits{ResourceDisk: {By: "quota"}, ResourceWall: {Reason: "why"}})
	if err == nil {
		err = json.Unmarshal(data, &traits)
	}
	if err != nil || traits["disk"]["by"] != "quota" || traits["wall"]["reason"] != "why" || len(traits) != len(Resources) {
		t.Errorf("traits are %s, %v, want every resource", data, err)
	}
	data, err = json.Marshal(Policy{Limits: everyLimit()})
	if err != nil {
		t.Fatal(err)
	}
	var back Policy
	if err := DecodeStrict(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(everyLimit(), back.Limits); diff != "" {
		t.Errorf("limits after JSON differ (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		`{"limits":{"memroy":{"max":1}}}`:                    `unknown key "limits.memroy"; allowed are cpu, disk, `,
		`{"limits":{"Memory":{"max":1}}}`:                    `unknown key "limits.Memory"`,
		`{"limits":{"cpu":{"most":1}}}`:                      `unknown key "limits.cpu.most"; allowed are bestEffort, max`,
		`{"limits":{"cpu":{"max":1},"cpu":{"max":2}}}`:       `key "limits.cpu" appears twice`,
		`{"limits":{"cpu":{"max":"1"}}}`:                     `must be an integer`,
		`{"limits":{"cpu":{"max":1,"bestEffort":"please"}}}`: `must be a boolean`,
	} {
		if err := DecodeStrict([]byte(text), new(Policy)); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestLimitsAreLaidOverOthers(t *testing.T) {
	below, over := Limits{ResourceCPU: {Max: 1}, ResourceDisk: {Max: 2}}, Limits{ResourceDisk: {Max: 3}, ResourceCPU: {}}
	want := Limits{ResourceCPU: {Max: 1}, ResourceDisk: {Max: 3}}
	if diff := cmp.Diff(want, below.With(over)); diff != "" {
		t.Errorf("it differs (-want +got):\n%s", diff)
	}
	if below[ResourceDisk].Max != 2 || over[ResourceDisk].Max != 3 {
		t.Errorf("With changed what it was given: %v and %v", below, over)
	}
	if got := (Limits{ResourceCPU: {}}).With(Limits{}); got != nil {
		t.Errorf("limits of 0 give %v, want nil", got)
	}
}

func TestPoliciesAreEqualInWhatTheyAskFor(t *testing.T) {
	none := Policy{Limits: Limits{ResourceCPU: {}}}
	if !none.Equal(Policy{}) || !(Policy{}).Equal(none) {
		t.Error("a limit of 0 differs from none")
	}
	for _, r := range Resources {
		a, b := Policy{Limits: Limits{r.Name: {Max: 1}}}, Policy{Limits: Limits{r.Name: {Max: 2}}}
		if a.Equal(b) || a.Equal(Policy{}) || !a.Equal(Policy{Limits: Limits{r.Name: {Max: 1}}}) {
			t.Errorf("limit %s is not compared", r.Name)
		}
	}
	if (Policy{Env: map[string]string{"A": "b"}}).Equal(Policy{}) {
		t.Error("env is not compared")
	}
}
