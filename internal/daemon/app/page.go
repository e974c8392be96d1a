package app

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/server/page"
	"github.com/croft-run/croft/internal/server/replica"
	"github.com/croft-run/croft/internal/web"
)

// key returns a secret of the data directory. In a cluster it is derived from the secret of the cluster
// for the purpose, since the replicas accept each other's cookies and access tokens.
func (s *System) key(purpose, file string) (string, error) {
	if s.cluster != nil {
		return string(replica.Derive(s.cluster.secret, purpose)), nil
	}
	return datadir.SecretFile(s.Dir, file)
}

// openPage returns the server of the page.
func (s *System) openPage() (*page.Server, error) {
	key, err := s.key("page", datadir.PageKeyFile)
	if err != nil {
		return nil, err
	}
	assets, err := fs.Sub(web.Assets, "dist")
	if err != nil {
		return nil, fmt.Errorf("app: the page: %w: %w", fault.Internal, err)
	}
	file := s.settings().File()
	if file == filepath.Join(s.Dir, config.FileName) {
		file = "" // a command finds it by the data directory
	}
	return page.New(page.Config{Guard: s.guard, Key: key, Assets: assets, Data: s.Dir, File: file, Audit: s.auditSink(), Log: s.log})
}
