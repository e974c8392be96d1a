package command

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/croft-run/croft/config"
	"github.com/croft-run/croft/workspace"
)

// policyFlags are the flags by which a command says what a workspace is to be
// like. What a provider can't give it refuses, and says why.
type policyFlags struct {
	name       string
	isolation  string
	template   string
	allowNet   []string
	openNet    bool
	secrets    []string
	memory     string
	disk       string
	cpus       string
	pids       int64
	files      int64
	bestEffort bool
	env        []string
}

func (p *policyFlags) register(f *pflag.FlagSet) {
	f.StringVar(&p.name, "policy", "", "policy of the configuration, by its name; the flags below change it (default defaults.policy)")
	f.StringVar(&p.isolation, "isolation", "", "least level of isolation: none, process, bubblewrap, namespaces, container, gvisor, vm (default the provider's)")
	f.StringVar(&p.template, "template", "", "start with the files of this template, by its name, or of this directory, without copying them")
	f.StringArrayVar(&p.allowNet, "allow-net", nil, "let HOST[:PORT] be reached; *.HOST is what is below it; may be given several times (default nothing)")
	f.BoolVar(&p.openNet, "open-net", false, "let everything be reached, without a proxy")
	f.StringArrayVar(&p.secrets, "secret", nil, "NAME@HOST: let HOST be reached with this secret, which the workspace never sees; may be given several times")
	f.StringVar(&p.memory, "memory", "", "limit of memory, such as 512M")
	f.StringVar(&p.cpus, "cpus", "", "limit of processor time, in cores, such as 1.5")
	f.Int64Var(&p.pids, "pids", 0, "limit of processes and threads; 0 is none")
	f.StringVar(&p.disk, "disk", "", "limit of what the workspace may hold, such as 1G")
	f.Int64Var(&p.files, "open-files", 0, "limit of open files, per process; 0 is none")
	f.BoolVar(&p.bestEffort, "best-effort", false, "go on without limits that the provider can't enforce")
	f.StringArrayVar(&p.env, "env", nil, "K=V for every process; may be given several times")
}

// apply sets in spec what the flags say. Directories of a server's host are named
// from its root: those of this one mean nothing there.
func (p *policyFlags) apply(spec *workspace.Spec, onServer bool) error {
	spec.Policy.Isolation = workspace.Isolation(p.isolation)
	var err error
	if spec.Policy.Env, err = parseEnv(p.env); err != nil {
		return err
	}
	if spec.From.Template, err = p.from(onServer); err != nil {
		return err
	}
	if err := p.network(&spec.Policy.Network); err != nil {
		return err
	}
	return p.limits(&spec.Policy.Limits)
}

// from is the template: a name, or an absolute path.
func (p *policyFlags) from(onServer bool) (string, error) {
	written := strings.Contains(p.template, "/") || p.template == "." || p.template == ".."
	switch {
	case onServer && written && !filepath.IsAbs(p.template):
		return "", usagef("--template %s is relative: with --server, give a directory of the server's host from its root, or a name", p.template)
	case written, !onServer && isPath(p.template):
		return filepath.Abs(p.template)
	}
	return p.template, nil
}

func (p *policyFlags) network(n *workspace.Network) error {
	n.Open = p.openNet
	for _, host := range p.allowNet {
		rule, err := parseRule("--allow-net", host)
		if err != nil {
			return err
		}
		n.Allow = append(n.Allow, rule)
	}
	for _, s := range p.secrets {
		name, host, ok := strings.Cut(s, "@")
		if !ok || name == "" {
			return usagef("--secret %q is not NAME@HOST", s)
		}
		rule, err := parseRule("--secret", host)
		if err != nil {
			return err
		}
		rule.Credential = strings.ToLower(name) // as the configuration has it
		n.Allow = append(n.Allow, rule)
	}
	if p.openNet && len(n.Allow) > 0 {
		return usagef("--open-net lets everything be reached: --allow-net and --secret make no sense with it")
	}
	return nil
}

// parseRule reads HOST or HOST:PORT. An address of version 6 with a port is
// written [ADDR]:PORT.
func parseRule(flag, s string) (workspace.NetRule, error) {
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return workspace.NetRule{}, usagef("%s %q is not HOST or HOST:PORT: leave out %s:// and what comes after the host", flag, s, scheme)
	}
	host, port := s, ""
	bare := strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[")
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") && !bare {
		host, port = s[:i], s[i+1:]
	}
	rule := workspace.NetRule{Host: strings.Trim(host, "[]")}
	if rule.Host == "" || strings.ContainsAny(rule.Host, "/@ ") {
		return rule, usagef("%s %q is not HOST or HOST:PORT", flag, s)
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return rule, usagef("%s %q: the port is a number from 1 to 65535", flag, s)
		}
		rule.Ports = []int{int(n)}
	}
	return rule, nil
}

func (p *policyFlags) limits(l *workspace.Limits) error {
	set := func(limit *workspace.Limit, flag, text, allowed string, parse func(string) (int64, error)) error {
		if text == "" {
			return nil
		}
		n, err := parse(text)
		if err != nil || n <= 0 {
			return usagef("%s %q: it is %s", flag, text, allowed)
		}
		*limit = workspace.Limit{Max: n, BestEffort: p.bestEffort}
		return nil
	}
	for _, x := range []struct {
		limit   *workspace.Limit
		flag    string
		text    string
		allowed string
		parse   func(string) (int64, error)
	}{
		{&l.Memory, "--memory", p.memory, "a number of bytes above 0, such as 512M or 2G", config.ParseBytes},
		{&l.Disk, "--disk", p.disk, "a number of bytes above 0, such as 512M or 2G", config.ParseBytes},
		{&l.CPU, "--cpus", p.cpus, "a number of cores above 0, such as 1.5", config.ParseCPUs},
		{&l.PIDs, "--pids", number(p.pids), "a number above 0; 0 is no limit", count},
		{&l.OpenFiles, "--open-files", number(p.files), "a number above 0; 0 is no limit", count},
	} {
		if err := set(x.limit, x.flag, x.text, x.allowed, x.parse); err != nil {
			return err
		}
	}
	return nil
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func count(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

// parseEnv reads K=V pairs.
func parseEnv(pairs []string) (map[string]string, error) {
	var env map[string]string
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, usagef("--env %q is not K=V", pair)
		}
		if env == nil {
			env = map[string]string{}
		}
		env[k] = v
	}
	return env, nil
}
