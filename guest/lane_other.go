//go:build !linux

package guest

import (
	"context"

	"github.com/croft-run/croft/workspace/driver"
)

// A lane is what guests have, and they run on Linux.
type lane struct{}

func (*lane) close() {}

func (*lane) run(context.Context, *order) (driver.Result, error, bool) { //nolint:revive // whether it ran is no part of the error
	return driver.Result{}, nil, false
}
