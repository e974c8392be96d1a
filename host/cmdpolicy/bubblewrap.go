package cmdpolicy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A Bubblewrap runs each command in a bubblewrap sandbox of its own. It is a
// wrapper for package process. All paths are absolute; what is bound appears at
// its own path.
//
// It prevents writing outside Writable, seeing or signalling processes of the
// host, and, without Network, reaching any network. It does not prevent reading
// what ReadOnly shows, which by default is the whole host: name what must be
// hidden in Tmpfs. A Unix socket that is visible can be talked to. Nothing here
// limits memory, processes or time.
type Bubblewrap struct {
	Program  string   // bwrap; "" is looked up in PATH
	ReadOnly []string // what can be read; nil is "/"
	Writable []string // what can be written, the workspace first
	Tmpfs    []string // empty directories in place of what is there, besides /tmp and /run

	// Protected are files and directories within Writable that stay read-only.
	// Each must exist.
	Protected []string

	Network bool // the host's network; else none at all

	// Seccomp is a descriptor that bwrap inherits and reads a compiled filter
	// from; 0 is none.
	Seccomp int

	Chdir string            // "" is the directory of the command
	Env   map[string]string // the whole environment; nil leaves it as it is

	// KeepTerminal leaves a command its controlling terminal, for job control.
	// On kernels before 6.2 it can then type into it.
	KeepTerminal bool
}

// Wrap returns the call of bwrap that runs a program. Mounts come in a fixed
// order, in which the later covers the earlier: read-only system, /tmp and /run,
// devices, processes, workspace, and what is read-only within.
func (b *Bubblewrap) Wrap(program string, args []string, cwd string) (string, []string, error) {
	if b.Chdir != "" {
		cwd = b.Chdir
	}
	if err := b.check(program, cwd); err != nil {
		return "", nil, err
	}
	out := slices.Concat(b.namespaces(), b.mounts(), b.environment())
	if b.Seccomp > 0 {
		out = append(out, "--seccomp", strconv.Itoa(b.Seccomp))
	}
	out = append(out, "--cap-drop", "ALL", "--chdir", cwd, "--", program)
	name := b.Program
	if name == "" {
		name = "bwrap"
	}
	return name, append(out, args...), nil
}

func (b *Bubblewrap) check(program, cwd string) error {
	if program == "" {
		return fmt.Errorf("guard: bubblewrap: %w: the program is empty", fault.InvalidArgument)
	}
	for _, p := range slices.Concat(b.ReadOnly, b.Writable, b.Tmpfs, b.Protected, []string{cwd}) {
		if !path.IsAbs(p) || strings.IndexByte(p, 0) >= 0 {
			return fmt.Errorf("guard: bubblewrap: %w: path %q is not absolute", fault.InvalidArgument, p)
		}
	}
	if b.Seccomp < 0 || b.Seccomp == 1 || b.Seccomp == 2 {
		return fmt.Errorf("guard: bubblewrap: %w: seccomp descriptor %d; it is 0 for none, or 3 and up", fault.InvalidArgument, b.Seccomp)
	}
	for name := range b.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("guard: bubblewrap: %w: variable %q", fault.InvalidArgument, name)
		}
	}
	return nil
}

func (b *Bubblewrap) namespaces() []string {
	out := []string{"--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
	if !b.Network {
		out = append(out, "--unshare-net")
	}
	out = append(out, "--die-with-parent")
	if !b.KeepTerminal {
		out = append(out, "--new-session")
	}
	return out
}

func (b *Bubblewrap) mounts() []string {
	readOnly := b.ReadOnly
	if readOnly == nil {
		readOnly = []string{"/"}
	}
	var out []string
	bind := func(how string, paths []string) {
		for _, p := range paths {
			out = append(out, how, p, p)
		}
	}
	bind("--ro-bind", readOnly)
	for _, p := range slices.Concat([]string{"/tmp", "/run"}, b.Tmpfs) {
		out = append(out, "--tmpfs", p)
	}
	out = append(out, "--dev", "/dev", "--proc", "/proc")
	bind("--bind", b.Writable)
	bind("--ro-bind", b.Protected)
	return out
}

func (b *Bubblewrap) environment() []string {
	if b.Env == nil {
		return nil
	}
	out := []string{"--clearenv"}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		out = append(out, "--setenv", name, b.Env[name])
	}
	return out
}
