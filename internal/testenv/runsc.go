package testenv

import (
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
)

// Runsc returns the path of gVisor's runsc, on PATH or in the directory of "go install";
// "" if the host has none.
func Runsc() string { return lookProgram("runsc") }

// lookProgram returns the path of a program, on PATH or in the directory of "go install";
// "" if there is none.
func lookProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	bin := os.Getenv("GOBIN")
	if bin == "" {
		bin = filepath.Join(build.Default.GOPATH, "bin")
	}
	if path, err := exec.LookPath(filepath.Join(bin, name)); err == nil {
		return path
	}
	return ""
}
