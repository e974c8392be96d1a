//go:build !linux

package testenv

import "testing"

// NeedsTmpfs skips the test: only Linux has a tmpfs to fill.
func NeedsTmpfs(t testing.TB, _ int64) string {
	t.Helper()
	t.Skip("skipped: host: it lacks tmpfs")
	return ""
}
