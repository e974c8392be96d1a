package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A Setting is a key of the file that a variable or a flag can set, too.
type Setting struct {
	Key string // path in the file, such as server.addr
	Env string // variable, such as CROFT_ADDR

	set func(c *Config, text, dir string) error
}

// Settings lists the settings. All other keys can be set only in the file.
func Settings() []Setting {
	return []Setting{
		{"data", "CROFT_DATA", func(c *Config, text, dir string) error { c.Data = joinUnder(dir, text); return nil }},
		{"server.addr", "CROFT_ADDR", func(c *Config, text, _ string) error { c.Server.Addr = text; return nil }},
		{"server.hosts", "CROFT_HOSTS", func(c *Config, text, _ string) error { c.Server.Hosts = strings.Split(text, ","); return nil }},
		{"server.tls.cert", "CROFT_TLS_CERT", func(c *Config, text, dir string) error { c.Server.TLS.Cert = joinUnder(dir, text); return nil }},
		{"server.tls.key", "CROFT_TLS_KEY", func(c *Config, text, dir string) error { c.Server.TLS.Key = joinUnder(dir, text); return nil }},
		{"server.log.level", "CROFT_LOG_LEVEL", func(c *Config, text, _ string) error { c.Server.Log.Level = text; return nil }},
		{"server.log.format", "CROFT_LOG_FORMAT", func(c *Config, text, _ string) error { c.Server.Log.Format = text; return nil }},
		{"store.url", "CROFT_STORE", func(c *Config, text, _ string) error { c.Store.URL = text; return nil }},
		{"store.bucket", "CROFT_BUCKET", func(c *Config, text, _ string) error { c.Store.Bucket = text; return nil }},
		{"cluster.advertise", "CROFT_ADVERTISE", func(c *Config, text, _ string) error { c.Cluster.Advertise = text; return nil }},
		{"cluster.node", "CROFT_NODE", func(c *Config, text, _ string) error { c.Cluster.Node = text; return nil }},
		{"cluster.secretFile", "CROFT_CLUSTER_SECRET_FILE", func(c *Config, text, dir string) error { c.Cluster.SecretFile = joinUnder(dir, text); return nil }},
		{"defaults.provider", "CROFT_PROVIDER", func(c *Config, text, _ string) error { c.Defaults.Provider = text; return nil }},
		{"defaults.policy", "CROFT_POLICY", func(c *Config, text, _ string) error { c.Defaults.Policy = text; return nil }},
		{"secrets.dir", "CROFT_SECRETS_DIR", func(c *Config, text, dir string) error { c.Secrets.Dir = joinUnder(dir, text); return nil }},
		{"caps.maxOpen", "CROFT_MAX_OPEN", func(c *Config, text, _ string) error { return c.Caps.MaxOpen.parse(text) }},
		{"caps.maxCommands", "CROFT_MAX_COMMANDS", func(c *Config, text, _ string) error { return c.Caps.MaxCommands.parse(text) }},
		{"events.file", "CROFT_EVENTS", func(c *Config, text, _ string) error { c.Events.File = text; return nil }},
	}
}

func joinUnder(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// ResolveOptions are the sources of settings. Nil is the environment of this process and
// the file that [Find] returns.
type ResolveOptions struct {
	File   string              // explicit path of the file; "" searches it with Find
	Data   string              // data directory in which Find searches; "" is none
	Dir    string              // base of relative paths in variables and flags; "" is the current directory
	Getenv func(string) string // nil is os.Getenv

	// Flags are the values of the given flags, by the key of their setting. An empty
	// value is a value, too.
	Flags map[string]string
}

// Resolve returns the effective configuration: flags over variables CROFT_* over
// the file over defaults. An empty variable is ignored.
func Resolve(opts *ResolveOptions) (*Config, error) {
	var o ResolveOptions
	if opts != nil {
		o = *opts
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("config: find the current directory: %w", err)
		}
		o.Dir = dir
	}
	c, err := o.loadFile()
	if err != nil {
		return nil, err
	}
	c.origin = map[string]string{}
	if err := o.applyOverrides(c); err != nil {
		return nil, err
	}
	return complete(c, c.check())
}

func (o *ResolveOptions) loadFile() (*Config, error) {
	path, err := Find(o.File, o.Data, o.Getenv)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return Default(), nil
	}
	c, err := load(path)
	if err != nil {
		return nil, err
	}
	if named := o.File != "" || o.Getenv(EnvFile) != ""; !named && o.Data != "" && path == filepath.Join(o.Data, FileName) && c.Data != "" {
		return nil, c.keyError("data", "the file in a data directory can't name one; leave it out, or put the file elsewhere")
	}
	return c, nil
}

func (o *ResolveOptions) applyOverrides(c *Config) error {
	known := map[string]bool{}
	var keys []string
	for _, s := range Settings() {
		known[s.Key], keys = true, append(keys, s.Key)
		text, from := o.Getenv(s.Env), "$"+s.Env
		if flag, given := o.Flags[s.Key]; given {
			text, from = flag, "the flag of "+s.Key
		} else if text == "" {
			continue
		}
		c.origin[s.Key] = from
		if err := s.set(c, text, o.Dir); err != nil {
			_, why, _ := strings.Cut(err.Error(), fault.InvalidArgument.Error()+": ")
			return c.keyError(s.Key, "%.40q: %s", text, why)
		}
	}
	for key := range o.Flags {
		if !known[key] {
			return fmt.Errorf("config: set %.80q by a flag: %w: settings are %s", key, fault.InvalidArgument, strings.Join(keys, ", "))
		}
	}
	return nil
}

// Origin returns the source of the value of a key, such as "$CROFT_ADDR",
// "croft.yaml:3:9" or "default".
func (c *Config) Origin(key string) string {
	if from := c.origin[key]; from != "" {
		return from
	}
	if at, ok := c.at[key]; ok {
		file := c.file
		if file == "" {
			file = FileName
		}
		return file + at.String()
	}
	return "default"
}
