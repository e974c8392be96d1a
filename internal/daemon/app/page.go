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

// pageKey returns the secret that encrypts the cookies of the page. The replicas of a cluster
// accept each other's cookies, so there it is derived from the secret of the cluster.
func (s *System) pageKey() (string, error) {
	if s.cluster != nil {
		return string(replica.Derive(s.cluster.secret, "page")), nil
	}
	return datadir.SecretFile(s.Dir, datadir.PageKeyFile)
}

// openPage returns the server of the page.
func (s *System) openPage() (*page.Server, error) {
	key, err := s.pageKey()
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
