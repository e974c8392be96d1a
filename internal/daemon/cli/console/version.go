package console

import (
	croft "github.com/croft-run/croft/internal/version"
)

// Version returns the version that the program was built from.
func Version() string { return croft.Get().Version }
