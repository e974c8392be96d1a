package ssh

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/remote"
	"github.com/croft-run/croft/internal/host/guestproto"
)

// A place is the directory of a workspace on a machine.
type place struct {
	p *Provider
	*location
}

var _ remote.Machine = (*place)(nil)

// Name returns the host.
func (l *place) Name() string { return l.Host }

// path returns the directory of the workspace.
func (l *place) path() string { return l.Dir + "/ws/" + l.ID }

// Root returns the directory of the files.
func (l *place) Root() string { return l.path() + "/" + guestproto.MachineFiles }

// Version returns the version of the guest's program.
func (l *place) Version() (string, error) {
	prog, err := l.p.program(l.Arch)
	if err != nil {
		return "", err
	}
	return prog.Version, nil
}

// Connect connects to the guest that runs there.
func (l *place) Connect(ctx context.Context, token, version, workspace string) (c *guest.Client, err error) {
	err = l.withGuest(ctx, "", guestproto.ConnectVerb, func(ctx context.Context, conn io.ReadWriteCloser) error {
		c, err = guest.DialStdio(ctx, conn, token, version, workspace)
		return err
	})
	return c, err
}

// Start starts a guest and connects to it.
func (l *place) Start(ctx context.Context, cfg guestproto.Config, isNew bool) (c *guest.Client, err error) {
	before := ""
	if isNew {
		before = "(umask 077 && mkdir -p " + l.path() + "/" + guestproto.MachineLog + " && umask 022 && mkdir -p " + l.Root() + ") || exit " + strconv.Itoa(statusNoDirectory) + "; "
	}
	err = l.withInstalled(ctx, before, guestproto.DaemonVerb, func(ctx context.Context, conn io.ReadWriteCloser) error {
		c, err = guest.StartStdio(ctx, conn, cfg)
		return err
	})
	return c, err
}

// End ends the guest.
func (l *place) End(ctx context.Context, token string) error {
	return l.end(ctx, guestproto.EndVerb, token)
}

// Remove ends the guest and removes the directory.
func (l *place) Remove(ctx context.Context, token string) error {
	return l.end(ctx, guestproto.RemoveVerb, token)
}

func (l *place) end(ctx context.Context, verb, token string) error {
	return l.withInstalled(ctx, "", verb, func(ctx context.Context, conn io.ReadWriteCloser) error { return guest.EndStdio(ctx, conn, token) })
}

// withGuest runs the guest's program with a verb, after the commands before, and calls do with
// its standard input and output. If do fails because of ssh, the error says so.
func (l *place) withGuest(ctx context.Context, before, verb string, do func(ctx context.Context, conn io.ReadWriteCloser) error) error {
	p := l.p
	prog, err := p.program(l.Arch)
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	release, err := p.connectSlot(soon, l.Host)
	if err != nil {
		return p.timeoutError(ctx, l.Host, err)
	}
	defer release()
	conn, err := startCommand(l.Host, before+"exec "+l.Dir+"/"+prog.remoteName()+" "+verb+" "+l.path())
	if err != nil {
		return err
	}
	if err := do(soon, conn); err != nil {
		conn.Close() //nolint:errcheck // it always answers nil
		if cause := conn.failure(); cause != nil && soon.Err() == nil {
			err = cause
		}
		return p.timeoutError(ctx, l.Host, err)
	}
	return nil
}

// withInstalled is withGuest for a program that may be missing or damaged, and is then
// uploaded. The first time in this process its digest is verified.
func (l *place) withInstalled(ctx context.Context, before, verb string, do func(ctx context.Context, conn io.ReadWriteCloser) error) error {
	prog, err := l.p.program(l.Arch)
	if err != nil {
		return err
	}
	for again := true; ; again = false {
		verify := ""
		if !l.p.isInstalled(l.machine) {
			verify = verifyScript(l.Dir, prog)
		}
		err := l.withGuest(ctx, verify+before, verb, do)
		if err == nil {
			l.p.setInstalled(l.machine, true)
		}
		if missing := (noProgramError{}); !again || !errors.As(err, &missing) {
			return err
		}
		l.p.setInstalled(l.machine, false)
		if err := l.p.upload(ctx, l.machine, prog); err != nil {
			return err
		}
	}
}
