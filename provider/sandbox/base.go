package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
)

// baseOfDirs is the kind of a base that is a directory of this host.
const baseOfDirs = "dir"

// BaseTree returns what a snapshot of this provider lies over.
func BaseTree(b snapshot.Base) (snapshot.Tree, error) {
	if b.Kind != baseOfDirs || !filepath.IsAbs(b.Name) {
		return nil, fmt.Errorf("sandbox: a snapshot over %s %q: %w", b.Kind, b.Name, fault.Unsupported)
	}
	if _, err := os.Stat(b.Name); err != nil {
		return nil, fmt.Errorf("sandbox: the template %s of a snapshot: %w: %w", b.Name, fault.Of(err), err)
	}
	return snapshot.HostDir(b.Name, nil), nil
}
