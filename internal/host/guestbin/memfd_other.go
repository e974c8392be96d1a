//go:build !linux

package guestbin

import (
	"errors"
	"io"
)

func writeMemfd(io.Reader) (string, error) { return "", errors.New("croft-guest runs on Linux only") }
