package console

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/live"
	"github.com/croft-run/croft/workspace/driver"
)

// Streams are the standard streams of a run.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// A Console is one run of the program: its streams and the global flags.
type Console struct {
	Streams
	Program   string
	Providers []driver.Provider

	Config string // file
	Data   string
	Server string
	Token  string
	JSON   bool

	tokenOf  string         // the data directory whose token a server got, as none was given
	resolved *config.Config // cache of settings
	System   *app.System    // the open data directory, without --server

	view  *live.View   // the line of progress that is shown now
	Notes *slog.Logger // takes the notes of a server whose log is in JSON; nil otherwise

	named sync.Map // ids of workspaces to the names that the user gave; works at once open theirs

	Secrets    func() map[string]app.Secret // of the user's agents, for croft work
	NoProjects bool                         // see app.Config
	InWork     bool                         // it is a command of croft work
}

// New returns the console of a run of program. providers are added to Croft's own.
func New(program string, streams Streams, providers []driver.Provider) *Console {
	streams.Out, streams.Err = &checkedOutput{Writer: streams.Out, name: "standard output"}, &checkedOutput{Writer: streams.Err, name: "standard error"}
	return &Console{Streams: streams, Program: program, Providers: providers}
}

// RunE makes the RunE of a command. Errors of f become failures; other errors of
// cobra are usage errors.
func RunE(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd.Context(), args); err != nil {
			return &failure{err}
		}
		return nil
	}
}

// WithSystem runs f on the data directory of this host.
func (a *Console) WithSystem(ctx context.Context, what string, f func(s *app.System) error) (err error) {
	if a.Server != "" {
		return Usagef("%s of this host: run it where the server is, without --server", what)
	}
	sys, err := a.OpenSystem(ctx, app.Config{Operator: true, NoProjects: a.NoProjects, Log: a.NewLogger(slog.LevelError)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close(ctx)) }()
	a.System = sys
	return f(sys)
}
