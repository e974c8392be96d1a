package guestd

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
)

// execGVisor replaces this process by gVisor (execve of runsc), whose first process is
// croft-guest again, with the inner Config. It returns only if that fails.
//
// gVisor can take pipes and connected sockets from its host, but no directories and no
// listening sockets. The inner guest finds those by Config.Paths.
func execGVisor(cfg *guestproto.Config) error {
	k := cfg.GVisor
	if k.Inner == nil {
		return setupError("enter gVisor", fault.InvalidArgument)
	}
	// This thread joins the cgroups. The exec below makes it the only thread.
	runtime.LockOSThread()
	for _, name := range cfg.Groups {
		if err := joinGroup(cfg.Descriptors[name]); err != nil {
			return setupError("join the limit group "+name, err)
		}
	}
	pass := map[int]int{fdReport: fdReport}
	inner := *k.Inner
	inner.Descriptors = map[string]int{}
	if fd, ok := cfg.Descriptors["stream"]; ok {
		inner.Descriptors["stream"], pass[fd] = fdFirst, fdFirst
	}
	data, err := inner.Encode()
	if err != nil {
		return err
	}
	config, err := configPipe(data)
	if err != nil {
		return setupError("pass the configuration on", err)
	}
	pass[config] = fdConfig
	argv := append([]string{"runsc"}, k.Args...)
	argv = append(argv, "run", "--bundle", k.Bundle, "--exec-fd", strconv.Itoa(cfg.Descriptors["program"]))
	for from, to := range pass {
		argv = append(argv, "--pass-fd", fmt.Sprintf("%d:%d", from, to))
	}
	argv = append(argv, "guest") // every user of the host can read the arguments
	pass[cfg.Descriptors["program"]] = 0
	for fd := range pass {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return setupError("pass a descriptor on", err)
		}
	}
	err = unix.Exec(fmt.Sprintf("/proc/self/fd/%d", cfg.Descriptors["kernel"]), argv, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
	return setupError("start gVisor", err)
}

// configPipe returns the reading end of a pipe that holds a configuration. The
// configuration must fit into the buffer of the pipe, since no process reads it yet.
func configPipe(data []byte) (fd int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, err
	}
	w := os.NewFile(uintptr(p[1]), "config")
	defer w.Close()
	n, err := unix.Write(p[1], data)
	if err == nil && n < len(data) {
		err = fmt.Errorf("the configuration has %d bytes, more than a pipe holds: %w", len(data), fault.ResourceExhausted)
	}
	if err == nil {
		err = unix.SetNonblock(p[0], false)
	}
	return p[0], err
}
