//go:build !linux

package files

import (
	"fmt"

	"github.com/croft-run/croft/fault"
)

var errNoXattrs = fmt.Errorf("extended attributes: %w on this system", fault.Unsupported)

func (s system) xattrs(cleanName, string) (map[string]string, error) { return nil, errNoXattrs }

func (s system) setXattrs(cleanName, string, map[string]string) error { return errNoXattrs }
