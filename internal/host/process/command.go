package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// checkCommand checks a command without access to the host.
func checkCommand(cmd *driver.Command) error {
	bad := func(what string) error {
		return fmt.Errorf("process: command: %w: %s", fault.InvalidArgument, what)
	}
	switch {
	case len(cmd.Argv) == 0 && cmd.Script == "":
		return bad("neither argv nor script is set")
	case len(cmd.Argv) > 0 && cmd.Script != "":
		return bad("argv and script are both set")
	case len(cmd.Argv) > 0 && cmd.Argv[0] == "":
		return bad("argv has no program")
	case cmd.Interactive && cmd.Stdin != nil:
		return bad("an interactive command gets its input from Write, so stdin must be nil")
	case cmd.Timeout < 0 || cmd.Grace < 0 || cmd.MaxOutput < 0:
		return bad("timeout, grace and maxOutput must not be negative")
	case cmd.Dir != "" && !driver.ValidName(cmd.Dir):
		return bad(fmt.Sprintf("dir %q is not valid: want a slash path relative to the workspace", cmd.Dir))
	case cmd.TTY != nil && !validSize(*cmd.TTY):
		return bad(fmt.Sprintf("terminal size %dx%d: rows and columns are 1 to 65535", cmd.TTY.Rows, cmd.TTY.Cols))
	case strings.IndexByte(cmd.Script, 0) >= 0:
		return bad("script has a NUL")
	}
	for i, arg := range cmd.Argv {
		if strings.IndexByte(arg, 0) >= 0 {
			return bad(fmt.Sprintf("argv[%d] has a NUL", i))
		}
	}
	return nil
}

func validSize(s driver.Size) bool {
	return s.Rows > 0 && s.Rows <= 65535 && s.Cols > 0 && s.Cols <= 65535
}

// buildSpec sets all of a child's spec except its descriptors.
func (m *Manager) buildSpec(cmd *driver.Command, id string, group *CommandGroup) (*Spec, time.Duration, error) {
	if err := checkCommand(cmd); err != nil {
		return nil, 0, err
	}
	dir, err := m.workDir(cmd.Dir)
	if err != nil {
		return nil, 0, err
	}
	env, path, err := m.buildEnv(cmd, id, dir)
	if err != nil {
		return nil, 0, err
	}
	spec := &Spec{ID: id, Argv: cmd.Argv, Env: env, Dir: dir, Sys: &syscall.SysProcAttr{Setsid: true}, Group: group}
	if cmd.Script != "" {
		spec.Path, spec.Argv, err = scriptShell(cmd.Script)
	} else {
		spec.Path, err = lookPath(cmd.Argv[0], dir, path)
	}
	if err != nil {
		return nil, 0, err
	}
	wall, err := m.applyLimits(spec, cmd)
	if err != nil {
		return nil, 0, err
	}
	return spec, wall, m.applyWrapper(spec)
}

func (m *Manager) workDir(name string) (string, error) {
	if name == "" || name == "." {
		return m.opts.Root, nil // checked by New, and by chdir in the child
	}
	dir := filepath.Join(m.opts.Root, filepath.FromSlash(name))
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("process: directory %s: %w: %w", name, errorCode(err), syscallErr(err))
	}
	if !info.IsDir() {
		return "", fault.Advise(fmt.Errorf("process: directory %s: %w: not a directory", name, fault.InvalidArgument), "give a directory, not a file")
	}
	return dir, nil
}

// syscallErr returns the errno of a path error without the path, because paths of the host
// are not shown to the workspace.
func syscallErr(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// scriptShell finds bash, or else sh.
func scriptShell(script string) (string, []string, error) {
	for _, shell := range []string{"bash", "sh"} {
		if path, err := lookPath(shell, "/", DefaultPath); err == nil {
			return path, []string{shell, "-c", script}, nil
		}
	}
	return "", nil, fmt.Errorf("process: script: %w: neither bash nor sh is in %s", fault.NotFound, DefaultPath)
}

// lookPath finds a program as execvp does: a name with a slash is relative to dir, any
// other is searched in path, whose relative entries are ignored.
func lookPath(program, dir, path string) (string, error) {
	if strings.Contains(program, "/") {
		full := program
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, program)
		}
		if err := checkExecutable(full); err != nil {
			return "", fault.WithHint(fmt.Errorf("process: program %q: %w", program, err), fault.HintProgram, program)
		}
		return full, nil
	}
	var other error // why a file of that name is not executable
	for d := range strings.SplitSeq(path, string(filepath.ListSeparator)) {
		if !filepath.IsAbs(d) {
			continue
		}
		full := d + "/" + program
		err := checkExecutable(full)
		if err == nil {
			return full, nil
		}
		if !errors.Is(err, fault.NotFound) && !errors.Is(err, syscall.EACCES) { // a directory without search permission is skipped
			other = err
		}
	}
	if other == nil {
		other = fmt.Errorf("%w: not in PATH (%s)", fault.NotFound, path)
	}
	return "", fault.WithHint(fmt.Errorf("process: program %q: %w", program, other), fault.HintProgram, program)
}

// checkExecutable checks what execve would refuse, to report it before a child is started.
// The kernel checks again with the credentials of the child.
func checkExecutable(path string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("%w: %w", fault.NotFound, err)
		}
		return fmt.Errorf("%w: %w", errorCode(err), err)
	}
	switch {
	case st.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return fmt.Errorf("%w: it is a directory", fault.PermissionDenied)
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return fmt.Errorf("%w: it is not a regular file", fault.PermissionDenied)
	case st.Mode&0o111 == 0:
		return fmt.Errorf("%w: it is not executable", fault.PermissionDenied)
	}
	return nil
}

func (m *Manager) applyWrapper(spec *Spec) error {
	if m.opts.Wrapper == nil {
		return nil
	}
	program, args, err := m.opts.Wrapper.Wrap(spec.Path, spec.Argv[1:], spec.Dir)
	if err != nil {
		return fmt.Errorf("process: wrap %q: %w: %w", spec.Argv[0], fault.Of(err), err)
	}
	path, err := lookPath(program, "/", DefaultPath)
	if err != nil {
		return err
	}
	spec.Path, spec.Argv = path, append([]string{program}, args...)
	return nil
}
