package local

import (
	"errors"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// Files returns the files of a directory of this host as the module of a workspace, for
// providers that keep workspaces in directories. No path leads outside of the directory,
// also while other processes change it. The function closes the module; a second call of
// it does nothing.
func Files(dir string, readOnly bool) (*driver.FS, func() error, error) {
	root, err := files.Open(dir, &files.Options{ReadOnly: readOnly})
	if err != nil {
		return nil, nil, err
	}
	return root.Module(), func() error {
		if err := root.Close(); err != nil && !errors.Is(err, fault.WrongState) {
			return err
		}
		return nil
	}, nil
}
