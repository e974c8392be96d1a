package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/strictyaml"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// Version is the version of the format that this package reads.
const Version = 1

// FileName is the default name of the file.
const FileName = "croft.yaml"

// A Config is the content of croft.yaml, with defaults for the keys that it does not set.
//
// The json tags are the keys of the file. The texts of the jsonschema tags are in the
// published schema and in the output of YAML.
type Config struct {
	Version   int                 `json:"version" jsonschema:"version of this format; 1"`
	Data      string              `json:"data,omitempty" jsonschema:"data directory; empty is ~/.local/share/croft; relative to this file"`
	Server    Server              `json:"server,omitzero" jsonschema:"what croft up serves"`
	Store     Store               `json:"store,omitzero" jsonschema:"where records, snapshots, templates and artifacts are"`
	Cluster   Cluster             `json:"cluster,omitzero" jsonschema:"several croft up on one PostgreSQL, behind a load balancer; empty is one server"`
	Defaults  Defaults            `json:"defaults,omitzero" jsonschema:"for workspaces that are opened without saying"`
	Providers map[string]Provider `json:"providers,omitempty" jsonschema:"providers with options, by name; a kind that is not listed is there under its own name, without options"`
	Policies  map[string]Policy   `json:"policies,omitempty" jsonschema:"what workspaces may do, by name"`
	Network   NetworkSettings     `json:"network,omitzero" jsonschema:"named rules of hosts, mirrors of registries, and a proxy on the way to hosts"`
	Secrets   Secrets             `json:"secrets,omitzero" jsonschema:"where secrets come from; never the secrets themselves"`
	HostRoots []string            `json:"hostRoots,omitempty" jsonschema:"absolute directories of this host that a workspace may use in place, be given or start from; empty is all for a server on loopback, and none beyond. The page and the HTTP API apply changes to listed directories only"`
	Skills    []string            `json:"skills,omitempty" jsonschema:"directories that hold skills, each a directory with a SKILL.md; of two of one name that of the earlier counts; relative to this file"`
	Env       Rules               `json:"env,omitzero" jsonschema:"variables that may come with a command or a policy, by patterns of their names; beyond what the provider itself refuses"`
	Commands  Rules               `json:"commands,omitzero" jsonschema:"programs that commands may run, by patterns of their names; beyond what the provider itself refuses"`
	Caps      Caps                `json:"caps,omitzero" jsonschema:"caps of this server; past them calls fail as resource exhausted"`
	Events    Events              `json:"events,omitzero" jsonschema:"the audit stream"`

	Tenants        map[string]Tenant `json:"tenants,omitempty" jsonschema:"quotas and secrets of tenants, by name; croft key create --tenant NAME makes a key of one"`
	TenantDefaults Tenant            `json:"tenantDefaults,omitzero" jsonschema:"quotas of every tenant that does not set its own"`

	Evals     Evals     `json:"evals,omitzero" jsonschema:"evaluations that the page and the HTTP API show and start"`
	Snapshots Snapshots `json:"snapshots,omitzero" jsonschema:"how long snapshots are kept"`
	Effects   Effects   `json:"effects,omitzero" jsonschema:"what runs after a tool has changed files: formatters, linters"`
	Tools     Tools     `json:"tools,omitzero" jsonschema:"the tools of agents"`
	Project   Project   `json:"project,omitzero" jsonschema:"commands of the project in a workspace, instead of the detected ones; each a list of a program and its arguments"`

	file   string                         // path of the file; "" without one
	at     map[string]strictyaml.Position // position of each key that the file sets, by its path
	origin map[string]string              // variable or flag of each setting that does not come from the file
}

// Evals is the section evals.
type Evals struct {
	Suites []string `json:"suites,omitempty" jsonschema:"suites that the operator may start; their code runs on this host; relative to this file"`
	Dir    string   `json:"dir,omitempty" jsonschema:"directory of the runs, not in the data directory; empty shows and starts none; relative to this file"`
}

// Server is the section server.
type Server struct {
	Addr      string   `json:"addr,omitempty" jsonschema:"HOST:PORT to listen on; beyond loopback a token must be given"`
	Hosts     []string `json:"hosts,omitempty" jsonschema:"further names by which this host may be addressed"`
	Domain    string   `json:"domain,omitempty" jsonschema:"HOST or HOST:PORT under which ports of sandboxes are reached, as PORT-ID.HOST; empty is localhost with the server's port, on loopback"`
	Providers []string `json:"providers,omitempty" jsonschema:"names of the providers that clients of a server may use; empty is all but those of the kinds local and ssh, which isolate nothing, and e2b"`
	TLS       TLS      `json:"tls,omitzero" jsonschema:"certificate of the server; empty is plain HTTP, for loopback"`
	Log       Log      `json:"log,omitzero" jsonschema:"what croft up writes to standard error"`
}

// TLS is the section server.tls.
type TLS struct {
	Cert string `json:"cert,omitempty" jsonschema:"file with the certificate chain, PEM; read again when it changes; relative to this file"`
	Key  string `json:"key,omitempty" jsonschema:"file with the private key, PEM; relative to this file"`
}

// Log is the section server.log.
type Log struct {
	Level  string `json:"level,omitempty" jsonschema:"debug, info (one record per request), warn or error; empty is warn"`
	Format string `json:"format,omitempty" jsonschema:"text or json; empty is text"`
}

// Check checks the values.
func (l Log) Check() error {
	if !slices.Contains([]string{"", "debug", "info", "warn", "error"}, l.Level) {
		return fmt.Errorf("level %.80q: %w: must be debug, info, warn or error", l.Level, fault.InvalidArgument)
	}
	if !slices.Contains([]string{"", "text", "json"}, l.Format) {
		return fmt.Errorf("format %.80q: %w: must be text or json", l.Format, fault.InvalidArgument)
	}
	return nil
}

// Store is the section store.
type Store struct {
	URL    string `json:"url,omitempty" jsonschema:"of the records: sqlite:PATH or postgres://HOST/DATABASE, without a password; empty is croft.db in the data directory"`
	Bucket string `json:"bucket,omitempty" jsonschema:"of snapshots, templates and artifacts: s3://BUCKET?region=REGION, with the credentials of the environment, or file:///DIRECTORY; empty is the data directory"`
}

// Cluster is the section cluster. Without Advertise there is no cluster.
type Cluster struct {
	Advertise  string `json:"advertise,omitempty" jsonschema:"URL at which the other replicas reach this one, such as http://10.0.0.5:7070; needs a store in PostgreSQL, and the same token on all replicas (CROFT_TOKEN)"`
	Node       string `json:"node,omitempty" jsonschema:"name of this replica in the cluster, which workspaces on its host keep; empty is the name of the host"`
	SecretFile string `json:"secretFile,omitempty" jsonschema:"file with a text of at least 32 characters, the same on all replicas, by which they know each other; relative to this file"`
}

// Defaults is the section defaults.
type Defaults struct {
	Provider string   `json:"provider,omitempty" jsonschema:"name of a provider; auto is the first of prefer that gives what the policy asks for"`
	Policy   string   `json:"policy,omitempty" jsonschema:"name of a policy"`
	Prefer   []string `json:"prefer,omitempty" jsonschema:"names of the providers that auto tries, best first; empty is sandbox, docker, and then all others but local, ssh and e2b"`
}

// A Provider is an entry of the section providers.
type Provider struct {
	Kind    string         `json:"kind,omitempty" jsonschema:"kind of the provider; empty is its name"`
	Options map[string]any `json:"options,omitempty" jsonschema:"passed to the provider, which judges them"`

	Pool   Pool   `json:"pool,omitzero" jsonschema:"workspaces that are kept warm; for all of the kind"`
	Limit  Bounds `json:"limit,omitzero" jsonschema:"bounds of what is asked of the provider; for all of the kind"`
	Retry  Retry  `json:"retry,omitzero" jsonschema:"calls that fail for a while are made again; for all of the kind"`
	Record string `json:"record,omitempty" jsonschema:"file of JSON lines, one for each call of the provider, without contents; relative to the data directory; empty is none; for all of the kind"`
}

// A Pool says how many workspaces are kept warm.
type Pool struct {
	Size   Count    `json:"size,omitempty" jsonschema:"workspaces of each template and policy; 0 is no pool"`
	Shapes Count    `json:"shapes,omitempty" jsonschema:"templates and policies at the same time; 0 is 4"`
	Idle   Duration `json:"idle,omitempty" jsonschema:"idle time after which a prepared workspace is destroyed; 0s is 10m"`

	Templates []string `json:"templates,omitempty" jsonschema:"templates of E2B's API, such as base, whose sandboxes croft up keeps warm from its start, requested or not"`
}

// A Bounds bounds what is asked of a provider; 0 is no bound.
type Bounds struct {
	Workspaces Count    `json:"workspaces,omitempty" jsonschema:"that are held at the same time"`
	Calls      Count    `json:"calls,omitempty" jsonschema:"that run at the same time"`
	Rate       Count    `json:"rate,omitempty" jsonschema:"calls that begin in a second"`
	Wait       Duration `json:"wait,omitempty" jsonschema:"how long a call may wait for its turn; 0s refuses it at once"`
}

// A Retry says how often calls are repeated.
type Retry struct {
	Retries Count    `json:"retries,omitempty" jsonschema:"of one call; 0 is none"`
	For     Duration `json:"for,omitempty" jsonschema:"all waits between them together; 0s is 10s"`
}

// Wraps reports whether the provider needs a wrapper: a pool, bounds, retries or a record.
func (p Provider) Wraps() bool {
	return p.Pool.Size > 0 || p.Limit != (Bounds{}) || p.Retry.Retries > 0 || p.Record != ""
}

// Wrapped returns the entry whose wrappers apply to the providers of a kind; false if there
// is none.
func (c *Config) Wrapped(kind string) (Provider, bool) {
	for name, p := range c.Providers {
		if (p.Kind == kind || p.Kind == "" && name == kind) && p.Wraps() {
			return p, true
		}
	}
	return Provider{}, false
}

// Auto is the name of a provider that stands for the first provider that supports the policy.
const Auto = "auto"

// Secrets is the section secrets.
type Secrets struct {
	Env        string               `json:"env,omitempty" jsonschema:"prefix of the variables that hold secrets"`
	Dir        string               `json:"dir,omitempty" jsonschema:"directory with one file for each secret; empty is none; relative to this file"`
	Hosts      map[string][]string  `json:"hosts,omitempty" jsonschema:"hosts that a secret may be sent to, by the name of the secret: names, *.name for what is below one, and addresses; a secret that is not listed goes where a policy says"`
	Workspaces map[string]SecretSet `json:"workspaces,omitempty" jsonschema:"secrets of single workspaces, by name or id; asked first, with the ones above to fall back to"`
	Patterns   map[string]string    `json:"patterns,omitempty" jsonschema:"further texts that no tool shows, by a name for the mark: regular expressions, of which a group, if there is one, is what is hidden"`
}

// Finder finds secrets by pattern: those of well-known services and of the section.
func (s Secrets) Finder() (*secret.Patterns, error) {
	list := secret.Providers()
	for _, name := range slices.Sorted(maps.Keys(s.Patterns)) {
		list = append(list, secret.Pattern{Name: name, Form: s.Patterns[name]})
	}
	return secret.NewPatterns(list)
}

// A SecretSet has the sources of the secrets of one workspace.
type SecretSet struct {
	Env string `json:"env,omitempty" jsonschema:"prefix of the variables that hold its secrets; empty is none"`
	Dir string `json:"dir,omitempty" jsonschema:"directory with one file for each of its secrets; empty is none; relative to this file"`
}

// Rules allow and deny names. In a pattern * stands for any characters.
type Rules struct {
	Allow []string `json:"allow,omitempty" jsonschema:"the only names that pass; empty is all"`
	Deny  []string `json:"deny,omitempty" jsonschema:"names that do not pass, whatever allow says"`
}

// Caps is the section caps. 0 is no cap.
type Caps struct {
	MaxOpen     Count `json:"maxOpen,omitempty" jsonschema:"live workspaces; 0 is no cap"`
	MaxCommands Count `json:"maxCommands,omitempty" jsonschema:"commands that run at the same time, in all workspaces; 0 is no cap"`
}

// Events is the section events.
type Events struct {
	File    string `json:"file,omitempty" jsonschema:"file of JSON lines; relative to the data directory; none keeps no file"`
	MaxSize Bytes  `json:"maxSize,omitempty" jsonschema:"a file that would pass this size is rotated"`
	Keep    Count  `json:"keep,omitempty" jsonschema:"rotated files that are kept"`
	Sync    string `json:"sync,omitempty" jsonschema:"when lines are forced to the disk: none, interval (within a second) or always"`
}

// Snapshots is the section snapshots.
type Snapshots struct {
	MaxAge     Duration `json:"maxAge,omitempty" jsonschema:"age at which croft gc removes a snapshot that was taken automatically, unless a workspace started from it; 0s is never"`
	RemovedAge Duration `json:"removedAge,omitempty" jsonschema:"the same for those of workspaces that were removed; 0s is maxAge"`
}

// Effects is the section effects.
type Effects struct {
	Time Duration `json:"time,omitempty" jsonschema:"time limit of one effect; 0s is 30s"`
	Wait Duration `json:"wait,omitempty" jsonschema:"how long the answer waits; what takes longer is in the next answer about the file; 0s is 5s"`
}

// Project is the section project.
type Project struct {
	Commands   profile.Commands            `json:"commands,omitzero" jsonschema:"for every workspace"`
	Workspaces map[string]profile.Commands `json:"workspaces,omitempty" jsonschema:"for single workspaces, by name or id; a command that is missing here is that of every workspace"`
}

// CommandsOf returns the commands of a workspace's project: those under the first of its
// names and ids that is listed, over those of every workspace.
func (c *Config) CommandsOf(names ...string) profile.Commands {
	for _, name := range names {
		if own, ok := c.Project.Workspaces[name]; ok && name != "" {
			return own.Over(c.Project.Commands)
		}
	}
	return c.Project.Commands
}

// Tools is the section tools.
type Tools struct {
	MaxText Count `json:"maxText,omitempty" jsonschema:"maximum bytes of the text of an answer; 0 is 30000, and the least is 1000"`
}

// NoFile as Events.File keeps no file.
const NoFile = "none"

// DefaultPolicy is the name of the policy that always exists. A file may define it.
const DefaultPolicy = "default"

// Default returns the configuration without a file.
func Default() *Config {
	return &Config{
		Version:  Version,
		Server:   Server{Addr: "127.0.0.1:7070"},
		Defaults: Defaults{Provider: "sandbox", Policy: DefaultPolicy},
		Policies: map[string]Policy{DefaultPolicy: {}},
		Secrets:  Secrets{Env: "CROFT_SECRET_"},
		Caps:     Caps{MaxOpen: 1000, MaxCommands: 1000},
		Events:   Events{File: "events.jsonl", MaxSize: 64 << 20, Keep: 5, Sync: "interval"},

		Snapshots: Snapshots{MaxAge: Duration(30 * 24 * time.Hour), RemovedAge: Duration(7 * 24 * time.Hour)},
	}
}

// File returns the path of the file that c was read from, "" if there was none.
func (c *Config) File() string { return c.file }

// Provider returns the kind and the options of a provider by its name. The options are a
// JSON object for driver.Spec.Config, nil without options. A name that is not in the
// section providers is a kind; the caller checks whether that kind exists.
func (c *Config) Provider(name string) (kind string, options json.RawMessage, err error) {
	if name == "" {
		name = c.Defaults.Provider
	}
	p, ok := c.Providers[name]
	if !ok {
		return name, nil, nil
	}
	if kind = p.Kind; kind == "" {
		kind = name
	}
	if len(p.Options) == 0 {
		return kind, nil, nil
	}
	if options, err = json.Marshal(p.Options); err != nil {
		return "", nil, fmt.Errorf("config: read provider %s: %w: %w", name, fault.InvalidArgument, err)
	}
	return kind, options, nil
}

// CheckOffered refuses a provider, by its name, that clients of a server may not use. Of the kinds that
// are not named, confined returns an error for those that may not be offered.
func (c *Config) CheckOffered(name string, confined func(kind string) error) error {
	if name == "" {
		name = c.Defaults.Provider
	}
	kind, _, err := c.Provider(name)
	if err != nil {
		return err
	}
	if len(c.Server.Providers) == 0 {
		return confined(kind)
	}
	if slices.Contains(c.Server.Providers, name) {
		return nil
	}
	return notOffered("provider", name)
}

// CheckKindOffered refuses a kind of which clients of a server may use no provider.
func (c *Config) CheckKindOffered(kind string, confined func(kind string) error) error {
	if len(c.Server.Providers) == 0 {
		err := confined(kind)
		if fault.Of(err) == fault.PermissionDenied {
			return notOffered("workspaces of kind", kind)
		}
		return err
	}
	offered := slices.ContainsFunc(c.Server.Providers, func(name string) bool {
		of, _, err := c.Provider(name)
		return err == nil && of == kind
	})
	if offered {
		return nil
	}
	return notOffered("workspaces of kind", kind)
}

// NotOffered is the error for a provider that a server offers only by its name.
func NotOffered(name string) error { return notOffered("provider", name) }

func notOffered(what, name string) error {
	return fmt.Errorf("config: %s %.80q: %w: this server does not offer it; server.providers in croft.yaml lists what it offers", what, name, fault.PermissionDenied)
}

// SecretsOf returns the sources of the secrets that only one workspace has, by its name or
// id; false if it has none.
func (c *Config) SecretsOf(workspace string) (SecretSet, bool) {
	set, ok := c.Secrets.Workspaces[workspace]
	return set, ok
}

// CheckHost refuses to send a secret to a host that secrets.hosts does not list for it.
// The host is written as in driver.NetRule, such as *.example.com.
func (c *Config) CheckHost(secret, host string) error {
	for name, hosts := range c.Secrets.Hosts {
		if !strings.EqualFold(name, secret) {
			continue
		}
		for _, allowed := range hosts {
			if holdsHost(allowed, host) {
				return nil
			}
		}
		return fmt.Errorf("config: secret %.80q for %s: %w: it may go to %s; secrets.hosts in croft.yaml lists them",
			secret, host, fault.PermissionDenied, strings.Join(hosts, ", "))
	}
	return nil
}

// holdsHost reports whether the pattern allowed matches every host that the pattern host
// matches.
func holdsHost(allowed, host string) bool {
	allowed, host = strings.ToLower(strings.TrimSuffix(allowed, ".")), strings.ToLower(strings.TrimSuffix(host, "."))
	if allowed == host {
		return true
	}
	suffix, wild := strings.CutPrefix(allowed, "*")
	return wild && suffix != "" && strings.HasSuffix(host, suffix) && host != suffix
}

// Policy returns a policy by its name, merged with all that it extends; "" is
// Defaults.Policy. The error for an unknown name is NotFound and lists the known names.
func (c *Config) Policy(name string) (driver.Policy, error) {
	if name == "" {
		name = c.Defaults.Policy
	}
	if _, ok := c.Policies[name]; !ok {
		return driver.Policy{}, fault.Advise(fmt.Errorf("config: policy %.80q: %w", name, fault.NotFound),
			"the policies are %s; croft.yaml defines them", strings.Join(slices.Sorted(maps.Keys(c.Policies)), ", "))
	}
	p, err := c.flattenPolicy(name, nil)
	if err != nil {
		return driver.Policy{}, err
	}
	d := p.driverPolicy()
	var env map[string]string
	if d.Network, env, err = c.ExpandNetwork(d.Network); err != nil {
		return driver.Policy{}, err
	}
	if len(env) > 0 {
		d.Env = overlayMap(env, d.Env)
	}
	return d, nil
}
