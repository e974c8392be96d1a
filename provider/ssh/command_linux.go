package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/remote"
	"github.com/croft-run/croft/internal/tail"
)

// sshOptions are the options of every ssh process. They override the user's configuration.
var sshOptions = []string{
	"BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=3",
	"RequestTTY=no", "EscapeChar=none", "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "Tunnel=no", "PermitLocalCommand=no", "RemoteCommand=none",
	"NoHostAuthenticationForLocalhost=no",
	"LogLevel=ERROR",
}

// A command is an ssh process that runs a command on a machine. It is the stream of the
// command's standard input and output.
type command struct {
	host   string
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	stderr tail.Buffer
	done   chan struct{} // closed when the process has ended
	close  func()
}

var _ io.ReadWriteCloser = (*command)(nil)

// startCommand starts ssh with a shell command, which must not contain a single quote. The
// login shell of the user may be any; the command is for sh.
func startCommand(host, text string) (*command, error) {
	var args []string
	for _, o := range sshOptions {
		args = append(args, "-o", o)
	}
	program, err := exec.LookPath("ssh")
	if err != nil {
		return nil, fmt.Errorf("%w: the program ssh is not on PATH: %w", fault.Unsupported, err)
	}
	c := &command{host: host, done: make(chan struct{})}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", fault.Of(err), err), inR.Close(), inW.Close())
	}
	c.in, c.out = inW, outR
	c.close = sync.OnceFunc(c.end)
	c.cmd = &exec.Cmd{
		Path: program, Args: append(append([]string{"ssh"}, args...), "--", host, "exec sh -c '"+text+"'"),
		Stdin: inR, Stdout: outW, Stderr: &c.stderr, Env: environment(),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // an interrupt from the terminal is not for it
		WaitDelay:   2 * time.Second,                    // a shared connection (ControlPersist) keeps standard error open
	}
	err = c.cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, fmt.Errorf("start ssh: %w: %w", fault.Unavailable, err)
	}
	go func() { // ends with the process; Close waits for it
		defer close(c.done)
		c.cmd.Wait() //nolint:errcheck // how it ended is in ProcessState
	}()
	return c, nil
}

// environment returns the variables of this process without those of Croft, such as tokens and
// secrets: the configuration of ssh may send variables to the machine.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CROFT_") })
}

// Read reads standard output.
func (c *command) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write writes to standard input.
func (c *command) Write(p []byte) (int, error) { return c.in.Write(p) }

// Close ends the command, and waits for the end of ssh.
func (c *command) Close() error {
	c.close()
	<-c.done
	return nil
}

// endTime is how long ssh may take to end by itself when its standard input has ended.
const endTime = 2 * time.Second

func (c *command) end() {
	c.in.Close()
	select {
	case <-c.done:
	case <-time.After(endTime):
		c.cmd.Process.Kill() //nolint:errcheck // the process has ended already
	}
	c.out.Close()
}

// Exit statuses: of a script that can't create a directory, or finds one of another user, of a
// shell that can't start a program, and of ssh that can't connect.
const (
	statusNoDirectory = 5
	statusForeign     = 6
	statusNotRunnable = 126
	statusNotFound    = 127
	statusSSH         = 255
)

// Texts of ssh.
const (
	hostKeyUnknownText = "host key is known"
	hostKeyChangedText = "HOST IDENTIFICATION HAS CHANGED"
	hostKeyText        = "Host key verification failed"
	loginRefusedText   = "Permission denied"
)

// failure returns why a command that was closed has failed: ssh could not connect, or the
// guest's program is not there; nil if the command itself ran.
func (c *command) failure() error {
	<-c.done
	switch c.cmd.ProcessState.ExitCode() {
	case statusSSH:
		return &remote.UnreachableError{Err: sshError(c.host, c.stderr.String())}
	case statusNoDirectory:
		return fmt.Errorf("%s: create the directory of the workspace: %w: %s", c.host, fault.Failed, shorten(c.stderr.String()))
	case statusNotRunnable, statusNotFound:
		return noProgramError{fmt.Errorf("%s: the guest's program can't be started: %w: %s", c.host, fault.Unavailable, shorten(c.stderr.String()))}
	}
	return nil
}

// A noProgramError says that the guest's program is not on the machine.
type noProgramError struct{ error }

func (e noProgramError) Unwrap() error { return e.error }

// sshError turns what ssh printed into an error.
func sshError(host, said string) error {
	switch {
	case strings.Contains(said, hostKeyChangedText):
		return fmt.Errorf("the host key of %s is not the one in known_hosts: %w: someone may pretend to be that host; if its key was replaced, remove the old one with ssh-keygen -R, then run \"ssh %s\" once: %s",
			host, fault.PermissionDenied, host, shorten(said))
	case strings.Contains(said, hostKeyUnknownText), strings.Contains(said, hostKeyText):
		return fmt.Errorf("the host key of %s is not known: %w: run \"ssh %s\" once, and check the key that it shows: %s", host, fault.PermissionDenied, host, shorten(said))
	case strings.Contains(said, loginRefusedText):
		return fmt.Errorf("%s refuses the login: %w: \"ssh %s\" must work without asking, by a key or an agent: %s", host, fault.PermissionDenied, host, shorten(said))
	case said == "":
		said = "ssh ended without a message"
	}
	return fmt.Errorf("%s is not reachable: %w: %s", host, fault.Unavailable, shorten(said))
}

// shorten returns the end of a message, on one line.
func shorten(text string) string {
	const maxMessage = 600
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxMessage {
		text = "..." + strings.ToValidUTF8(text[len(text)-maxMessage:], "")
	}
	return text
}

// runScript runs a script on a machine and returns its standard output and exit status. The
// error is one of ssh or of ctx.
func runScript(ctx context.Context, host, script string, stdin io.Reader) (out string, stderr string, status int, err error) {
	c, err := startCommand(host, script)
	if err != nil {
		return "", "", 0, err
	}
	defer c.Close()                                                 //nolint:errcheck // it always answers nil
	defer context.AfterFunc(ctx, func() { c.cmd.Process.Kill() })() //nolint:errcheck // the process has ended already
	var copied sync.WaitGroup
	copied.Go(func() {
		if stdin != nil {
			io.Copy(c.in, stdin) //nolint:errcheck // the script fails
		}
		c.in.Close()
	})
	const most = 64 << 10
	data, rerr := io.ReadAll(io.LimitReader(c.out, most))
	if len(data) == most {
		c.cmd.Process.Kill() //nolint:errcheck // as above; it would wait for someone to read the rest
	}
	<-c.done
	copied.Wait()
	if ctx.Err() != nil {
		return "", "", 0, fmt.Errorf("%s: %w", host, ctx.Err())
	}
	status = c.cmd.ProcessState.ExitCode()
	if status == statusSSH {
		return "", "", status, &remote.UnreachableError{Err: sshError(host, c.stderr.String())}
	}
	if rerr != nil {
		return "", "", status, fmt.Errorf("%s: %w: %w", host, fault.Unavailable, rerr)
	}
	return string(data), shorten(c.stderr.String()), status, nil
}
