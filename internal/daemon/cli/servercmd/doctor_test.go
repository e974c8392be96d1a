package servercmd

import (
	"testing"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

func TestVerdict(t *testing.T) {
	limited := client.ProviderInfo{Kind: sandbox.Kind, Traits: &driver.Traits{Limits: driver.NoLimits("no cgroups")}}
	works := func(l driver.Isolation) client.Level { return client.Level{Level: l, Works: true} }
	fails := client.Level{Level: driver.IsolationNamespaces, Reason: "refused; run: x"}
	for _, test := range []struct {
		name       string
		d          client.Diagnosis
		text, next string
	}{
		{"all", client.Diagnosis{Levels: []client.Level{works(driver.IsolationGVisor), works(driver.IsolationNamespaces)}},
			"commands are isolated (namespaces)", "croft run -- echo hello"},
		{"no limits", client.Diagnosis{Levels: []client.Level{works(driver.IsolationNamespaces)}, Providers: []client.ProviderInfo{limited}},
			"commands are isolated (namespaces), but limits of memory, cpu, pids can't be enforced: no cgroups", "croft run -- echo hello"},
		{"as strong", client.Diagnosis{Levels: []client.Level{fails, works(driver.IsolationBubblewrap), works(driver.IsolationProcess)}},
			"commands are isolated (bubblewrap)", "croft run -- echo hello"},
		{"weaker", client.Diagnosis{Levels: []client.Level{fails, works(driver.IsolationProcess)}},
			"the default isolation fails: refused; run: x; isolation process works", "croft run --isolation process -- echo hello"},
		{"nothing", client.Diagnosis{Levels: []client.Level{fails}},
			"nothing isolates commands here, so croft run fails: refused; run: x", "croft doctor   # again, after the remedy above"},
	} {
		if text, next := verdict(test.d); text != test.text || next != test.next {
			t.Errorf("%s: the verdict is %q, next %q; want %q, %q", test.name, text, next, test.text, test.next)
		}
	}
}
