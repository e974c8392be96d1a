package driver

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

func ceilingPolicy() Policy {
	p := Policy{
		Isolation: IsolationNamespaces, Limits: Limits{}, Env: map[string]string{"CI": "1"}, ReadOnly: true,
		Network: Network{
			Allow: []NetRule{
				{Host: "*.example.com", Methods: []string{"GET"}}, {Host: "api.example.com", Ports: []int{443, 8443}, Credential: "key"},
				{Host: "10.1.0.0/16", Ports: []int{22}}, {Host: "intranet", Private: true},
			},
			Deny: []NetRule{{Host: "bad.example.com"}},
		},
	}
	for _, r := range Resources {
		p.Limits[r.Name] = Limit{Max: 1000}
	}
	return p
}

// TestWithinRefuses: a policy above its ceiling is refused, with the field, what was
// asked for, and the ceiling.
func TestWithinRefuses(t *testing.T) {
	allow := func(rules ...NetRule) func(*Policy) {
		return func(p *Policy) { p.Network.Allow = rules }
	}
	tests := map[string]struct {
		raise func(*Policy)
		want  []string
	}{
		"isolation":             {func(p *Policy) { p.Isolation = IsolationProcess }, []string{"isolation", "process", "namespaces"}},
		"open network":          {func(p *Policy) { p.Network = Network{Open: true} }, []string{"network", "open", "*.example.com"}},
		"a host":                {allow(NetRule{Host: "*.com", Methods: []string{"GET"}}), []string{"network", "*.com", "*.example.com"}},
		"every host":            {allow(NetRule{Host: "*", Methods: []string{"GET"}}), []string{`"*"`}},
		"the name of a suffix":  {allow(NetRule{Host: "example.com", Methods: []string{"GET"}}), []string{"example.com"}},
		"a suffix of letters":   {allow(NetRule{Host: "evilexample.com", Methods: []string{"GET"}}), []string{"evilexample.com"}},
		"a port":                {allow(NetRule{Host: "api.example.com", Ports: []int{443, 22}}), []string{"[22]", "[443 8443]"}},
		"default ports":         {allow(NetRule{Host: "api.example.com"}), []string{"[80]"}},
		"methods":               {allow(NetRule{Host: "a.example.com", Methods: []string{"GET", "POST"}}), []string{"POST"}},
		"all methods":           {allow(NetRule{Host: "a.example.com"}), []string{"a.example.com"}},
		"private addresses":     {allow(NetRule{Host: "a.example.com", Methods: []string{"GET"}, Private: true}), []string{"private"}},
		"a range of addresses":  {allow(NetRule{Host: "10.0.0.0/8", Ports: []int{22}}), []string{"10.0.0.0/8", "10.1.0.0/16"}},
		"an address":            {allow(NetRule{Host: "10.2.0.1", Ports: []int{22}}), []string{"10.2.0.1"}},
		"a secret":              {allow(NetRule{Host: "api.example.com", Ports: []int{443}, Credential: "other"}), []string{"other", "key"}},
		"a secret elsewhere":    {allow(NetRule{Host: "a.example.com", Methods: []string{"GET"}, Credential: "key"}), []string{"key"}},
		"without the denial":    {func(p *Policy) { p.Network.Deny = nil }, []string{"bad.example.com"}},
		"a variable":            {func(p *Policy) { p.Env = map[string]string{"CI": "0"} }, []string{"env CI", `"0"`, `"1"`}},
		"writable":              {func(p *Policy) { p.ReadOnly = false }, []string{"read-only"}},
		"a level that is weak":  {func(p *Policy) { p.Isolation = "weak" }, []string{"isolation"}},
		"a mapped IPv4 address": {allow(NetRule{Host: "::ffff:10.2.0.1", Ports: []int{22}}), []string{"10.2.0.1"}},
	}
	for _, r := range Resources {
		tests["more "+string(r.Name)] = struct {
			raise func(*Policy)
			want  []string
		}{func(p *Policy) { p.Limits[r.Name] = Limit{Max: 1001} }, []string{"limit " + string(r.Name)}}
		tests["no limit of "+string(r.Name)] = struct {
			raise func(*Policy)
			want  []string
		}{func(p *Policy) { delete(p.Limits, r.Name) }, []string{"limit " + string(r.Name), "no limit"}}
		tests["best-effort "+string(r.Name)] = struct {
			raise func(*Policy)
			want  []string
		}{func(p *Policy) { p.Limits[r.Name] = Limit{Max: 1, BestEffort: true} }, []string{"limit " + string(r.Name), "best-effort"}}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := ceilingPolicy()
			tt.raise(&p)
			err := p.Within(ceilingPolicy())
			if fault.Of(err) != fault.PermissionDenied {
				t.Fatalf("error %v, want PermissionDenied", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
	if err := (Policy{Isolation: IsolationProcess}).Within(Policy{}); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("a weaker level than the default: %v", err)
	}
}

// TestWithinAccepts: less than the ceiling is accepted.
func TestWithinAccepts(t *testing.T) {
	for name, lower := range map[string]func(*Policy){
		"the same":       func(*Policy) {},
		"stronger":       func(p *Policy) { p.Isolation = IsolationGVisor },
		"as strong":      func(p *Policy) { p.Isolation = IsolationContainer },
		"no network":     func(p *Policy) { p.Network = Network{} },
		"smaller limits": func(p *Policy) { p.Limits[ResourceMemory] = Limit{Max: 1} },
		"more variables": func(p *Policy) { p.Env["A"] = "b" },
		"fewer hosts": func(p *Policy) {
			p.Network.Allow = []NetRule{
				{Host: "*.a.EXAMPLE.com.", Methods: []string{"get"}}, {Host: "api.example.com", Ports: []int{8443}},
				{Host: "10.1.2.0/24", Ports: []int{22}}, {Host: "10.1.2.3", Ports: []int{22}}, {Host: "intranet"},
			}
		},
	} {
		p := ceilingPolicy()
		lower(&p)
		if err := p.Within(ceilingPolicy()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := ceilingPolicy()
	for name, ceiling := range map[string]Policy{
		"no ceiling of isolation":   {Isolation: IsolationNone, Network: p.Network},
		"a ceiling of open network": {Network: Network{Open: true}},
	} {
		if err := (Policy{Isolation: IsolationNamespaces, Network: p.Network}).Within(ceiling); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
