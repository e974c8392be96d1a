package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// A hostState is what decides whether this process may make user namespaces.
type hostState struct {
	root     bool // Croft is root
	readFile func(path string) ([]byte, error)
}

// namespaceRemedy says why the kernel refuses user namespaces, and what to run. It is ""
// if no known cause applies.
func (h hostState) namespaceRemedy() string {
	setting := func(name string) string {
		data, err := h.readFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
		if err != nil {
			return "" // this kernel does not have it
		}
		return strings.TrimSpace(string(data))
	}
	for _, cause := range []struct {
		name, refuses, set string
		why                string
		all                bool   // it refuses root, too
		first              string // a better remedy
	}{
		{"user.max_user_namespaces", "0", "15000", "this host allows no user namespaces", true, ""},
		{"kernel.unprivileged_userns_clone", "0", "1", "this kernel allows user namespaces to root alone", false, ""},
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0", "AppArmor restricts user namespaces of ordinary users, as Ubuntu sets it", false, loadProfile},
	} {
		if setting(cause.name) == cause.refuses && (cause.all || !h.root) {
			return fmt.Sprintf("%s (%s is %s); to allow them%s, run: sudo sysctl -w %[2]s=%[5]s", cause.why, cause.name, cause.refuses, cause.first, cause.set)
		}
	}
	if status, err := h.readFile("/proc/self/status"); err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n") {
		return "a seccomp filter, such as that of a container, refuses user namespaces; to allow them, start the container with: --security-opt seccomp=unconfined"
	}
	return ""
}

// loadProfile allows user namespaces to croft alone. The sysctl that follows it allows them to
// every program, until the next boot.
const loadProfile = " to croft, run: croft doctor --apparmor | sudo tee /etc/apparmor.d/croft && sudo apparmor_parser -r /etc/apparmor.d/croft; to allow them to every program"

// explainRefusal adds the remedy to an error of a level that needs user namespaces.
func explainRefusal(l *level, err error) error {
	if err == nil || l.noMounts || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EUSERS) {
		return err
	}
	if remedy := (hostState{os.Geteuid() == 0, os.ReadFile}).namespaceRemedy(); remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}

// weakerChoice names the strongest level below a rank that works on this host, for an
// error.
func (p *Provider) weakerChoice(ctx context.Context, rank int) string {
	for _, l := range levels {
		if l.name.Rank() < rank && p.probeLevel(ctx, l, false) == nil {
			scope := ""
			if l.noMounts {
				scope = ", but neither for the work of an agent nor for a template"
			}
			return fmt.Sprintf("; weaker isolation works here%s: %s", scope, l.name)
		}
	}
	if rank > driver.IsolationProcess.Rank() {
		return "; no weaker isolation works here"
	}
	return ""
}
