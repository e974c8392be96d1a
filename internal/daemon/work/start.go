package work

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace"
)

// A User is the user of this host whose programs and logins are used.
type User struct {
	Home    string
	Environ []string // in the form of os.Environ

	models   map[string]string // URL of the model by agent, where a start names it
	codexKey string            // variable with the key of the model of Codex, where a start names it
}

// Env returns a variable, "" if it is not set.
func (u User) Env(name string) string {
	for _, entry := range slices.Backward(u.Environ) {
		if text, ok := strings.CutPrefix(entry, name+"="); ok {
			return text
		}
	}
	return ""
}

// Options say how a work starts.
type Options struct {
	Project Project
	Agent   *Agent   // nil is a command
	Words   []string // arguments of the agent, or the command

	InPlace     bool // use the project's directory itself
	NoAsk       bool // the agent asks for no permissions
	ShareLogin  bool // the login file and the keys themselves are inside
	Credentials bool // take credential files of the project along
	Isolation   workspace.Isolation

	// OnHost uses the provider local instead of the sandbox: the program, the home, the
	// login, the variables and the network are those of the user.
	OnHost bool

	Allow []workspace.NetRule
}

// A Start is what a work is opened with.
type Start struct {
	Options
	Dir      string // of the project inside
	Argv     []string
	Args     []string // of the agent, before those of the user
	Env      map[string]string
	AgentEnv map[string]string // of the agent alone
	Path     []string          // directories before those of PATH
	ReadOnly []string          // directories of the host that are shown, at their own paths
	Home     map[string][]byte // files of the home inside
	Notes    []string          // for the user
	Gateways []string          // of the model, as host:port, which the user named

	host   local.Options // with OnHost
	models []modelHost
	creds  []credential
	login  bool // a key or token of the agent was found
}

// A modelHost is where a model is served, as host or host:port.
type modelHost struct {
	at    string
	named bool // by the user: it may have a private address
}

// A credential is a secret that is sent to hosts; nil is those of the model.
type credential struct {
	name  string
	hosts []string
}

// pathInside is the path of a project whose own path can't be used inside.
const pathInside = "/workspace"

// New returns what a work is opened with.
func New(opts Options, u User) (*Start, error) {
	s := &Start{Options: opts, Dir: opts.Project.Dir, Env: map[string]string{}, Home: map[string][]byte{}}
	if opts.OnHost {
		return s, s.startOnHost(u)
	}
	if !opts.InPlace && isBelow(s.Dir, append([]string{"/etc", "/proc", "/dev", "/sys", "/run", "/boot"}, systemDirs...)...) {
		s.Dir = pathInside
	}
	for _, name := range []string{"TERM", "COLORTERM", "LANG", "TZ", "EDITOR"} {
		if text := u.Env(name); text != "" {
			s.Env[name] = text
		}
	}
	if opts.Agent == nil {
		s.Argv = opts.Words
		return s, nil
	}
	return s, s.addAgent(opts.Agent, u)
}

// addAgent adds the program of an agent, its settings, its login and its hosts.
func (s *Start) addAgent(a *Agent, u User) error {
	program, err := s.findProgram(a, u)
	if err != nil {
		return err
	}
	for _, h := range a.Hosts {
		s.models = append(s.models, modelHost{at: h})
	}
	base := a.baseURL(u)
	if base != "" {
		s.setModel(base)
	}
	s.addVariables(a, u)
	maps.Copy(s.Env, a.Env)
	keys, own := a.Keys, false
	if a.ownKey != nil {
		var name string
		if name, own = a.ownKey(u, s.Words); own {
			keys = []string{name}
		}
		if own && name != "" && u.Env(name) == "" {
			s.Notes = append(s.Notes, fmt.Sprintf("the variable %s, from which %s takes the key of its model, is not set", name, a.Name))
		}
	}
	for _, name := range keys {
		s.addKey(name, u)
	}
	if err := s.addUserFiles(a, u); err != nil {
		return err
	}
	if !own {
		if err := s.addLogin(a, u); err != nil {
			return err
		}
	}
	if a.prepare != nil {
		if err := a.prepare(s, u); err != nil {
			return err
		}
	}
	if !s.login && len(a.Hosts) > 0 && base == "" {
		file := ""
		if a.Login != nil {
			file = ", and there is no file ~/" + a.Login.File
		}
		s.Notes = append(s.Notes, fmt.Sprintf("no login of %s: none of the variables %s is set%s", a.Name, strings.Join(a.Keys, ", "), file))
	}
	s.noteUnforwarded()
	args := s.Words
	if s.NoAsk {
		args = slices.Concat(a.NoAsk, args)
		s.AgentEnv = a.NoAskEnv
	}
	s.Argv = slices.Concat([]string{program}, s.Args, args)
	return nil
}

// trustedDirs are the directories inside that the agent need not ask about.
func (s *Start) trustedDirs() []string {
	return Add([]string{s.Dir}, filepath.Join(s.Dir, s.Project.Sub))
}

// addVariables passes the variables of an agent on, except those that may have a secret in
// them: by their name, by their text, and headers of requests, which often are keys.
func (s *Start) addVariables(a *Agent, u User) {
	keys := a.Keys // which have placeholders
	if a.moreKeys != nil {
		keys = slices.Concat(keys, a.moreKeys(u))
	}
	var left []string
	for _, entry := range u.Environ {
		name, text, _ := strings.Cut(entry, "=")
		switch {
		case !slices.ContainsFunc(a.Prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) || slices.Contains(keys, name):
		case text != "" && (secret.IsSecretName(name) || strings.HasSuffix(name, "HEADERS") || hasSecret([]byte(text))):
			left = append(left, name)
		default:
			s.Env[name] = text
		}
	}
	if len(left) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("left out the variables %s: they may hold a secret; --env %s=... passes one on", strings.Join(left, ", "), left[0]))
	}
}

// addKey puts a placeholder in the place of a key in the environment, or with ShareLogin
// the key.
func (s *Start) addKey(name string, u User) {
	text := u.Env(name)
	if text == "" {
		return
	}
	s.login = true
	if s.ShareLogin {
		s.Env[name] = text
		s.Notes = append(s.Notes, name+" is inside: everything that runs there can read it")
		return
	}
	c := credential{name: strings.ToLower(name)}
	if host := keyHosts[name]; host != "" && len(s.models) == 0 {
		c.hosts = []string{host}
	}
	s.Env[name] = placeholder + c.name
	s.creds = append(s.creds, c)
}

// maxHomeFile bounds the size of a file that is copied.
const maxHomeFile = 1 << 20

// addUserFiles copies files of the user's home that have no secret in them.
func (s *Start) addUserFiles(a *Agent, u User) error {
	for _, name := range a.Files {
		data, err := os.ReadFile(u.userFile(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("work: %s: %w: %w", a.Name, fault.Of(err), err)
		case len(data) > maxHomeFile:
			s.Notes = append(s.Notes, fmt.Sprintf("left out ~/%s: it has more than %d bytes", name, maxHomeFile))
		case hasSecret(data):
			s.Notes = append(s.Notes, fmt.Sprintf("left out ~/%s: there is a secret in it", name))
		default:
			s.addFile(name, data)
		}
	}
	return nil
}

// hasSecret reports whether a text has a secret in it.
func hasSecret(data []byte) bool {
	return len(secret.Known().Find(data)) > 0
}

// addLogin adds the login file of an agent, with placeholders instead of tokens.
func (s *Start) addLogin(a *Agent, u User) error {
	if a.Login == nil || len(s.creds) > 0 {
		return nil // a key in the environment precedes
	}
	data, tokens, err := a.Login.read(u)
	if err != nil {
		return fmt.Errorf("work: login of %s: %w", a.Name, err)
	}
	if len(tokens) == 0 {
		return nil
	}
	s.login = true
	for _, t := range tokens {
		if !t.expires.IsZero() && time.Now().After(t.expires) && !s.ShareLogin {
			return fmt.Errorf("work: login of %s: %w: it expired at %s; start %s once outside, which renews it, or start a work with --share-login",
				a.Name, fault.Unauthenticated, t.expires.UTC().Format(time.RFC3339), a.Program)
		}
		hosts := t.hosts
		if a.Base != "" && u.Env(a.Base) != "" || a.Login == claudeLogin && a.baseURL(u) != "" {
			hosts = nil // the endpoint that the user named
		}
		s.creds = append(s.creds, credential{t.name, hosts})
	}
	if s.ShareLogin {
		s.creds = nil
		s.Notes = append(s.Notes, fmt.Sprintf("~/%s is inside: everything that runs there can read the tokens in it", a.Login.File))
		s.addFile(a.Login.File, data)
		for _, t := range tokens {
			for _, h := range t.hosts {
				s.models = append(s.models, modelHost{at: h})
			}
		}
		return nil
	}
	s.addFile(a.Login.File, a.Login.mask(data, func(name string) string { return placeholder + name }))
	return nil
}

func (s *Start) addFile(name string, data []byte) { s.Home[name] = data }

func (s *Start) addJSON(name string, v any) error {
	data, err := json.Marshal(v)
	s.addFile(name, data)
	return err
}

// A Secret is a key or token of the user, and how it may be sent.
type Secret struct {
	Text  string
	Plain bool // also over HTTP without TLS: the user named such an endpoint
}

// sharedLogin is the text of LoginLabel.
const sharedLogin = "shared"

// Again returns options with which the agent of a work, by the labels of its workspace, starts
// again as it started first.
func (o Options) Again(labels map[string]string) Options {
	o.Agent, o.ShareLogin = FindAgent(labels[AgentLabel]), labels[LoginLabel] == sharedLogin
	o.NoAsk = labels[YoloLabel] == "true"
	if sub, err := strconv.Unquote(labels[SubLabel]); err == nil && filepath.IsLocal(sub) {
		o.Project.Sub = sub
	}
	return o
}

// Spec returns the spec of the workspace, without a name, and without SandboxOptions.
func (s *Start) Spec() (workspace.Spec, error) {
	name := "command"
	switch {
	case s.Agent != nil:
		name = s.Agent.Name
	case len(s.Argv) > 0:
		name = filepath.Base(s.Argv[0])
	}
	const longest = 200
	spec := workspace.Spec{Kind: sandbox.Kind, Policy: workspace.Policy{Isolation: s.Isolation}, Labels: map[string]string{ProjectLabel: s.Project.Key(), AgentLabel: name[:min(len(name), longest)]}}
	if s.ShareLogin {
		spec.Labels[LoginLabel] = sharedLogin
	}
	if s.Agent != nil && s.NoAsk {
		spec.Labels[YoloLabel] = "true"
	}
	if s.Agent != nil && len(s.Words) > 0 {
		spec.Labels[ArgsLabel] = strconv.Itoa(len(s.Words))
	}
	if sub := strconv.QuoteToASCII(s.Project.Sub); s.Project.Sub != "" && len(sub) <= longest {
		spec.Labels[SubLabel] = sub
	}
	if s.OnHost {
		return s.hostSpec(spec)
	}
	if s.InPlace {
		spec.Dir = s.Project.Dir
	} else {
		spec.From.Template, spec.From.Credentials = s.Project.Dir, s.Credentials
	}
	env := maps.Clone(s.Env)
	if len(s.Path) > 0 {
		env["PATH"] = strings.Join(append(slices.Clone(s.Path), process.DefaultPath), ":")
	}
	spec.Policy.Env = env
	spec.Policy.Network.Allow = s.rules()
	return spec, nil
}

// SandboxOptions returns the options of the sandbox.
func (s *Start) SandboxOptions() (opts sandbox.Options) {
	if !s.InPlace {
		opts.At = s.Dir
	}
	for _, dir := range s.ReadOnly {
		// What lies in another directory is visible. The changes of a work are there without
		// its agent, too.
		if !slices.ContainsFunc(s.ReadOnly, func(other string) bool { return other != dir && isBelow(dir, other) }) {
			opts.Binds = append(opts.Binds, sandbox.Bind{Dir: dir, ReadOnly: true, HideCredentials: true, Optional: true})
		}
	}
	return opts
}

// rules returns the network rules: the hosts of the model and of credentials, and the
// allowed ones.
func (s *Start) rules() []workspace.NetRule {
	var rules []workspace.NetRule
	add := func(host, credential string) {
		rule := hostRule(host)
		rule.Credential = credential
		rule.Private = net.ParseIP(rule.Host) == nil && slices.Contains(s.models, modelHost{host, true})
		if !slices.ContainsFunc(rules, func(r workspace.NetRule) bool { return r.Host == rule.Host && slices.Equal(r.Ports, rule.Ports) }) {
			rules = append(rules, rule)
		}
	}
	for _, c := range s.creds {
		hosts := c.hosts
		if hosts == nil {
			for _, m := range s.models {
				hosts = append(hosts, m.at)
			}
		}
		for _, h := range hosts {
			add(h, c.name)
		}
	}
	for _, m := range s.models {
		add(m.at, "")
	}
	for _, r := range s.Allow {
		if !slices.ContainsFunc(rules, func(have workspace.NetRule) bool { return have.Host == r.Host && slices.Equal(have.Ports, r.Ports) }) {
			rules = append(rules, r)
		}
	}
	return Without(rules, nil)
}

// Without returns rules without those that were allowed by the user. Those with a credential stay.
func Without(rules, allowed []workspace.NetRule) []workspace.NetRule {
	left := slices.DeleteFunc(slices.Clone(rules), func(r workspace.NetRule) bool {
		return r.Credential == "" && slices.ContainsFunc(allowed, func(a workspace.NetRule) bool { return a.Host == r.Host && slices.Equal(a.Ports, r.Ports) })
	})
	if len(left) == 0 {
		// A workspace without network can't get one while it runs.
		left = append(left, workspace.NetRule{Host: noHost})
	}
	return left
}

// Renew returns the policy of a work that was opened before with the login that the agent has
// now: the user may have logged in since, or have another key. It sets the variables of keys
// for the agent alone.
func (s *Start) Renew(policy workspace.Policy, u User) workspace.Policy {
	keys := s.Agent.Keys
	if s.Agent.moreKeys != nil {
		keys = slices.Concat(keys, s.Agent.moreKeys(u))
	}
	agentEnv := maps.Clone(s.AgentEnv)
	for _, name := range keys {
		before, now := policy.Env[name], s.Env[name]
		if before != now && (before == "" || strings.HasPrefix(before, placeholder)) { // else --env has set it
			if agentEnv == nil {
				agentEnv = map[string]string{}
			}
			agentEnv[name] = now
		}
	}
	s.AgentEnv = agentEnv
	policy.Network.Allow = slices.Clone(policy.Network.Allow)
	for _, rule := range s.rules() {
		i := slices.IndexFunc(policy.Network.Allow, func(r workspace.NetRule) bool { return r.Host == rule.Host && slices.Equal(r.Ports, rule.Ports) })
		switch {
		case rule.Host == noHost:
		case i < 0:
			policy.Network.Allow = append(policy.Network.Allow, rule)
		case rule.Credential != "":
			policy.Network.Allow[i].Credential = rule.Credential
		}
	}
	return policy
}

// noHost is a name that does not exist (RFC 2606).
const noHost = "none.invalid"

// hostRule returns the rule of host or host:port.
func hostRule(at string) workspace.NetRule {
	if host, port, err := net.SplitHostPort(at); err == nil {
		if n, err := strconv.Atoi(port); err == nil {
			return workspace.NetRule{Host: host, Ports: []int{n}}
		}
	}
	return workspace.NetRule{Host: at}
}

// HomeArchive returns the files of the home as a tar archive, nil for none.
func (s *Start) HomeArchive() ([]byte, error) {
	if len(s.Home) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(s.Home)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(s.Home[name])), ModTime: time.Now()}); err != nil {
			return nil, err
		}
		if _, err := w.Write(s.Home[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
