//go:build !linux

package testenv

import "testing"

// OwnNetwork does nothing: only Linux has networks of one's own.
func OwnNetwork(testing.TB) {}
