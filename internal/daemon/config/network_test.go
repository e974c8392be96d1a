package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func loadText(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func allow(hosts ...string) driver.Policy {
	var p driver.Policy
	for _, h := range hosts {
		p.Network.Allow = append(p.Network.Allow, driver.NetRule{Host: h})
	}
	return p
}

func hostsOf(p driver.Policy) []string {
	var hosts []string
	for _, r := range p.Network.Allow {
		hosts = append(hosts, r.Host)
	}
	return hosts
}

func TestNamedRulesOfRegistries(t *testing.T) {
	for name, want := range map[string][]string{
		"@npm":   {"registry.npmjs.org", "registry.yarnpkg.com"},
		"@pypi":  {"pypi.org", "files.pythonhosted.org"},
		"@go":    {"proxy.golang.org", "sum.golang.org"},
		"@cargo": {"index.crates.io", "static.crates.io", "crates.io"},
	} {
		p, err := Default().Apply("", allow("example.com", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]string{"example.com"}, want...), hostsOf(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUnknownNamedRuleListsTheKnown(t *testing.T) {
	c := loadText(t, "version: 1\nnetwork: {rules: {ours: [git.example.com]}}\n")
	_, err := c.Apply("", allow("@nmp"))
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "@cargo, @go, @npm, @ours, @pypi") || !strings.Contains(err.Error(), "did you mean @npm") {
		t.Errorf("got %v", err)
	}
	if _, err := Parse([]byte("version: 1\npolicies: {default: {network: {allow: ['@nmp']}}}\n")); err == nil || !strings.Contains(err.Error(), "@npm") {
		t.Errorf("a file with an unknown named rule: %v", err)
	}
}

func TestNamedRulesOfTheFile(t *testing.T) {
	c := loadText(t, `version: 1
network:
  rules:
    npm: ["npm.example.com:8443"]
    ours: [{host: git.example.com, ports: [22], private: true}]
policies:
  default: {network: {allow: ["@npm", "@ours", api.example.com]}}
`)
	p, err := c.Policy("")
	if err != nil {
		t.Fatal(err)
	}
	want := []driver.NetRule{
		{Host: "registry.npmjs.org"}, {Host: "registry.yarnpkg.com"}, {Host: "npm.example.com", Ports: []int{8443}},
		{Host: "git.example.com", Ports: []int{22}, Private: true}, {Host: "api.example.com"},
	}
	if diff := cmp.Diff(want, p.Network.Allow); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A client of a server may ask for a part of what the policy allows.
	if _, err := c.ApplyWithin("", allow("@npm")); err != nil {
		t.Errorf("a part of the policy: %v", err)
	}
	if _, err := c.ApplyWithin("", allow("@pypi")); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("more than the policy: got %v", err)
	}
}

func TestMirrors(t *testing.T) {
	c := loadText(t, `version: 1
network:
  mirrors:
    npm: https://mirror.example.com:8443/npm/
    go: https://10.0.0.5/go
`)
	p, err := c.Apply("", allow("@npm", "@go"))
	if err != nil {
		t.Fatal(err)
	}
	want := []driver.NetRule{{Host: "mirror.example.com", Ports: []int{8443}, Private: true}, {Host: "10.0.0.5"}}
	if diff := cmp.Diff(want, p.Network.Allow); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	env := map[string]string{"npm_config_registry": "https://mirror.example.com:8443/npm/", "GOPROXY": "https://10.0.0.5/go"}
	if diff := cmp.Diff(env, p.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	wish := allow("@npm")
	wish.Env = map[string]string{"npm_config_registry": "https://other.example.com"}
	if p, err = c.Apply("", wish); err != nil || p.Env["npm_config_registry"] != "https://other.example.com" {
		t.Errorf("a variable of the caller: got %v, %v", p.Env, err)
	}
}

func TestNetworkSettingsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"rules: {'a b': [x.example.com]}":                               "a name has",
		"rules: {a: ['@npm']}":                                          "can't contain another",
		"rules: {a: ['http://x']}":                                      "leave out http://",
		"mirrors: {perl: 'https://x.example.com'}":                      "there are mirrors of cargo, go, npm, pypi",
		"mirrors: {npm: 'https://u:p@x.example.com'}":                   "it has a login",
		"mirrors: {npm: 'x.example.com'}":                               "https://HOST/PATH",
		"proxy: {url: 'socks5://p.example.com:1080'}":                   "http://HOST:PORT",
		"proxy: {url: 'http://u:p@p.example.com:3128'}":                 "it has a login",
		"proxy: {noProxy: [x.example.com]}":                             "it has no url",
		"proxy: {url: 'http://p.example.com:3128', user: me}":           "both user and secret",
		"proxy: {url: 'http://p.example.com', noProxy: ['a b']}":        "it must be a host",
		"rules: {a: [{host: x.example.com, credential: {secret: ''}}]}": "name of a secret",
	} {
		_, err := Parse([]byte("version: 1\nnetwork:\n  " + text + "\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "u:p@") {
			t.Errorf("%s: the error repeats the password: %v", text, err)
		}
	}
}

func TestExpandHosts(t *testing.T) {
	c := loadText(t, "version: 1\nnetwork: {rules: {ours: [{host: git.example.com, ports: [22, 443]}]}}\n")
	got, err := c.ExpandHosts([]string{"a.example.com:80", "@ours", "@go"})
	want := []string{"a.example.com:80", "git.example.com:22", "git.example.com:443", "proxy.golang.org", "sum.golang.org"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s%v", diff, err)
	}
}

// TestPublicInternet: a policy may allow all of the public internet, and is a ceiling for less.
func TestPublicInternet(t *testing.T) {
	c := loadText(t, "version: 1\npolicies: {default: {network: {allow: [\"*\"]}}}\n")
	most, err := c.Policy("default")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]fault.Code{"*": "", "pypi.org": "", "*.example.com": "", "10.0.0.1": fault.PermissionDenied} {
		if got := allow(host).Within(most); (want == "") != (got == nil) || got != nil && fault.Of(got) != want {
			t.Errorf("%s: %v, want %q", host, got, want)
		}
	}
}
