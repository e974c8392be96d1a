//go:build !linux

package files

import (
	"context"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Import is not supported on this system; package workspace then writes file by file.
func (r *Root) Import(_ context.Context, _, name string, _ *driver.ImportOptions) (driver.ImportResult, error) {
	return driver.ImportResult{}, opError("import", name, fault.Unsupported)
}
