//go:build !unix

package workspacetest

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
