//go:build !linux

package guestbin

import "errors"

func place([]byte) (string, error) { return "", errors.New("croft-guest runs on Linux alone") }
