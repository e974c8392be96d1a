package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// An SSHD is a real sshd on a loopback port, with keys of its own, to which the user of this
// process can log in. It stands for another machine.
type SSHD struct {
	Addr string // HOST:PORT
	Host string // the destination for ssh: USER@HOST, by the configuration that Bin uses
	Bin  string // a directory with a program ssh that knows the host and has the key; for PATH

	dir string
	cmd *exec.Cmd
	log bytes.Buffer
}

// SSHDMissing returns what the host lacks to start an sshd; "" is nothing.
func SSHDMissing() string {
	for _, name := range []string{"ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not on PATH"
		}
	}
	if _, err := sshdProgram(); err != nil {
		return "openssh-server is not installed"
	}
	return ""
}

// NeedsSSHD skips a test where no sshd can be started.
func NeedsSSHD(t testing.TB) {
	t.Helper()
	if missing := SSHDMissing(); missing != "" {
		t.Skip("skipped: host: " + missing)
	}
}

func sshdProgram() (string, error) {
	if path, err := exec.LookPath("sshd"); err == nil {
		return path, nil // sshd must be called by its absolute path
	}
	const usual = "/usr/sbin/sshd"
	_, err := os.Stat(usual)
	return usual, err
}

// StartSSHD starts an sshd in the directory dir. Logins begin in the directory "home" there.
// env are further variables of every login.
func StartSSHD(ctx context.Context, dir string, env map[string]string) (*SSHD, error) {
	addr, err := Loopback()
	if err != nil {
		return nil, err
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	s := &SSHD{Addr: addr, Host: me.Username + "@machine", Bin: filepath.Join(dir, "bin"), dir: dir}
	if err := s.configure(ctx, env); err != nil {
		return nil, err
	}
	return s, s.Start(ctx)
}

// configure writes the keys and the configuration of server and client.
func (s *SSHD) configure(ctx context.Context, env map[string]string) error {
	ip, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	for _, dir := range []string{s.Bin, s.path("home")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	key := s.path("key")
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 { // for privilege separation
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return err
		}
	}
	set := "SetEnv HOME=" + s.path("home")
	for name, value := range env {
		set += " " + name + "=" + value
	}
	set += fmt.Sprintf("\nForceCommand cd %s && exec sh -c \"$SSH_ORIGINAL_COMMAND\"\n", s.path("home"))
	program, err := exec.LookPath("ssh")
	if err != nil {
		return err
	}
	known := fmt.Sprintf("[%s]:%s %s", ip, port, public)
	var errs []error
	for name, text := range map[string]string{
		"authorized": string(public),
		"known":      known,
		"sshd_config": fmt.Sprintf("Port %s\nListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nUseDNS no\nPidFile none\nMaxStartups 1000\n%s",
			port, ip, key, s.path("authorized"), set),
		"ssh_config": fmt.Sprintf("Host machine\nHostName %s\nPort %s\nHost *\nIdentityFile %s\nIdentitiesOnly yes\nUserKnownHostsFile %s\nGlobalKnownHostsFile none\n", ip, port, key, s.path("known")),
	} {
		errs = append(errs, os.WriteFile(s.path(name), []byte(text), 0o600))
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", program, s.path("ssh_config"))
	errs = append(errs, os.WriteFile(filepath.Join(s.Bin, "ssh"), []byte(wrapper), 0o755))
	return errors.Join(errs...)
}

func (s *SSHD) path(name string) string { return filepath.Join(s.dir, name) }

// KnownHosts is the file with the host key.
func (s *SSHD) KnownHosts() string { return s.path("known") }

// Start starts the server, again after Stop, and waits until it listens.
func (s *SSHD) Start(ctx context.Context) error {
	program, err := sshdProgram()
	if err != nil {
		return err
	}
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, "-D", "-e", "-f", s.path("sshd_config"))
	s.cmd.Stderr = &s.log
	s.cmd.WaitDelay = 10 * time.Second // processes of connections have it as well
	if err := s.cmd.Start(); err != nil {
		return err
	}
	const patience, interval = 30 * time.Second, 10 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(interval) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) || ctx.Err() != nil {
			s.Stop()
			return fmt.Errorf("sshd does not listen: %w: %s", err, s.log.String())
		}
	}
}

// Stop ends the server and all its connections, as if the machine were cut off. Processes
// that detached from their connection live on.
func (s *SSHD) Stop() {
	connections := childrenOf(s.cmd.Process.Pid)
	s.cmd.Process.Kill() //nolint:errcheck // it has ended already
	for _, pid := range connections {
		for _, inner := range append(childrenOf(pid), pid) { // a process with and one without privileges
			if p, err := os.FindProcess(inner); err == nil {
				p.Kill() //nolint:errcheck // it has ended already
			}
		}
	}
	s.cmd.Wait() //nolint:errcheck // it was killed
}

// childrenOf returns the process ids of the children of a process.
func childrenOf(pid int) []int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(data)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// Log is what the server has printed, after Stop.
func (s *SSHD) Log() string { return s.log.String() }
