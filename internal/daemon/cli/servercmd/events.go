package servercmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

type eventsOptions struct {
	follow    bool
	kinds     []string
	workspace string
	lines     int
}

func eventsCommand(a *command) *cobra.Command {
	var opts eventsOptions
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print the events of workspaces; with -f, also new ones",
		Long: `Print the audit stream: what was done in which workspace, for which session, and how it ended.
Without --server it is read from the data directory, to which all programs write; with --server
it is what the daemon has in memory. --json prints one event per line.`,
		Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error { return a.printEvents(ctx, opts) }),
	}
	f := cmd.Flags()
	f.BoolVarP(&opts.follow, "follow", "f", false, "print new events until Ctrl-C")
	f.StringArrayVar(&opts.kinds, "kind", nil, "only events of this kind; lifecycle.* matches all kinds below lifecycle; may be given several times")
	f.StringVar(&opts.workspace, "workspace", "", "workspace by name or id; only its events")
	f.IntVarP(&opts.lines, "lines", "n", 0, "begin with the last N events; 0 is all")
	return cmd
}

func (a *command) printEvents(ctx context.Context, opts eventsOptions) error {
	if opts.lines < 0 {
		return console.Usagef("--lines %d: give a number of events, at least 0; 0 is all", opts.lines)
	}
	if a.Server != "" {
		return a.serverEvents(ctx, opts)
	}
	filter := event.Filter{}
	for _, k := range opts.kinds {
		filter.Kinds = append(filter.Kinds, event.Kind(k))
	}
	if err := filter.Check(); err != nil {
		return err
	}
	err := a.WithClient(ctx, func(c *client.Client) error {
		if opts.workspace == "" {
			return nil
		}
		ws, err := c.Show(ctx, opts.workspace)
		filter.Workspace = ws.ID
		return err
	})
	if err != nil {
		return err
	}
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	path := app.EventsFile(settings.Data, settings)
	if path == "" {
		return fmt.Errorf("events: %w: events.file is none in the configuration, so there is no file; read the latest events of a daemon with --server", fault.Unsupported)
	}
	return a.fileEvents(ctx, path, filter, opts)
}

func (a *command) serverEvents(ctx context.Context, opts eventsOptions) error {
	c, err := a.RemoteClient()
	if err != nil {
		return err
	}
	defer c.Close()
	filter := client.EventFilter{Kinds: opts.kinds, Workspace: opts.workspace, After: "0", Follow: opts.follow && opts.lines == 0}
	last := newTail[event.Event](opts.lines, a.printEvent)
	var seen uint64
	take := func(f func(event.Event) error) func(event.Event) error {
		return func(e event.Event) error {
			seen = max(seen, e.Sequence)
			return f(e)
		}
	}
	err = c.Events(ctx, filter, take(last.add))
	if err == nil {
		err = last.flush()
	}
	if err == nil && opts.follow && !filter.Follow {
		filter.Follow, filter.After = true, fmt.Sprint(seen)
		err = c.Events(ctx, filter, take(a.printEvent))
	}
	return ignoreFollowEnd(ctx, opts, err)
}

// ignoreFollowEnd returns nil if the user ended following, and else err.
func ignoreFollowEnd(ctx context.Context, opts eventsOptions, err error) error {
	if opts.follow && ctx.Err() != nil {
		return nil
	}
	return err
}

// fileEvents prints the events in the files of the data directory.
func (a *command) fileEvents(ctx context.Context, path string, filter event.Filter, opts eventsOptions) error {
	var follower *follower
	if opts.follow {
		// The follower opens first, so that events of the meantime are not lost.
		var err error
		if follower, err = newFollower(path); err != nil {
			return err
		}
		defer follower.close()
	}
	last := newTail[event.Event](opts.lines, a.printEvent)
	var bad *event.LineError
	for e, err := range event.ReadFiles(path) {
		switch {
		case errors.As(err, &bad):
			a.Note("croft: %v", err)
		case err != nil:
			return err
		default:
			follower.markSeen(e)
			if !filter.Match(e) {
				continue
			}
			if err := last.add(e); err != nil {
				return err
			}
		}
	}
	if err := last.flush(); err != nil || follower == nil {
		return err
	}
	return ignoreFollowEnd(ctx, opts, follower.run(ctx, func(e event.Event) error {
		if !filter.Match(e) {
			return nil
		}
		return a.printEvent(e)
	}))
}

// printEvent prints one event on one line.
func (a *command) printEvent(e event.Event) error {
	if a.JSON {
		_, err := fmt.Fprintf(a.Out, "%s\n", event.Marshal(e))
		return err
	}
	var fields []string
	for k, v := range e.Fields {
		if v != nil {
			fields = append(fields, k+"="+fieldText(v))
		}
	}
	if e.Tenant != "" {
		fields = append(fields, "tenant="+fieldText(e.Tenant))
	}
	slices.Sort(fields)
	_, err := fmt.Fprintf(a.Out, "%s %s %s %s\n", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), console.OrDash(e.Workspace), e.Kind, strings.Join(fields, " "))
	return err
}

func fieldText(v any) string {
	text := console.Printable(fmt.Sprint(v))
	if strings.ContainsAny(text, " ") && !strings.HasPrefix(text, `"`) {
		return fmt.Sprintf("%q", text)
	}
	return text
}

// A tail passes on the last n added values at flush, or each at once if n is 0.
type tail[T any] struct {
	n    int
	pass func(T) error
	kept []T
}

func newTail[T any](n int, pass func(T) error) *tail[T] { return &tail[T]{n: n, pass: pass} }

func (t *tail[T]) add(v T) error {
	if t.n <= 0 {
		return t.pass(v)
	}
	if len(t.kept) == t.n {
		t.kept = t.kept[1:]
	}
	t.kept = append(t.kept, v)
	return nil
}

func (t *tail[T]) flush() error {
	for _, v := range t.kept {
		if err := t.pass(v); err != nil {
			return err
		}
	}
	t.kept = nil
	return nil
}

// A follower reads lines that are appended to a file, which may be rotated.
type follower struct {
	path  string
	file  *os.File
	lines *bufio.Reader
	part  []byte

	since time.Time       // start of following
	known map[string]bool // events already printed that may be read again
}

// newFollower starts at the end of the file.
func newFollower(path string) (*follower, error) {
	f := &follower{path: path, since: time.Now(), known: map[string]bool{}}
	if err := f.open(); err != nil {
		return nil, err
	}
	if f.file != nil {
		if _, err := f.file.Seek(0, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// markSeen records an event that was already read from the files, so that the
// follower does not print it again.
func (f *follower) markSeen(e event.Event) {
	const written = 10 * time.Second // maximum delay between an event and its line
	if f != nil && e.Time.After(f.since.Add(-written)) {
		f.known[string(event.Marshal(e))] = true
	}
}

func (f *follower) open() error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f.close()
	f.file, f.lines, f.part = file, bufio.NewReader(file), nil
	return nil
}

func (f *follower) close() {
	if f.file != nil {
		f.file.Close()
	}
}

// run polls for new lines until ctx ends.
func (f *follower) run(ctx context.Context, pass func(event.Event) error) error {
	const pause = 50 * time.Millisecond
	for {
		if err := f.read(pass); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if f.isRotated() {
			if err := f.read(pass); err != nil { // the last lines of the old file
				return err
			}
			if err := f.open(); err != nil {
				return err
			}
		}
	}
}

// read passes on the complete lines.
func (f *follower) read(pass func(event.Event) error) error {
	for f.file != nil {
		data, err := f.lines.ReadBytes('\n')
		f.part = append(f.part, data...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := event.Unmarshal(f.part)
		f.part = nil
		if err != nil || f.known[string(event.Marshal(e))] {
			continue // a line that a crash truncated, or one already printed
		}
		if err := pass(e); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) isRotated() bool {
	now, err := os.Stat(f.path)
	if err != nil {
		return false
	}
	if f.file == nil {
		return true
	}
	was, err := f.file.Stat()
	return err == nil && !os.SameFile(now, was)
}
