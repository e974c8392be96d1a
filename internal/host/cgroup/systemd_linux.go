package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/croft-run/croft/fault"
)

// An ordinary user may create cgroups only where systemd has delegated that. So this process
// asks the systemd user manager for a transient scope with Delegate=yes, as "systemd-run
// --user --scope -p Delegate=yes" does. The manager moves this process into the scope's
// cgroup. A cgroup with child cgroups has no processes, so this process then moves into a
// child:
//
//	croft-PID-TIME.scope            systemd's scope, owned by the user
//	croft-PID-TIME.scope/host       this process
//	croft-PID-TIME.scope/croft-...  cgroups of workspaces
//
// The scope ends when the last process in it has ended.

const (
	managerName   = "org.freedesktop.systemd1"
	managerPath   = dbus.ObjectPath("/org/freedesktop/systemd1")
	scopeTimeout  = 10 * time.Second
	hostGroup     = "host"
	runtimeFormat = "/run/user/%d"
)

// Types of the arguments of StartTransientUnit.
type (
	unitProperty struct {
		Name  string
		Value dbus.Variant
	}
	auxiliaryUnit struct {
		Name       string
		Properties []unitProperty
	}
)

// delegatedV2 returns the hierarchy in a scope of the systemd user manager. Its error says
// what to run.
func delegatedV2() (hierarchyV2, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scopeTimeout) //nolint:forbidigo // once per process, for all callers
	defer cancel()
	name := fmt.Sprintf("croft-%d-%d.scope", os.Getpid(), time.Now().UnixNano())
	if err := startScope(ctx, userBus(), name, os.Getpid()); err != nil {
		return hierarchyV2{}, fmt.Errorf("%w: %s", err, lingerRemedy())
	}
	scope, _, err := ownV2()
	if err == nil && filepath.Base(scope) != name {
		err = fmt.Errorf("systemd did not move this process to %s, but to %s: %w", name, scope, fault.Failed)
	}
	if err == nil {
		err = moveToChild(scope)
	}
	if err != nil {
		return hierarchyV2{}, err
	}
	h := hierarchyV2{dir: scope}
	return h, h.probe()
}

// userBus returns the address of the bus of this user's systemd.
func userBus() string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = fmt.Sprintf(runtimeFormat, os.Getuid())
	}
	return "unix:path=" + filepath.Join(dir, "bus")
}

// startScope asks the systemd manager on a bus to move a process into a new scope with
// delegated cgroups, and waits until that is done.
func startScope(ctx context.Context, address, name string, pid int) error {
	conn, err := dbus.Connect(address, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("ask the systemd user manager for cgroups: %w: %w", fault.Unavailable, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)
	manager := conn.Object(managerName, managerPath)
	err = conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(managerName+".Manager"), dbus.WithMatchMember("JobRemoved"))
	if err == nil {
		err = manager.CallWithContext(ctx, managerName+".Manager.Subscribe", 0).Err
	}
	var job dbus.ObjectPath
	if err == nil {
		properties := []unitProperty{
			{"Description", dbus.MakeVariant("croft and its workspaces")},
			{"PIDs", dbus.MakeVariant([]uint32{uint32(pid)})},
			{"Delegate", dbus.MakeVariant(true)},
			{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
		}
		err = manager.CallWithContext(ctx, managerName+".Manager.StartTransientUnit", 0, name, "fail", properties, []auxiliaryUnit{}).Store(&job)
	}
	if err != nil {
		return fmt.Errorf("ask the systemd user manager for cgroups: %w: %w", fault.Unavailable, err)
	}
	for {
		select {
		case s, open := <-signals:
			if !open {
				return fmt.Errorf("wait for the systemd user manager: %w: the connection ended", fault.Unavailable)
			}
			var id uint32
			var removed dbus.ObjectPath
			var unit, result string
			if dbus.Store(s.Body, &id, &removed, &unit, &result) != nil || removed != job {
				continue
			}
			if result != "done" {
				return fmt.Errorf("ask the systemd user manager for cgroups: %w: the job ended with %q", fault.Unavailable, result)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait for the systemd user manager: %w", ctx.Err())
		}
	}
}

// moveToChild moves this process into a child cgroup of its scope, and enables the
// controllers of the scope for its other child cgroups.
func moveToChild(scope string) error {
	host := filepath.Join(scope, hostGroup)
	if err := os.Mkdir(host, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(host, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	enableControllers(scope)
	return nil
}

// lingerRemedy says what an ordinary user runs to get cgroups.
func lingerRemedy() string {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return "this host does not run systemd, which could delegate cgroups to you; run croft as root"
	}
	runtime := fmt.Sprintf(runtimeFormat, os.Getuid())
	return fmt.Sprintf("to start it, run: sudo loginctl enable-linger %d && export XDG_RUNTIME_DIR=%s; or run croft as root", os.Getuid(), runtime)
}

// errMissing says which controllers the user manager may not delegate, and what to run; nil
// if it has all.
func (h *hierarchyV2) errMissing() error {
	var missing []string
	for _, name := range limitControllers {
		if !h.has(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the systemd user manager has no controller %s: %w; to give it all, run: sudo mkdir -p /etc/systemd/system/user@.service.d && "+
		`printf '[Service]\nDelegate=cpu memory pids\n' | sudo tee /etc/systemd/system/user@.service.d/croft.conf && sudo systemctl daemon-reload`+
		", and log in again", strings.Join(missing, ", "), fault.Unsupported)
}
