//go:build !linux || !amd64

package openfiles

var (
	given Limit
	known bool
)
