// Package all lists the providers that a croft has by itself, built over one data
// directory. The list is a function that is called, not a side effect of an
// import: who wants others, or fewer, writes a list of their own.
package all

import (
	"log/slog"
	"path/filepath"

	"github.com/croft-run/croft/provider/filestore"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// Config says what the providers share.
type Config struct {
	Data string       // the data directory; required
	Log  *slog.Logger // nil is silent
}

// Providers returns one provider of each kind. Nothing is made on disk before
// one of them is used. Those that are an io.Closer hold something open, and want
// to be closed when the last of their workspaces is.
func Providers(cfg Config) ([]driver.Provider, error) {
	directories, err := local.New(&local.Config{Root: filepath.Join(cfg.Data, "ws"), Forbidden: []string{cfg.Data}, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	database, err := filestore.New(&filestore.Config{Dir: cfg.Data, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	fenced, err := sandbox.New(&sandbox.Config{Root: filepath.Join(cfg.Data, "ws"), Forbidden: []string{cfg.Data}, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	return []driver.Provider{&memory.Provider{Log: cfg.Log}, directories, database, fenced}, nil
}
