package workcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/snapshot"
)

// A hostUse says how often a work asked for a host.
type hostUse struct {
	Host    string `json:"host"`
	Reached int    `json:"reached"`
	Failed  int    `json:"failed"` // allowed, but not reached
	Refused int    `json:"refused"`
	Reason  string `json:"reason,omitempty"` // of the last one that was refused or not reached
}

// addRequest counts an outbound request of a work in all, which has the hosts by their names.
func addRequest(all map[string]*hostUse, e event.Event) {
	at := fmt.Sprint(e.Fields[event.FieldHost])
	// A malformed request has no port.
	if port := e.Fields[event.FieldPort]; port != nil && fmt.Sprint(port) != "80" && fmt.Sprint(port) != "443" {
		at = net.JoinHostPort(at, fmt.Sprint(port))
	}
	if all[at] == nil {
		all[at] = &hostUse{Host: at}
	}
	reason, _ := e.Fields[event.FieldReason].(string)
	switch {
	case e.Fields[event.FieldVerdict] == event.VerdictDeny:
		all[at].Refused++
		all[at].Reason = reason
	case e.Fields[event.FieldCode] != nil && fmt.Sprint(e.Fields[event.FieldBytesIn]) == "0":
		all[at].Failed++ // nothing came back
		if all[at].Refused == 0 {
			all[at].Reason = reason
		}
	default:
		all[at].Reached++
	}
}

// events passes the events of a workspace to f, from the files of the data directory.
func (a *command) events(id string, f func(e event.Event)) error {
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	path := app.EventsFile(settings.Data, settings)
	if path == "" {
		return fmt.Errorf("events: %w: the configuration turns the file of events off (events.file: none)", fault.Unsupported)
	}
	var bad *event.LineError
	for e, err := range event.ReadWorkspace(path, id) {
		switch {
		case errors.As(err, &bad):
		case err != nil:
			return err
		default:
			f(e)
		}
	}
	return nil
}

// hosts returns the hosts that a work asked for, sorted.
func (a *command) hosts(_ context.Context, _ console.Workspaces, id string) ([]hostUse, error) {
	all := map[string]*hostUse{}
	err := a.events(id, func(e event.Event) {
		if e.Kind == event.EgressRequest {
			addRequest(all, e)
		}
	})
	list := []hostUse{}
	for _, at := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[at])
	}
	return list, err
}

// log is the answer of work log.
type log struct {
	Commands []loggedCommand    `json:"commands"`
	Hosts    []hostUse          `json:"hosts"`
	Files    []loggedFile       `json:"files"`
	Applied  []loggedApply      `json:"applied,omitempty"`
	Stats    snapshot.Stats     `json:"stats"`
	LeftOut  []snapshot.LeftOut `json:"leftOut,omitempty"`

	NetworkOpen bool `json:"networkOpen,omitempty"` // nothing counts the hosts
}

type loggedCommand struct {
	Time    time.Time `json:"time"`
	Command string    `json:"command"`
	Code    string    `json:"code,omitempty"` // of an error
}

type loggedFile struct {
	Kind snapshot.ChangeKind `json:"kind"`
	Path string              `json:"path"`
}

type loggedApply struct {
	Time time.Time `json:"time"`
	Dir  string    `json:"dir"`
}

func logCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "log [NAME]",
		Short: "Show the commands that croft started in a work, the hosts that it asked for, and the files that it changed",
		Args:  cobra.MaximumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.withWork(ctx, args, func(c console.Workspaces, w *of, rest []string) error {
				if err := noMore(rest); err != nil {
					return err
				}
				return a.log(ctx, c, w)
			})
		}),
	}
}

func (a *command) log(ctx context.Context, c console.Workspaces, w *of) error {
	log := log{Commands: []loggedCommand{}, Files: []loggedFile{}, NetworkOpen: w.Policy.Network.Open}
	err := a.events(w.ID, func(e event.Event) {
		text, ok := e.Fields[event.FieldCommand].(string)
		if e.Kind != event.Operation || !ok || text == "" || slices.ContainsFunc(ownScripts, func(own string) bool { return strings.HasPrefix(text, own) }) {
			return
		}
		text = strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(text, "bash -c "+jobControl)), "croft ")
		code, _ := e.Fields[event.FieldCode].(string)
		log.Commands = append(log.Commands, loggedCommand{e.Time, text, code})
	})
	if err != nil {
		return err
	}
	if log.Hosts, err = a.hosts(ctx, c, w.ID); err != nil {
		return err
	}
	if w.Dir == "" {
		d, err := changecmd.FetchDiff(ctx, c, w.ID, client.DiffOptions{Text: true})
		if err != nil {
			return err
		}
		log.Stats, log.LeftOut = d.Stats, d.LeftOut
		for _, ch := range d.Files() {
			log.Files = append(log.Files, loggedFile{ch.Kind, ch.Path})
		}
	}
	store, _, err := changecmd.HostStore(ctx, a.Console)
	if err != nil {
		return err
	}
	list, err := store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return err
	}
	for _, m := range list {
		if m.Workspace == w.ID && m.Labels[snapshot.DirLabel] != "" {
			log.Applied = append(log.Applied, loggedApply{m.Created, m.Labels[snapshot.DirLabel]})
		}
	}
	slices.SortFunc(log.Applied, func(x, y loggedApply) int { return x.Time.Compare(y.Time) })
	return a.PrintAnswer(log, func(w io.Writer) error { return log.write(w) })
}

func (l log) write(w io.Writer) error {
	rows := [][]string{{"COMMANDS", ""}}
	for _, c := range l.Commands {
		const most = 100
		text := console.OneLine(c.Command)
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "..."
		}
		rows = append(rows, []string{console.TimeText(c.Time), strings.TrimSpace(text + " " + c.Code)})
	}
	rows = append(rows, []string{"HOSTS", ""})
	if l.NetworkOpen {
		rows = append(rows, []string{"any", "the network is open, and hosts are not recorded"})
	}
	for _, h := range l.Hosts {
		var text []string
		if h.Reached > 0 {
			text = append(text, "reached "+console.CountText(h.Reached, "time"))
		}
		if h.Failed > 0 {
			text = append(text, "not reached "+console.CountText(h.Failed, "time"))
		}
		if h.Refused > 0 {
			text = append(text, "refused "+console.CountText(h.Refused, "time"))
		}
		rows = append(rows, []string{h.Host, strings.Join(text, ", ")})
	}
	rows = append(rows, []string{"FILES", ""})
	for _, f := range l.Files {
		rows = append(rows, []string{string(f.Kind), f.Path})
	}
	if len(l.Applied) > 0 {
		rows = append(rows, []string{"APPLIED", ""})
	}
	for _, p := range l.Applied {
		rows = append(rows, []string{console.TimeText(p.Time), p.Dir})
	}
	return console.WriteTable(w, rows)
}
