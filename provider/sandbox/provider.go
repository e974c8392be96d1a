// Package sandbox is being tried.
package sandbox

// Provider holds what launches need.
type Provider struct {
	binary  string
	version string
	ids     ids
}
