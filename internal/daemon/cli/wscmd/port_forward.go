package wscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
)

func portForwardCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "port-forward NAME [LOCAL:]PORT",
		Short: "Forward a local port to a port of a workspace, until Ctrl-C",
		Long: "Listens on a loopback port of this host, LOCAL or the same number, and forwards each connection to PORT, on which\n" +
			"a process of the workspace listens. LOCAL 0 takes a free port.",
		Args: cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			local, port, err := parsePorts(args[1])
			if err != nil {
				return err
			}
			return a.WithAttached(ctx, args[0], func(_ console.Workspaces, ws *workspace.Workspace) error {
				return a.forwardPort(ctx, ws, local, port)
			})
		}),
	}
}

// parsePorts parses [LOCAL:]PORT.
func parsePorts(text string) (local, port int, err error) {
	first, second, both := strings.Cut(text, ":")
	if !both {
		second = first
	}
	local, err = strconv.Atoi(first)
	if err == nil {
		port, err = strconv.Atoi(second)
	}
	if err != nil || local < 0 || local > 65535 || port < 1 || port > 65535 {
		return 0, 0, console.Usagef("%q is not [LOCAL:]PORT: a port is 1 to 65535, such as 8080 or 9000:8080", text)
	}
	return local, port, nil
}

// forwardPort forwards connections until ctx ends.
func (a *command) forwardPort(ctx context.Context, ws *workspace.Workspace, local, port int) error {
	// A workspace without ports is an error at once. That nothing listens yet is none.
	if conn, err := ws.Dial(ctx, port); err == nil {
		conn.Close()
	} else if fault.CauseOf(err) != fault.CauseRefused {
		return err
	} else {
		a.Note("croft: no process of the workspace listens on port %d yet", port)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(local)))
	if err != nil {
		return fault.Advise(fmt.Errorf("listen on port %d: %w: %w", local, fault.Unavailable, err), "choose another one with LOCAL:PORT")
	}
	var forwards sync.WaitGroup
	defer forwards.Wait()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	url := "http://" + l.Addr().String()
	if err := a.PrintAnswer(map[string]any{"url": url, "port": port}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s -> port %d of %s\n", url, port, ws.ID())
		return err
	}); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w: %w", fault.Unavailable, err)
		}
		forwards.Go(func() {
			if err := forwardConn(ctx, conn, ws, port); err != nil {
				a.Note("croft: %v", err)
			}
		})
	}
}

// forwardConn forwards one connection until both directions have ended, one breaks, or ctx
// ends.
func forwardConn(ctx context.Context, local net.Conn, ws *workspace.Workspace, port int) error {
	defer local.Close()
	remote, err := ws.Dial(ctx, port)
	if err != nil {
		return err
	}
	defer remote.Close()
	defer context.AfterFunc(ctx, func() { errors.Join(local.Close(), remote.Close()) })() //nolint:errcheck // it ends the copies
	var both sync.WaitGroup
	both.Go(func() { copyDirection(remote, local) })
	copyDirection(local, remote)
	both.Wait()
	return nil
}

// copyDirection copies until the end of from, and ends the same direction of to. An error
// ends both connections.
func copyDirection(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		to.Close()
		from.Close()
	}
}
