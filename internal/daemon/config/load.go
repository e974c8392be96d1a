package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/strictyaml"
)

// EnvFile is the variable with the path of the file.
const EnvFile = "CROFT_CONFIG"

// Find returns the path of the file to read: the explicit one, else that of
// $CROFT_CONFIG, else croft.yaml in data, the data directory, else
// croft/croft.yaml in $XDG_CONFIG_HOME (~/.config where that is not set). It
// returns "" without a file, and NotFound if the explicit file or that of $CROFT_CONFIG
// does not exist.
//
// The current directory is not searched: an agent or a checkout could put a file there
// that allows more than its user wants. Such a file is read only if it is named. A file
// that was found, not named, must belong to this user or to root.
func Find(explicit, data string, getenv func(string) string) (string, error) {
	if explicit != "" {
		return explicit, checkExists(explicit, "--config")
	}
	if path := getenv(EnvFile); path != "" {
		return path, checkExists(path, "$"+EnvFile)
	}
	var candidates []string
	if data != "" {
		candidates = append(candidates, filepath.Join(data, FileName))
	}
	if home := configHome(getenv); home != "" {
		candidates = append(candidates, filepath.Join(home, "croft", FileName))
	}
	for _, path := range candidates {
		switch info, err := os.Stat(path); {
		case err == nil && !isTrustedOwner(info):
			return "", fmt.Errorf("config: find %s: %w: it belongs to another user; to use it, name it with --config", path, fault.PermissionDenied)
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("config: find %s: %w", path, err)
		}
	}
	return "", nil
}

// checkExists refuses the path of a file that does not exist. origin is the flag or
// variable with the path.
func checkExists(path, origin string) error {
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Advise(fmt.Errorf("config: %s %s: %w: there is no such file", origin, path, fault.NotFound),
			"croft config print writes a configuration with all defaults, to begin with")
	case err != nil:
		return fmt.Errorf("config: %s: %w", origin, err)
	}
	return nil
}

func configHome(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) { // the XDG specification says to ignore relative paths
		return dir
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".config")
	}
	return ""
}

// Load reads the file at path. Relative paths in it are relative to its
// directory, and ~/ is the home directory. A file that all users can write to is
// refused, because the file decides what agents may do.
func Load(path string) (*Config, error) { return complete(load(path)) }

func load(path string) (*Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("config: read %s: %w", path, err)
	}
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: read %s: %w", path, err)
	}
	return parse(data, path)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: it is not a regular file", fault.InvalidArgument)
	case info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf("%w: everyone may write it; chmod o-w", fault.PermissionDenied)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// Parse reads the text of a file. Relative paths in it stay as they are.
func Parse(data []byte) (*Config, error) { return complete(parse(data, "")) }

func complete(c *Config, err error) (*Config, error) {
	if err == nil {
		err = c.checkComplete()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func parse(data []byte, file string) (*Config, error) {
	c := Default()
	c.file, c.at = file, map[string]strictyaml.Position{}
	if err := c.decode(data); err != nil {
		return nil, err
	}
	c.resolvePaths()
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// resolvePaths makes paths absolute that are relative to the file or to home.
// Those of events and of a SQLite store are relative to the data directory, and
// package app resolves them.
func (c *Config) resolvePaths() {
	home := ""
	if h, err := os.UserHomeDir(); err == nil {
		home = h
	}
	c.Data = c.resolvePath(c.Data, home)
	c.Secrets.Dir = c.resolvePath(c.Secrets.Dir, home)
	for name, set := range c.Secrets.Workspaces {
		set.Dir = c.resolvePath(set.Dir, home)
		c.Secrets.Workspaces[name] = set
	}
	for _, path := range []*string{&c.Server.TLS.Cert, &c.Server.TLS.Key, &c.Cluster.SecretFile} {
		if *path != "" {
			*path = c.resolvePath(*path, home)
		}
	}
	for name, t := range c.Tenants {
		t.Secrets.Dir = c.resolvePath(t.Secrets.Dir, home)
		c.Tenants[name] = t
	}
	for i, dir := range c.Skills {
		c.Skills[i] = c.resolvePath(dir, home)
	}
	for i, path := range c.Evals.Suites {
		c.Evals.Suites[i] = c.resolvePath(path, home)
	}
	c.Evals.Dir = c.resolvePath(c.Evals.Dir, home)
	for i, root := range c.HostRoots {
		c.HostRoots[i] = expandHome(root, home)
	}
	c.Events.File = expandHome(c.Events.File, home)
}

func (c *Config) resolvePath(path, home string) string {
	path = expandHome(path, home)
	if path == "" || filepath.IsAbs(path) || c.file == "" {
		return path
	}
	return filepath.Join(filepath.Dir(c.file), path)
}

func expandHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	return path
}
