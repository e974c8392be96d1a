package config

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace/driver"
)

var (
	validName     = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)
	validVariable = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	validEnvRule  = lazyregexp.New(`^[A-Za-z_*][A-Za-z0-9_*]*$`)
	validSecret   = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)
	validHeader   = lazyregexp.New(`^[A-Za-z0-9-]+$`)
	validMethod   = lazyregexp.New(`^[A-Z]+(-[A-Z]+)*$`)
	validLabel    = lazyregexp.New(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
)

const nameForm = "a name has 1 to 63 of A-Z, a-z, 0-9, _ and -, and begins with a letter or digit"

// check checks the values of the keys. decode has checked their types.
func (c *Config) check() error {
	if c.Version != Version {
		return c.keyError("version", "this croft reads version %d; the file says %d", Version, c.Version)
	}
	for _, check := range []func() error{
		c.checkTexts, c.checkServer, c.checkStore, c.checkCluster, c.checkProviders, c.checkNetworkSettings, c.checkPolicies, c.checkCredentials,
		c.checkDefaults, c.checkSecrets, c.checkTenants, c.checkHostRoots, c.checkEvals, c.checkRules, c.checkEvents, c.checkProject,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkServer() error {
	host, port, err := net.SplitHostPort(c.Server.Addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return c.keyError("server.addr", "%.80q: it is written HOST:PORT", c.Server.Addr)
	case host == "":
		return c.keyError("server.addr", "%.80q: write the host out, such as 127.0.0.1:%s; 0.0.0.0:%s binds every interface", c.Server.Addr, port, port)
	}
	for i, h := range c.Server.Hosts {
		if _, err := netip.ParseAddr(h); err != nil && !validHost(h) {
			return c.keyError(itemPath("server.hosts", i), "%.80q: it must be a name or an address, without a port", h)
		}
	}
	if domain := c.Server.Domain; domain != "" {
		host, port, err := net.SplitHostPort(domain)
		if err != nil {
			host, port = domain, "80"
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil || !validHost(host) {
			return c.keyError("server.domain", "%.80q: it must be a name, with or without a port", domain)
		}
	}
	if err := c.Server.Log.Check(); err != nil {
		return c.keyError("server.log", "%v", err)
	}
	for i, name := range c.Server.Providers {
		if !validName.MatchString(name) || name == Auto {
			return c.keyError(itemPath("server.providers", i), "%.80q: it must be the name of a provider; %s", name, nameForm)
		}
	}
	return nil
}

func (c *Config) checkStore() error {
	if err := c.checkBucket(); err != nil {
		return err
	}
	const at = "store.url"
	text := c.Store.URL
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"sqlite", "postgres", "postgresql"}, u.Scheme) {
		return c.keyError(at, "it must be sqlite:PATH or postgres://HOST/DATABASE") // the text is not repeated: it may hold a password
	}
	_, password := u.User.Password()
	password = password || u.Query().Has("password")
	if password && c.origin[at] == "" {
		return c.keyError(at, "it holds a password; put the URL into $CROFT_STORE, or the password into ~/.pgpass")
	}
	return nil
}

func (c *Config) checkBucket() error {
	if c.Store.Bucket == "" {
		return nil
	}
	u, err := url.Parse(c.Store.Bucket)
	isS3 := err == nil && u.Scheme == "s3" && u.Host != ""
	isFile := err == nil && u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path)
	if !isS3 && !isFile || u.User != nil {
		return c.keyError("store.bucket", "it must be s3://BUCKET?region=REGION or file:///DIRECTORY; credentials are in the environment, never in the URL") // the text may hold a password
	}
	return nil
}

// validNode is the form of the name of a node: that of a host name.
var validNode = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$`)

func (c *Config) checkCluster() error {
	cl := c.Cluster
	u, err := url.Parse(cl.Advertise)
	if cl.Advertise != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "") {
		return c.keyError("cluster.advertise", "it must be http://HOST:PORT or https://HOST:PORT, without a path or a login") // the text may have a password
	}
	if cl.Node != "" && !validNode.MatchString(cl.Node) {
		return c.keyError("cluster.node", "%.80q: a name has 1 to 63 of A-Z, a-z, 0-9, . and -, and begins with a letter or digit", cl.Node)
	}
	return nil
}

// checkComplete checks that no key is without another that it needs. It is called when all
// sources were read: a variable may set the other key.
func (c *Config) checkComplete() error {
	if (c.Server.TLS.Cert == "") != (c.Server.TLS.Key == "") {
		return c.keyError("server.tls", "give both cert and key")
	}
	cl := c.Cluster
	switch {
	case cl.Advertise == "" && cl.Node == "" && cl.SecretFile == "":
		return nil
	case cl.Advertise == "":
		return c.keyError("cluster", "it has no advertise, the URL at which the other replicas reach this one; set it here or by $CROFT_ADVERTISE")
	case cl.SecretFile == "":
		return c.keyError("cluster", "it has no secretFile ($CROFT_CLUSTER_SECRET_FILE): give a file with a text of at least 32 characters, the same on all replicas, such as that of openssl rand -hex 32")
	case !strings.HasPrefix(c.Store.URL, "postgres"):
		return c.keyError("cluster", "the replicas of a cluster share their store, so store.url must be postgres://HOST/DATABASE; $CROFT_STORE sets it, too")
	}
	return nil
}

func (c *Config) checkProviders() error {
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		at := "providers." + name
		if !validName.MatchString(name) {
			return c.keyError(at, "%s", nameForm)
		}
		if kind := c.Providers[name].Kind; kind != "" && !validName.MatchString(kind) {
			return c.keyError(at+".kind", "%.80q: %s", kind, nameForm)
		}
		if name == Auto {
			return c.keyError(at, "this name stands for the provider that is chosen by need")
		}
	}
	return c.checkWraps()
}

// checkWraps refuses two entries with wrappers (pool, limit, retry, record) for one kind,
// because wrappers apply to all entries of a kind.
func (c *Config) checkWraps() error {
	wrapped := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		p := c.Providers[name]
		if !p.Wraps() {
			continue
		}
		kind := cmp.Or(p.Kind, name)
		if other, ok := wrapped[kind]; ok {
			return c.keyError("providers."+name, "pool, limit, retry and record are for all of a kind, and %q has them for %s", other, kind)
		}
		wrapped[kind] = name
	}
	return nil
}

func (c *Config) checkPolicies() error {
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		at, p := "policies."+name, c.Policies[name]
		if !validName.MatchString(name) {
			return c.keyError(at, "%s", nameForm)
		}
		if p.Isolation.Rank() < 0 {
			return c.keyError(at+".isolation", "%.80q: the levels are %v", p.Isolation, driver.Isolations)
		}
		for _, name := range slices.Sorted(maps.Keys(p.Env)) {
			if !validVariable.MatchString(name) {
				return c.keyError(at+".env."+name, "a variable has letters, digits and _, and does not begin with a digit")
			}
		}
		if err := c.checkNetwork(at+".network", p.Network); err != nil {
			return err
		}
		whole, err := c.flattenPolicy(name, nil)
		if err != nil {
			return err
		}
		if n := whole.Network; n != nil && deref(n.Open) && len(n.Allow)+len(n.Deny) > 0 {
			return c.keyError(at+".network", "an open network goes without the proxy, so allow and deny can't hold; leave out one of them")
		}
	}
	return nil
}

func (c *Config) checkNetwork(at string, n *Network) error {
	if n == nil {
		return nil
	}
	for i, r := range n.Allow {
		if err := c.checkNetRule(itemPath(at+".allow", i), r); err != nil {
			return err
		}
	}
	for i, r := range n.Deny {
		if err := c.checkNetRule(itemPath(at+".deny", i), r); err != nil {
			return err
		}
		if r.Credential != nil || r.Private {
			return c.keyError(itemPath(at+".deny", i), "credential and private are for rules that allow")
		}
	}
	return nil
}

// anyHost is the host of a rule for all of the public internet.
const anyHost = "*"

func (c *Config) checkNetRule(at string, r NetRule) error {
	if name, named := strings.CutPrefix(r.Host, "@"); named {
		if _, err := c.namedRules(name); err != nil {
			return c.keyError(at+".host", "%v", err)
		}
		if r.Credential != nil || r.Private || len(r.Ports) > 0 {
			return c.keyError(at, "a named rule has its own ports and credentials; define one in network.rules")
		}
	} else if r.Host == anyHost {
		if r.Credential != nil || r.Private {
			return c.keyError(at, "credential and private are for single hosts, not for *")
		}
	} else if !validTarget(r.Host) {
		return c.keyError(at+".host", "%.80q: it must be a name, *.name, an address, a range of them (CIDR), or * for the public internet, without scheme and port", r.Host)
	}
	for i, p := range r.Ports {
		if p < 1 || p > 65535 {
			return c.keyError(itemPath(at+".ports", i), "%d: a port is 1 to 65535", p)
		}
	}
	for i, m := range r.Methods {
		if !validMethod.MatchString(m) {
			return c.keyError(itemPath(at+".methods", i), "%.40q: a method is written in capitals, such as GET", m)
		}
	}
	if r.Credential == nil {
		return nil
	}
	return c.checkCredential(at+".credential", *r.Credential)
}

func (c *Config) checkCredential(at string, cred Credential) error {
	switch {
	case !validSecret.MatchString(cred.Secret): // the text is not repeated: it may be a secret
		return c.keyError(at+".secret", "it must be the name of a secret, with 1 to 64 of A-Z, a-z, 0-9, _ and -; the secret itself is never in this file")
	case cred.Name != "" && !validSecret.MatchString(cred.Name):
		return c.keyError(at+".name", "it must have 1 to 64 of A-Z, a-z, 0-9, _ and -")
	case cred.Header != "" && !validHeader.MatchString(cred.Header):
		return c.keyError(at+".header", "%.40q: it must be the name of a header", cred.Header)
	case cred.Format != "" && (strings.Count(cred.Format, secretMark) != 1 || hasControl(cred.Format)):
		return c.keyError(at+".format", "it must have %s in it once, such as Bearer %s", secretMark, secretMark)
	case cred.User != "" && (cred.Format != "" || strings.Contains(cred.User, ":") || hasControl(cred.User)):
		return c.keyError(at+".user", "a user has no colon, and goes without a format")
	case cred.Placeholder && (cred.Header != "" || cred.Format != "" || cred.User != ""):
		return c.keyError(at+".placeholder", "it adds no header, so header, format and user have no use")
	}
	return nil
}

const secretMark = "{secret}"

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// checkCredentials refuses two credentials of one name, because a policy refers
// to a credential by its name alone.
func (c *Config) checkCredentials() error {
	first := map[string]Credential{}
	for at, r := range c.credentialRules() {
		if r.Credential.short {
			continue
		}
		cred := *r.Credential
		cred.Name = cred.ruleName()
		if other, there := first[cred.Name]; there && other != cred {
			return c.keyError(at, "the credential %q is sent in another way elsewhere; give one of them a name", cred.Name)
		}
		first[cred.Name] = cred
	}
	return nil
}

func (c *Config) checkDefaults() error {
	if !validName.MatchString(c.Defaults.Provider) {
		return c.keyError("defaults.provider", "%.80q: %s", c.Defaults.Provider, nameForm)
	}
	if _, ok := c.Policies[c.Defaults.Policy]; !ok {
		return c.keyError("defaults.policy", "there is no policy %.80q; the policies are %s", c.Defaults.Policy, strings.Join(slices.Sorted(maps.Keys(c.Policies)), ", "))
	}
	return nil
}

func (c *Config) checkSecrets() error {
	const form = "a prefix is the beginning of a variable: letters, digits and _"
	if !validVariable.MatchString(c.Secrets.Env) {
		return c.keyError("secrets.env", "%s", form)
	}
	if err := c.checkSecretHosts(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets.Workspaces)) {
		at, set := "secrets.workspaces."+name, c.Secrets.Workspaces[name]
		switch {
		case !driver.ValidID(name) && !driver.ValidWorkspaceName(name):
			return c.keyError(at, "it must be the name or the id of a workspace")
		case set.Env == "" && set.Dir == "":
			return c.keyError(at, "it says neither env nor dir")
		case set.Env != "" && !validVariable.MatchString(set.Env):
			return c.keyError(at+".env", "%s", form)
		case set.Env != "" && (strings.HasPrefix(set.Env, c.Secrets.Env) || strings.HasPrefix(c.Secrets.Env, set.Env)):
			return c.keyError(at+".env", "%s and the shared prefix %s overlap", set.Env, c.Secrets.Env)
		}
	}
	return c.checkPatterns()
}

func (c *Config) checkProject() error {
	for _, name := range slices.Sorted(maps.Keys(c.Project.Workspaces)) {
		if !driver.ValidID(name) && !driver.ValidWorkspaceName(name) {
			return c.keyError("project.workspaces."+name, "it must be the name or the id of a workspace")
		}
	}
	return nil
}

// checkSecretHosts checks secrets.hosts, and refuses a policy that sends a secret to a
// host that is not listed there.
func (c *Config) checkSecretHosts() error {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets.Hosts)) {
		at := "secrets.hosts." + name
		other := seen[strings.ToLower(name)]
		switch {
		case !validSecret.MatchString(name):
			return c.keyError(at, "it must be the name of a secret, with 1 to 64 of A-Z, a-z, 0-9, _ and -")
		case other != "":
			return c.keyError(at, "it is the same secret as %s", other)
		}
		seen[strings.ToLower(name)] = name
		for i, host := range c.Secrets.Hosts[name] {
			if !validTarget(host) || host == anyHost || strings.Contains(host, "/") {
				return c.keyError(itemPath(at, i), "%.80q: it must be a name, *.name or an address, without scheme and port", host)
			}
		}
	}
	for at, r := range c.credentialRules() {
		if err := c.CheckHost(r.Credential.Secret, r.Host); err != nil {
			return c.keyError(at, "the secret %s may not go to %s; see secrets.hosts", r.Credential.Secret, r.Host)
		}
	}
	return nil
}

func (c *Config) checkPatterns() error {
	for _, name := range slices.Sorted(maps.Keys(c.Secrets.Patterns)) {
		at := "secrets.patterns." + name
		if !driver.ValidWorkspaceName(name) {
			return c.keyError(at, "a name has lower-case letters, digits and -")
		}
		re, err := regexp.Compile(c.Secrets.Patterns[name])
		switch {
		case err != nil:
			return c.keyError(at, "it is no regular expression: %v", err)
		case re.MatchString(""):
			return c.keyError(at, "it matches the empty string, and so every text")
		}
	}
	return nil
}

func (c *Config) checkHostRoots() error {
	for i, root := range c.HostRoots {
		switch {
		case !filepath.IsAbs(root) || filepath.Clean(root) != root:
			return c.keyError(itemPath("hostRoots", i), "%.80q: it must be an absolute path without .. and without a slash at its end", root)
		case root == string(filepath.Separator):
			return c.keyError(itemPath("hostRoots", i), "it names the whole host; list the directories that are meant")
		}
	}
	return nil
}

func (c *Config) checkEvals() error {
	for i, path := range append(slices.Clone(c.Evals.Suites), c.Evals.Dir) {
		at := "evals.dir"
		if i < len(c.Evals.Suites) {
			at = itemPath("evals.suites", i)
		}
		if path != "" && !filepath.IsAbs(path) || path == "" && at != "evals.dir" {
			return c.keyError(at, "%.80q: it must be an absolute path, or one relative to the file", path)
		}
	}
	return nil
}

func (c *Config) checkRules() error {
	for at, list := range map[string][]string{"env.allow": c.Env.Allow, "env.deny": c.Env.Deny} {
		for i, pattern := range list {
			if !validEnvRule.MatchString(pattern) {
				return c.keyError(itemPath(at, i), "%.80q: a pattern has letters, digits, _ and *", pattern)
			}
		}
	}
	for at, list := range map[string][]string{"commands.allow": c.Commands.Allow, "commands.deny": c.Commands.Deny} {
		for i, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.ContainsAny(pattern, " \t\n") {
				return c.keyError(itemPath(at, i), "%.80q: a pattern is the name of a program, in which *, ? and [...] may stand for characters", pattern)
			}
		}
	}
	return nil
}

func (c *Config) checkEvents() error {
	switch e := c.Events; {
	case e.File == "":
		return c.keyError("events.file", "it must be a path, or %s", NoFile)
	case e.MaxSize < 4<<10:
		return c.keyError("events.maxSize", "%s: the least is 4K", e.MaxSize)
	case e.Keep < 1 || e.Keep > 1000:
		return c.keyError("events.keep", "%d: it must be 1 to 1000", e.Keep)
	case !slices.Contains(syncs, e.Sync):
		return c.keyError("events.sync", "%.40q: allowed are %s", e.Sync, strings.Join(syncs, ", "))
	}
	return nil
}

var syncs = []string{"none", "interval", "always"}

func itemPath(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }

// validTarget reports whether the host of a rule is a valid name, address or CIDR range.
func validTarget(host string) bool {
	if _, err := netip.ParsePrefix(host); err == nil {
		return true
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Zone() == ""
	}
	return validHost(strings.TrimPrefix(host, "*."))
}

// validHost reports whether name is a valid host name. A name whose last label begins
// with a digit is not: resolvers take it for an IPv4 address, such as 127.1.
func validHost(name string) bool {
	if len(name) > 253 {
		return false
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if !validLabel.MatchString(l) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return last[0] < '0' || last[0] > '9'
}
