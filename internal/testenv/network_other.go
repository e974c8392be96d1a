//go:build !linux

package testenv

import "testing"

// OwnNetwork does nothing: only Linux has network namespaces.
func OwnNetwork(testing.TB) {}
