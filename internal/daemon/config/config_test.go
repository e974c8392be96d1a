package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/workspace/driver"
)

var update = flag.Bool("update", false, "rewrite golden files and the published schema")

var same = cmp.Options{cmpopts.IgnoreUnexported(Config{}), cmp.AllowUnexported(Credential{}), cmpopts.EquateEmpty()}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not current; run go test -update (-want +got):\n%s", path, diff)
	}
}

func TestExamplePolicies(t *testing.T) {
	c, err := Load("../../../docs/examples/laptop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Policy("build")
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Policy{
		Network: driver.Network{
			Allow: []driver.NetRule{
				{Host: "proxy.golang.org"}, {Host: "*.npmjs.org"},
				{Host: "api.github.com", Methods: []string{"GET", "HEAD"}, Credential: "github"},
			},
			Deny: []driver.NetRule{{Host: "gist.github.com"}},
		},
		Limits: driver.Limits{
			driver.ResourceCPU: {Max: 2000, BestEffort: true}, driver.ResourceMemory: {Max: 2 << 30}, driver.ResourcePIDs: {Max: 512},
			driver.ResourceDisk: {Max: 8 << 30, BestEffort: true}, driver.ResourceWall: {Max: int64(30 * time.Minute)},
		},
		Env: map[string]string{"CI": "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy build differs (-want +got):\n%s", diff)
	}
	agent, err := c.Policy("") // the default one
	if err != nil {
		t.Fatal(err)
	}
	if agent.Isolation != driver.IsolationNamespaces || agent.Idle != 30*time.Minute || !agent.Network.None() || agent.Limits[driver.ResourceMemory].Max != 2<<30 {
		t.Errorf("the default policy is %+v, want agent", agent)
	}
	wantCred := map[string]egress.Credential{"github": {Secret: "github", Header: "Authorization", Format: "Bearer {secret}"}}
	if diff := cmp.Diff(wantCred, c.Credentials(), same); diff != "" {
		t.Errorf("credentials differ (-want +got):\n%s", diff)
	}
	if home, err := os.UserHomeDir(); err != nil || c.HostRoots[0] != filepath.Join(home, "datasets") {
		t.Errorf("hostRoots are %v, want a directory below %s (%v)", c.HostRoots, home, err)
	}
}

func TestUnknownPolicyListsTheKnown(t *testing.T) {
	c := mustParse(t, "version: 1\npolicies: {a: {}, b: {}}")
	_, err := c.Policy("c")
	if fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "the policies are a, b, default") {
		t.Errorf("got %v, want NotFound that lists a, b, default", err)
	}
}

func TestExtends(t *testing.T) {
	const text = `
version: 1
policies:
  base:
    isolation: namespaces
    network: {allow: [{host: a.example}, {host: b.example}], deny: [{host: x.example}]}
    limits: {memory: 1G, pids: 10}
    env: {A: one, B: one}
    readOnly: true
    idle: 1h
  child:
    extends: base
    network: {allow: [{host: c.example}], deny: [{host: y.example}]}
    limits: {memory: 0, cpu: 0.5}
    env: {B: two}
    readOnly: false
    idle: 0s
  none: {extends: base, network: {allow: []}}
`
	c := mustParse(t, text)
	got, err := c.Policy("child")
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Policy{
		Isolation: driver.IsolationNamespaces,
		Network: driver.Network{
			Allow: []driver.NetRule{{Host: "c.example"}},
			Deny:  []driver.NetRule{{Host: "x.example"}, {Host: "y.example"}},
		},
		Limits: driver.Limits{driver.ResourceCPU: {Max: 500}, driver.ResourcePIDs: {Max: 10}},
		Env:    map[string]string{"A": "one", "B": "two"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("child differs (-want +got):\n%s", diff)
	}
	base, err := c.Policy("base")
	if err != nil {
		t.Fatal(err)
	}
	if len(base.Network.Deny) != 1 || base.Env["B"] != "one" || !base.ReadOnly {
		t.Errorf("the child changed its base to %+v", base)
	}
	if none, err := c.Policy("none"); err != nil || !none.Network.None() {
		t.Errorf("allow: [] gave %+v, %v; want no network", none.Network, err)
	}
	open := mustParse(t, "version: 1\npolicies:\n  a: {network: {allow: [{host: h.example}]}}\n  b: {extends: a, network: {open: true}}\n  c: {extends: b, network: {allow: [{host: i.example}]}}")
	if b, _ := open.Policy("b"); !b.Network.Open || len(b.Network.Allow) > 0 {
		t.Errorf("b has %+v, want an open network", b.Network)
	}
	if got, _ := open.Policy("c"); got.Network.Open || len(got.Network.Allow) != 1 {
		t.Errorf("c has %+v, want one host", got.Network)
	}
}

func TestCredentialByName(t *testing.T) {
	c := mustParse(t, `
version: 1
policies:
  a: {network: {allow: [{host: a.example, credential: Git}, {host: b.example, credential: plain}]}}
  b: {network: {allow: [{host: c.example, credential: {name: git, secret: git-password, user: me}}]}}
`)
	want := map[string]egress.Credential{
		"git":   {Secret: "git-password", User: "me"},
		"plain": {Secret: "plain"},
	}
	if diff := cmp.Diff(want, c.Credentials(), same); diff != "" {
		t.Errorf("credentials differ (-want +got):\n%s", diff)
	}
	if p, _ := c.Policy("a"); p.Network.Allow[0].Credential != "git" {
		t.Errorf("the rule refers to %q, want git", p.Network.Allow[0].Credential)
	}
}

func TestProvider(t *testing.T) {
	c := mustParse(t, `
version: 1
defaults: {provider: fast}
providers:
  fast: {kind: memory, options: {deterministic: true, size: 5, ratio: 0.5, list: [a, null], in: {x: "1"}}}
  local:
`)
	for _, tt := range []struct{ name, kind, options string }{
		{"fast", "memory", `{"deterministic":true,"in":{"x":"1"},"list":["a",null],"ratio":0.5,"size":5}`},
		{"", "memory", `{"deterministic":true,"in":{"x":"1"},"list":["a",null],"ratio":0.5,"size":5}`},
		{"local", "local", ""},
		{"docker", "docker", ""},
	} {
		kind, options, err := c.Provider(tt.name)
		if kind != tt.kind || string(options) != tt.options || err != nil {
			t.Errorf("Provider(%q) = %s, %s, %v; want %s, %s", tt.name, kind, options, err, tt.kind, tt.options)
		}
	}
}

func TestSecretsOf(t *testing.T) {
	c, err := Load("../../../docs/examples/server.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if set, ok := c.SecretsOf("deploy-prod"); !ok || set.Env != "PROD_SECRET_" || set.Dir != "/etc/croft/secrets-prod" {
		t.Errorf("got %+v, %v", set, ok)
	}
	if _, ok := c.SecretsOf("other"); ok {
		t.Error("a workspace that is not listed has secrets of its own")
	}
}

// refused are files that must not be read, with what the error must say.
var refused = []struct{ name, text, want string }{
	{"empty", "", "the file is empty; it begins with version: 1"},
	{"comment alone", "# nothing\n", "the file is empty"},
	{"not a mapping", "- a\n", ":1:1: invalid argument: it must be a mapping, not a list"},
	{"cluster without a store", "version: 1\ncluster: {advertise: 'http://a:1', secretFile: s}\n", "store.url must be postgres://"},
	{"cluster without advertise", "version: 1\ncluster: {node: a}\n", "it has no advertise"},
	{"cluster without a secret", "version: 1\nstore: {url: 'postgres://h/d'}\ncluster: {advertise: 'http://a:1'}\n", "it has no secretFile"},
	{"cluster at a path", "version: 1\nstore: {url: 'postgres://h/d'}\ncluster: {advertise: 'http://a:1/x', secretFile: s}\n", "cluster.advertise: it must be http://HOST:PORT"},
	{"cluster with a wrong node", "version: 1\nstore: {url: 'postgres://h/d'}\ncluster: {advertise: 'http://a:1', secretFile: s, node: a_b}\n", "cluster.node: \"a_b\": a name has"},
	{"no version", "data: /x\n", `:1:1: invalid argument: key "version" is missing`},
	{"other version", "version: 2\n", ":1:10: invalid argument: version: this croft reads version 1; the file says 2"},
	{"version as text", "version: \"1\"\n", ":1:10: invalid argument: version: it must be a whole number, not a text"},
	{"unknown key", "version: 1\npolices: {}\n", `:2:1: invalid argument: unknown key "polices"; allowed are version, data, server, store, cluster, defaults, providers, policies,`},
	{"unknown nested key", "version: 1\npolicies:\n  a:\n    limits:\n      memroy: 1G\n", `:5:7: invalid argument: unknown key "policies.a.limits.memroy"; allowed are cpu, memory, pids, disk, wall, openFiles`},
	{"other case", "version: 1\nhostroots: []\n", `unknown key "hostroots"`},
	{"repeated key", "version: 1\ndata: /a\ndata: /b\n", `:3:1: invalid argument: not valid YAML: mapping key "data" already defined at [2:1]`},
	{"repeated nested key", "version: 1\npolicies:\n  a: {}\n  a: {}\n", `:4:3: invalid argument: not valid YAML: mapping key "a" already defined at [3:3]`},
	{"list for mapping", "version: 1\nserver: [a]\n", "server: it must be a mapping, not a list"},
	{"mapping for list", "version: 1\nhostRoots: {a: b}\n", "hostRoots: it must be a list, not a mapping"},
	{"number for text", "version: 1\npolicies: {a: {env: {X: 1}}}\n", `policies.a.env.X: it must be a text, not a number; quote it`},
	{"bool for text", "version: 1\ndata: true\n", "data: it must be a text, not true or false; quote it"},
	{"text for bool", "version: 1\npolicies: {a: {readOnly: \"true\"}}\n", "policies.a.readOnly: it must be true or false, not a text"},
	{"nothing for text", "version: 1\ndata:\n", "data: it must be a text, not nothing"},
	{"nothing for a limit", "version: 1\npolicies: {a: {limits: {memory: }}}\n", "policies.a.limits.memory: it must be a value or a mapping, not nothing"},
	{"limit without max", "version: 1\npolicies: {a: {limits: {memory: {bestEffort: true}}}}\n", `policies.a.limits.memory: key "max" is missing`},
	{"key that is a number", "version: 1\npolicies: {1: {}}\n", "a key must be a text; quote it"},
	{"syntax", "version: 1\ndata: [\n", ":2:7: invalid argument: not valid YAML: "},
	{"anchor", "version: 1\npolicies: {a: &x {}}\n", "an anchor (&) is not allowed"},
	{"alias", "version: 1\ndata: *x\n", "an alias (*)"},
	{"tag", "version: !!int 1\n", "a tag (!) is not allowed"},
	{"merge", "version: 1\npolicies: {a: {<<: {}}}\n", "a merge key (<<) is not allowed"},
	{"two documents", "version: 1\n---\nversion: 1\n", ":3:1: invalid argument: there is a second document"},
	{"deep", "version: 1\ndata: " + strings.Repeat("[", 100_000), "nested more than 64 deep"},
	{"deep over lines", "version: 1\ndata: " + strings.Repeat("[\n", 100_000), "nested more than 64 deep"},
	{"deep by dashes", "version: 1\ndata:\n  " + strings.Repeat("- ", 1000), "nested more than 64 deep"},
	{"large", strings.Repeat("#\n", maxFile), "at most 1048576 are read"},

	{"size", "version: 1\npolicies: {a: {limits: {memory: 512X}}}\n", `:2:33: invalid argument: policies.a.limits.memory: "512X": write a number with a unit, such as 512M`},
	{"negative", "version: 1\npolicies: {a: {limits: {pids: -1}}}\n", `"-1": write a whole number that is not negative`},
	{"wall without unit", "version: 1\npolicies: {a: {limits: {wall: 60}}}\n", `"60": write a number with a unit, such as 30s`},
	{"cpus", "version: 1\npolicies: {a: {limits: {cpu: {max: lots}}}}\n", `policies.a.limits.cpu.max: "lots": write a number of cores`},
	{"isolation", "version: 1\npolicies: {a: {isolation: strong}}\n", `"strong": the levels are [none process bubblewrap`},
	{"extends what is not there", "version: 1\npolicies: {a: {extends: b}}\n", `policies.a.extends: there is no policy "b"; the policies are a, default`},
	{"extends itself", "version: 1\npolicies: {a: {extends: a}}\n", `policy "a" extends itself: a -> a`},
	{"cycle", "version: 1\npolicies: {a: {extends: b}, b: {extends: c}, c: {extends: a}}\n", `a -> b -> c -> a`},
	{"long chain", "version: 1\npolicies:\n  p0: {}\n" + chain(18), "policies extend each other more than 16 deep"},
	{"policy name", "version: 1\npolicies: {\"a b\": {}}\n", "a name has 1 to 63 of"},
	{"default policy", "version: 1\ndefaults: {policy: x}\n", `:2:20: invalid argument: defaults.policy: there is no policy "x"; the policies are default`},
	{"host", "version: 1\npolicies: {a: {network: {allow: [{host: \"https://x.example\"}]}}}\n", "without scheme and port"},
	{"host that is a number", "version: 1\npolicies: {a: {network: {allow: [{host: \"127.1\"}]}}}\n", "policies.a.network.allow[0].host"},
	{"any host with a credential", "version: 1\npolicies: {a: {network: {allow: [{host: \"*\", credential: s}]}}}\n", "policies.a.network.allow[0]: credential and private are for single hosts"},
	{"any host of the private network", "version: 1\npolicies: {a: {network: {allow: [{host: \"*\", private: true}]}}}\n", "credential and private are for single hosts"},
	{"rule without host", "version: 1\npolicies: {a: {network: {allow: [{ports: [1]}]}}}\n", `policies.a.network.allow[0]: key "host" is missing`},
	{"rule of nothing", "version: 1\npolicies:\n  a:\n    network:\n      allow:\n        -\n", "policies.a.network.allow[0]: it must be a value or a mapping, not nothing"},
	{"port", "version: 1\npolicies: {a: {network: {allow: [{host: x.example, ports: [70000]}]}}}\n", "70000: a port is 1 to 65535"},
	{"method", "version: 1\npolicies: {a: {network: {allow: [{host: x.example, methods: [get]}]}}}\n", "written in capitals"},
	{"credential to deny", "version: 1\npolicies: {a: {network: {deny: [{host: x.example, credential: s}]}}}\n", "for rules that allow"},
	{"open and allow", "version: 1\npolicies: {a: {network: {open: true, allow: [{host: x.example}]}}}\n", "an open network goes without the proxy"},
	{"open over denied", "version: 1\npolicies: {a: {network: {deny: [{host: x.example}]}}, b: {extends: a, network: {open: true}}}\n", "policies.b.network: an open network"},
	{"format", "version: 1\npolicies: {a: {network: {allow: [{host: x.example, credential: {secret: s, format: Bearer}}]}}}\n", "it must have {secret} in it once"},
	{"credential without secret", "version: 1\npolicies: {a: {network: {allow: [{host: x.example, credential: {header: X-Key}}]}}}\n", `key "secret" is missing`},
	{"two ways to send", "version: 1\npolicies: {a: {network: {allow: [{host: x.example, credential: {secret: s, header: X}}, {host: y.example, credential: {secret: s}}]}}}\n", "give one of them a name"},
	{"env name", "version: 1\npolicies: {a: {env: {\"A B\": x}}}\n", "a variable has letters"},

	{"address", "version: 1\nserver: {addr: \":7070\"}\n", "write the host out, such as 127.0.0.1:7070"},
	{"address without port", "version: 1\nserver: {addr: localhost}\n", "it is written HOST:PORT"},
	{"hosts", "version: 1\nserver: {hosts: [\"a:1\"]}\n", "server.hosts[0]"},
	{"bucket of another service", "version: 1\nstore: {bucket: 'gs://b'}\n", "store.bucket: it must be s3://BUCKET"},
	{"bucket in memory", "version: 1\nstore: {bucket: 'mem://'}\n", "store.bucket: it must be s3://BUCKET"},
	{"bucket without a name", "version: 1\nstore: {bucket: 's3://'}\n", "store.bucket: it must be s3://BUCKET"},
	{"unknown policy of a tenant", "version: 1\npolicies: {small: {}}\ntenants: {ann: {policies: [smal]}}\n", `tenants.ann.policies: there is no policy "smal"; there are default, small`},
	{"policies of tenants without policies", "version: 1\ntenantDefaults: {policies: [default]}\n", "tenantDefaults.policies: the file has no section policies"},
	{"bucket in a relative directory", "version: 1\nstore: {bucket: 'file:b'}\n", "store.bucket: it must be s3://BUCKET"},
	{"store", "version: 1\nstore: {url: mysql://x}\n", "it must be sqlite:PATH or postgres://HOST/DATABASE"},
	{"host root", "version: 1\nhostRoots: [data]\n", `hostRoots[0]: "data": it must be an absolute path`},
	{"host root with dots", "version: 1\nhostRoots: [/srv/../etc]\n", "without .."},
	{"the whole host", "version: 1\nhostRoots: [/]\n", "it names the whole host"},
	{"env rule", "version: 1\nenv: {deny: [\"A=B\"]}\n", "env.deny[0]"},
	{"command rule", "version: 1\ncommands: {deny: [\"[\"]}\n", "commands.deny[0]"},
	{"keep", "version: 1\nevents: {keep: 0}\n", "events.keep: 0: it must be 1 to 1000"},
	{"max size", "version: 1\nevents: {maxSize: 10}\n", "the least is 4K"},
	{"sync", "version: 1\nevents: {sync: daily}\n", `"daily": allowed are none, interval, always`},
	{"secrets of a workspace", "version: 1\nsecrets: {workspaces: {a: {}}}\n", "neither env nor dir"},
	{"secrets of no workspace", "version: 1\nsecrets: {workspaces: {A_B: {dir: /x}}}\n", "the name or the id of a workspace"},
	{"prefixes overlap", "version: 1\nsecrets: {workspaces: {a: {env: CROFT_SECRET_A_}}}\n", "overlap"},
	{"prefix", "version: 1\nsecrets: {env: \"A B\"}\n", "a prefix is the beginning of a variable"},
}

// chain returns n policies each of which extends the one before.
func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  p%d: {extends: p%d}\n", i+1, i)
	}
	return b.String()
}

func TestLongChainOfPolicies(t *testing.T) {
	c := mustParse(t, "version: 1\npolicies:\n  p0: {readOnly: true}\n"+chain(16))
	if p, err := c.Policy("p16"); err != nil || !p.ReadOnly {
		t.Errorf("got %+v, %v; want what p0 says", p, err)
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			if fault.Of(err) != fault.InvalidArgument {
				t.Fatalf("got %v, want InvalidArgument", err)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "config: read croft.yaml") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestSecretsAreRefused tries to write secrets where only names belong. The text
// of none may be in the error.
func TestSecretsAreRefused(t *testing.T) {
	const hidden = "hunter2-and-more"
	token := "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
	rule := "version: 1\npolicies: {a: {network: {allow: [{host: x.example, credential: %s}]}}}\n"
	env := "version: 1\npolicies: {a: {env: {%s}}}\n"
	tests := map[string]string{
		"credential":          fmt.Sprintf(rule, "\"Bearer "+hidden+"\""),
		"credential's secret": fmt.Sprintf(rule, "{secret: \""+hidden+" \"}"),
		"token as a name":     fmt.Sprintf(rule, token),
		"format":              fmt.Sprintf(rule, "{secret: s, format: \"Bearer "+hidden+"\"}"),
		"format beside":       fmt.Sprintf(rule, "{secret: s, format: \"{secret} "+token+"\"}"),
		"env by its name":     fmt.Sprintf(env, "API_KEY: "+hidden),
		"env by its text":     fmt.Sprintf(env, "X: "+token),
		"env with a key":      fmt.Sprintf(env, "X: sk-or-v1-0123456789abcdef0123456789abcdef"),
		"env with a proxy":    fmt.Sprintf(env, "PROXY: \"socks5://me:"+hidden+"@proxy.example\""),
		"env with a url":      fmt.Sprintf(env, "PROXY: \"http://me:"+hidden+"@proxy.example\""),
		"option":              "version: 1\nproviders: {a: {options: {apiKey: " + hidden + "}}}\n",
		"option below":        "version: 1\nproviders: {a: {options: {in: [{auth: {password: " + hidden + "}}]}}}\n",
		"option secret":       "version: 1\nproviders: {a: {options: {clientSecret: \"" + hidden + "!\"}}}\n",
		"store":               "version: 1\nstore: {url: \"postgres://croft:" + hidden + "@db/croft\"}\n",
		"bucket":              "version: 1\nstore: {bucket: \"s3://key:" + hidden + "@bucket\"}\n",
		"store by query":      "version: 1\nstore: {url: \"postgres://db/croft?password=" + hidden + "\"}\n",
		"key":                 "version: 1\ndata: |\n  -----BEGIN RSA PRIVATE KEY-----\n  " + hidden + "\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(text))
			if fault.Of(err) != fault.InvalidArgument {
				t.Fatalf("got %v, want InvalidArgument", err)
			}
			if strings.Contains(err.Error(), hidden) || strings.Contains(err.Error(), token) {
				t.Errorf("the error repeats the secret: %v", err)
			}
		})
	}
	mustParse(t, fmt.Sprintf(env, "GITHUB_TOKEN: \"croft-secret:github\", KEYBOARD: us, TOKENIZER: bpe"))
	mustParse(t, "version: 1\nproviders: {e2b: {options: {apiKeySecret: e2b}}}\n")
}

func TestFind(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	write := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("version: 1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := map[string]string{"HOME": home}
	find := func(explicit, want string, code fault.Code) {
		t.Helper()
		got, err := Find(explicit, dir, func(k string) string { return env[k] })
		if fault.Of(err) != code || err == nil && got != want {
			t.Errorf("Find = %q, %v; want %q, %q", got, err, want, code)
		}
	}
	find("", "", "")
	inHome := write(filepath.Join(home, ".config", "croft", FileName))
	find("", inHome, "")
	env["XDG_CONFIG_HOME"] = filepath.Join(home, "xdg")
	find("", "", "")
	inXDG := write(filepath.Join(home, "xdg", "croft", FileName))
	find("", inXDG, "")
	inDir := write(filepath.Join(dir, FileName))
	find("", inDir, "")
	env[EnvFile] = filepath.Join(home, "no.yaml")
	find("", "", fault.NotFound)
	env[EnvFile] = write(filepath.Join(home, "named.yaml"))
	find("", env[EnvFile], "")
	find(inXDG, inXDG, "")
	find(filepath.Join(home, "gone.yaml"), "", fault.NotFound)
}

func TestLoadRefusesFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, []byte("version: 1\ndata: d\nbad: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+":3:1: invalid argument: unknown key \"bad\"") {
		t.Errorf("got %v, want the file with line and column", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("a file that everyone may write: %v, want PermissionDenied", err)
	}
	if _, err := Load(dir); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a directory: %v, want InvalidArgument", err)
	}
	if _, err := Load(filepath.Join(dir, "no")); fault.Of(err) != fault.NotFound {
		t.Errorf("no file: %v, want NotFound", err)
	}
}

func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, FileName)
	text := "version: 1\ndata: d\nserver:\n  addr: 127.0.0.1:1\n  hosts: [a.example]\ncaps: {maxOpen: 1}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"CROFT_ADDR": "127.0.0.1:2", "CROFT_MAX_OPEN": "2", "CROFT_STORE": "postgres://u:hunter22@h/d", "CROFT_EVENTS": ""}
	c, err := Resolve(&ResolveOptions{
		File: file, Dir: dir, Getenv: func(k string) string { return env[k] },
		Flags: map[string]string{"caps.maxOpen": "3", "secrets.dir": "s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ key, got, want, origin string }{
		{"caps.maxOpen", c.Caps.MaxOpen.String(), "3", "the flag of caps.maxOpen"},
		{"secrets.dir", c.Secrets.Dir, filepath.Join(dir, "s"), "the flag of secrets.dir"},
		{"server.addr", c.Server.Addr, "127.0.0.1:2", "$CROFT_ADDR"},
		{"data", c.Data, filepath.Join(dir, "d"), file + ":2:7"},
		{"server.hosts", strings.Join(c.Server.Hosts, " "), "a.example", file + ":5:10"},
		{"caps.maxCommands", c.Caps.MaxCommands.String(), "1000", "default"},
		{"events.file", c.Events.File, "events.jsonl", "default"},
	} {
		if tt.got != tt.want || c.Origin(tt.key) != tt.origin {
			t.Errorf("%s is %q from %s, want %q from %s", tt.key, tt.got, c.Origin(tt.key), tt.want, tt.origin)
		}
	}
	out := string(c.YAML())
	if !strings.Contains(out, "addr: \"127.0.0.1:2\" # from $CROFT_ADDR\n") {
		t.Errorf("the origin is not printed:\n%s", out)
	}
	if strings.Contains(out, "hunter22") || c.Store.URL != env["CROFT_STORE"] {
		t.Error("a password is printed, or was lost")
	}
	if _, err := Parse([]byte(out)); err != nil {
		t.Errorf("what is printed can't be read: %v", err)
	}
}

func TestResolveRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		env, flags map[string]string
		want       string
	}{
		{map[string]string{"CROFT_ADDR": "x"}, nil, "config: read $CROFT_ADDR: invalid argument: server.addr:"},
		{map[string]string{"CROFT_MAX_OPEN": "-1"}, nil, `config: read $CROFT_MAX_OPEN: invalid argument: caps.maxOpen: "-1": write a whole number`},
		{nil, map[string]string{"defaults.policy": "no"}, "config: read the flag of defaults.policy: invalid argument: defaults.policy: there is no policy"},
		{nil, map[string]string{"hostRoots": "/"}, "settings are data, server.addr"},
	} {
		_, err := Resolve(&ResolveOptions{Dir: dir, Getenv: func(k string) string { return tt.env[k] }, Flags: tt.flags})
		if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// The file of a cluster is the same on all replicas; what differs comes from variables.
func TestFileCompletedByVariables(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, FileName)
	text := "version: 1\nserver: {tls: {cert: a.crt}}\ncluster: {secretFile: s}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"CROFT_ADVERTISE": "http://a:1", "CROFT_STORE": "postgres://h/d", "CROFT_TLS_KEY": "a.key"}
	if _, err := Resolve(&ResolveOptions{File: file, Dir: dir, Getenv: func(k string) string { return env[k] }}); err != nil {
		t.Error(err)
	}
	for missing, want := range map[string]string{"CROFT_ADVERTISE": "$CROFT_ADVERTISE", "CROFT_STORE": "$CROFT_STORE", "CROFT_TLS_KEY": "both cert and key"} {
		_, err := Resolve(&ResolveOptions{File: file, Dir: dir, Getenv: func(k string) string {
			if k == missing {
				return ""
			}
			return env[k]
		}})
		if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: got %v, want %s", missing, err, want)
		}
	}
}

func TestPrintDefaults(t *testing.T) {
	golden(t, "testdata/default.yaml", Default().YAML())
	if err := Default().check(); err != nil {
		t.Errorf("the default is refused: %v", err)
	}
}

func TestPrintExamples(t *testing.T) {
	for _, path := range examples(t) {
		c, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(c.YAML())
		if err != nil {
			t.Fatalf("%s: what is printed can't be read: %v\n%s", path, err, c.YAML())
		}
		if diff := cmp.Diff(c, again, same); diff != "" {
			t.Errorf("%s: printing changes it (-want +got):\n%s", path, diff)
		}
	}
}

func examples(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../../docs/examples/*.yaml")
	if err != nil || len(paths) < 3 {
		t.Fatalf("examples are %v, %v; want at least three", paths, err)
	}
	return paths
}

func TestSecretsGoWhereTheyMay(t *testing.T) {
	const file = `
version: 1
secrets:
  hosts:
    GitHub_Token: [api.github.com, "*.githubusercontent.com"]
    nowhere_key: []
`
	c, err := Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		secret, host string
		ok           bool
	}{
		{"github_token", "api.github.com", true}, {"GITHUB_TOKEN", "API.GitHub.com.", true}, {"github_token", "raw.githubusercontent.com", true},
		{"github_token", "*.githubusercontent.com", true}, {"github_token", "*.a.githubusercontent.com", true},
		{"github_token", "github.com", false}, {"github_token", "*.github.com", false}, {"github_token", "evilgithubusercontent.com", false},
		{"github_token", "githubusercontent.com", false}, {"github_token", "api.github.com.evil.example", false},
		{"nowhere_key", "api.github.com", false}, {"another", "anywhere.example", true},
	} {
		err := c.CheckHost(x.secret, x.host)
		if (err == nil) != x.ok || err != nil && fault.Of(err) != fault.PermissionDenied {
			t.Errorf("%s to %s: %v", x.secret, x.host, err)
		}
	}
	for name, text := range map[string]string{
		"a scheme":  "version: 1\nsecrets: {hosts: {a: [\"https://x.example\"]}}\n",
		"all":       "version: 1\nsecrets: {hosts: {a: [\"*\"]}}\n",
		"twice":     "version: 1\nsecrets: {hosts: {a: [x.example], A: [y.example]}}\n",
		"no name":   "version: 1\nsecrets: {hosts: {\"a b\": [x.example]}}\n",
		"elsewhere": "version: 1\nsecrets: {hosts: {tok: [x.example]}}\npolicies: {p: {network: {allow: [{host: y.example, credential: tok}]}}}\n",
	} {
		if _, err := Parse([]byte(text)); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
