package cmdpolicy

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A Seatbelt runs each command under macOS's sandbox-exec with a profile from a file. It is
// a process.Wrapper.
type Seatbelt struct {
	Program string // sandbox-exec; "" is /usr/bin/sandbox-exec
	File    string // the profile, an absolute path that commands can't write to
}

// Wrap returns the call of sandbox-exec that runs a program.
func (s *Seatbelt) Wrap(program string, args []string, cwd string) (string, []string, error) {
	if !path.IsAbs(s.File) {
		return "", nil, fmt.Errorf("cmdpolicy: seatbelt: %w: profile %q is not an absolute path", fault.InvalidArgument, s.File)
	}
	if program == "" || program[0] == '-' { // sandbox-exec would parse it as its own option
		return "", nil, fmt.Errorf("cmdpolicy: seatbelt: %w: program %q", fault.InvalidArgument, program)
	}
	name := s.Program
	if name == "" {
		name = "/usr/bin/sandbox-exec"
	}
	return name, append([]string{"-f", s.File, program}, args...), nil
}

// A Profile lists what a command may do under Seatbelt. All paths are absolute and without
// symlinks: the kernel compares resolved paths, so /tmp is /private/tmp.
//
// It prevents writing outside Writable, reading Hidden, signalling processes outside the
// sandbox and, without Network, sockets other than local ones. It does not prevent reading
// other files, and limits no resources.
type Profile struct {
	Writable  []string // with all below them, the workspace first
	Protected []string // within Writable, but read-only
	Hidden    []string // can't be read, unless Writable
	Network   bool
}

// Text returns the profile in the language of sandbox-exec (SBPL). Equal profiles have
// equal text. A later rule overrides an earlier one.
func (p *Profile) Text() (string, error) {
	var b strings.Builder
	b.WriteString(profileHead)
	rules := []struct {
		rule, comment string
		paths         []string
	}{
		{"deny file-read*", "What is hidden.", p.Hidden},
		{"allow file-read* file-write*", "What can be written.", p.Writable},
		{"deny file-write*", "What stays as it is.", p.Protected},
	}
	for _, r := range rules {
		if len(r.paths) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n; %s\n(%s", r.comment, r.rule)
		for _, name := range r.paths {
			s, err := sbplString(name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "\n    (subpath %s)", s)
		}
		b.WriteString(")\n")
	}
	if len(p.Hidden) > 0 && len(p.Writable) > 0 {
		// Programs look at each directory on the way to a file, for its real path.
		b.WriteString("\n; What is above can be passed, and not listed.\n(allow file-read-metadata")
		for _, dir := range ancestors(p.Writable) {
			s, err := sbplString(dir)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "\n    (literal %s)", s)
		}
		b.WriteString(")\n")
	}
	if p.Network {
		b.WriteString(profileNetwork)
	}
	return b.String(), nil
}

// ancestors returns the directories above paths, sorted, without the root.
func ancestors(paths []string) []string {
	var dirs []string
	for _, name := range paths {
		for dir := path.Dir(name); dir != "/" && dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// WriteFile writes the profile to a new file that only its owner can write.
func (p *Profile) WriteFile(name string) error {
	text, err := p.Text()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("cmdpolicy: write profile: %w: %w", fault.Of(err), err)
	}
	_, err = f.WriteString(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("cmdpolicy: write profile: %w: %w", fault.Of(err), err)
	}
	return nil
}

const profileHead = `(version 1)
(deny default)

; Programs run, and reach only one another.
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-priv-task-port (target same-sandbox))
(allow ipc-posix-sem)
(allow mach-lookup
    (global-name "com.apple.system.logger")
    (global-name "com.apple.system.notification_center")
    (global-name "com.apple.system.opendirectoryd.libinfo")
    (global-name "com.apple.system.opendirectoryd.membership"))

; The system can be read, and the usual devices used.
(allow file-read*)
(allow file-ioctl (regex #"^/dev/tty"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-write-data
    (literal "/dev/null")
    (literal "/dev/zero")
    (literal "/dev/dtracehelper")
    (regex #"^/dev/tty")
    (regex #"^/dev/fd/"))
`

const profileNetwork = `
; The network.
(allow network*)
(allow system-socket)
(allow mach-lookup
    (global-name "com.apple.dnssd.service")
    (global-name "com.apple.SystemConfiguration.configd")
    (global-name "com.apple.trustd.agent"))
`

// sbplString quotes a path as a string of SBPL, which escapes only the quote and the
// backslash.
func sbplString(name string) (string, error) {
	switch {
	case !path.IsAbs(name) || path.Clean(name) != name:
		return "", fmt.Errorf("cmdpolicy: profile: %w: path %q; a path is absolute and clean", fault.InvalidArgument, name)
	case strings.ContainsFunc(name, isControl) || strings.ContainsAny(name, "\n\r\t"):
		return "", fmt.Errorf("cmdpolicy: profile: %w: path %q has a control character", fault.InvalidArgument, name)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`, nil
}
