// Package guestbin finds the program croft-guest. A croft that was built with
// "make build" carries it inside; one that was built otherwise looks for it
// beside itself and on PATH.
//
// It is apart from package guest because croft-guest itself links that one.
package guestbin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/croft-run/croft/fault"
)

// Name is the name of the program.
const Name = "croft-guest"

//go:embed bin
var embedded embed.FS

// Embedded returns the program for an architecture, as GOARCH names it, if this
// program carries it.
func Embedded(arch string) ([]byte, bool) {
	data, err := embedded.ReadFile("bin/linux-" + arch)
	return data, err == nil
}

// A Binary is a croft-guest that can be started on this host.
type Binary struct {
	Path    string
	Version string // of its content: equal for equal programs alone
	From    string // where it was found, for people
}

// Find returns the program: at path, if that is not empty; else the embedded
// one; else the one beside the running program; else the one on PATH. It fails
// naming these.
func Find(path string) (*Binary, error) {
	if path != "" {
		return open(path, "the configuration")
	}
	if b, err := inside(); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if self, err := os.Executable(); err == nil {
		if b, err := open(filepath.Join(filepath.Dir(self), Name), "beside this program"); err == nil {
			return b, nil
		}
	}
	if onPath, err := exec.LookPath(Name); err == nil {
		return open(onPath, "PATH")
	}
	return nil, fmt.Errorf("%s: %w: it is not configured, not embedded in this program, not beside it and not on PATH; "+
		"get it with \"go install github.com/croft-run/croft/cmd/croft-guest\", or build croft with \"make build\"", Name, fault.Unsupported)
}

func open(path, from string) (*Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.Of(err), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("%s of %s: %s: %w: it is not a program", Name, from, path, fault.InvalidArgument)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.Of(err), err)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.InvalidArgument, err)
	}
	return &Binary{Path: path, Version: version(sum.Sum(nil)), From: from}, nil
}

func version(sum []byte) string { return hex.EncodeToString(sum[:12]) }

// inside puts the embedded program, once per process, where it can be started
// and nobody can change it.
var inside = sync.OnceValues(func() (*Binary, error) {
	data, ok := Embedded(runtime.GOARCH)
	if !ok || runtime.GOOS != "linux" {
		return nil, fs.ErrNotExist
	}
	path, err := place(data)
	if err != nil {
		return nil, fmt.Errorf("%s: unpack the embedded one: %w: %w", Name, fault.Failed, err)
	}
	sum := sha256.Sum256(data)
	return &Binary{Path: path, Version: version(sum[:]), From: "embedded"}, nil
})
