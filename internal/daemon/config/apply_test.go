package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

const applied = `version: 1
policies:
  default:
    isolation: process
    idle: 5m
    env: {A: "1", B: "1"}
    limits: {memory: 1G, pids: 10}
    network:
      allow: [{host: a.example}]
      deny: [{host: bad.example}]
env:
  allow: [A, B, "C*"]
  deny: [CRASH]
`

// TestApply proves that a wish changes a policy as one policy changes another.
func TestApply(t *testing.T) {
	c := mustParse(t, applied)
	got, err := c.Apply("", driver.Policy{
		Isolation: driver.IsolationNamespaces, ReadOnly: true, Env: map[string]string{"B": "2", "CD": "3"},
		Limits:  driver.Limits{driver.ResourcePIDs: {Max: 20, BestEffort: true}},
		Network: driver.Network{Allow: []driver.NetRule{{Host: "b.example"}}, Deny: []driver.NetRule{{Host: "c.example"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Policy{
		Isolation: driver.IsolationNamespaces, ReadOnly: true, Idle: 5 * time.Minute, Env: map[string]string{"A": "1", "B": "2", "CD": "3"},
		Limits: driver.Limits{driver.ResourceMemory: {Max: 1 << 30}, driver.ResourcePIDs: {Max: 20, BestEffort: true}},
		Network: driver.Network{
			Allow: []driver.NetRule{{Host: "b.example"}},
			Deny:  []driver.NetRule{{Host: "bad.example"}, {Host: "c.example"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := c.Apply("", driver.Policy{})
	if err != nil || again.Env["B"] != "1" || len(again.Network.Deny) != 1 {
		t.Errorf("a wish changed the configuration itself: %v, %v", again, err)
	}
	for name, wish := range map[string]driver.Policy{
		"open network past a denial": {Network: driver.Network{Open: true}},
		"a variable that is denied":  {Env: map[string]string{"crash": "1"}},
		"one that is not allowed":    {Env: map[string]string{"D": "1"}},
	} {
		if _, err := c.Apply("", wish); err == nil {
			t.Errorf("%s is let through", name)
		}
	}
	if _, err := c.Apply("nope", driver.Policy{}); fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "the policies are default") {
		t.Errorf("an unknown policy: %v", err)
	}
}

// TestFindLeavesOthersFiles proves that a file of another user is refused at a
// default path, and read if it is named.
func TestFindLeavesOthersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: host: only root can give a file away")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, []byte("version: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	none := func(string) string { return "" }
	if got, err := Find("", dir, none); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("Find = %q, %v; want PermissionDenied", got, err)
	}
	if got, err := Find(path, dir, none); err != nil || got != path {
		t.Errorf("Find of a named one = %q, %v", got, err)
	}
}
