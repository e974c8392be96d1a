//go:build !linux || !amd64

package process

// forkAwaiting is not to be had here.
func forkAwaiting(*Spec) (Child, error) { return Child{}, ErrNoWord }
