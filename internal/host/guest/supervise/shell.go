package supervise

import (
	"context"
	"net"

	"github.com/croft-run/croft/workspace/driver"
)

// Shell is the shell module of a handle. Each call asks for the module that it goes to: ask
// checks that the handle is current, and finds or starts the guest.
func Shell(ask func(ctx context.Context) (*driver.Shell, error)) *driver.Shell {
	return &driver.Shell{
		Starter: shellStarter{ask},
		Run: func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
			s, err := ask(ctx)
			if err != nil {
				return driver.Result{}, err
			}
			return s.Run(ctx, cmd)
		},
		Sessions: func(ctx context.Context) ([]driver.SessionInfo, error) {
			s, err := ask(ctx)
			if err != nil {
				return nil, err
			}
			return s.Sessions(ctx)
		},
		Attach: func(ctx context.Context, id string) (*driver.Session, error) {
			s, err := ask(ctx)
			if err != nil {
				return nil, err
			}
			return s.Attach(ctx, id)
		},
		Dial: func(ctx context.Context, port int) (net.Conn, error) {
			s, err := ask(ctx)
			if err != nil {
				return nil, err
			}
			return s.Dial(ctx, port)
		},
	}
}

type shellStarter struct {
	ask func(ctx context.Context) (*driver.Shell, error)
}

func (s shellStarter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	shell, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	return shell.Start(ctx, cmd)
}
