package servercmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/daemon/setup"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/provider/ssh"
)

// An installedItem is something that Croft has put on this machine, or that only Croft uses.
type installedItem struct {
	What  string `json:"what"` // such as workspace or data directory
	Name  string `json:"name"` // path, or name
	State string `json:"state"`
	Note  string `json:"note,omitempty"`

	remove func(ctx context.Context) error // nil keeps it
}

// The states of an installedItem.
const (
	itemFound   = "found" // --yes removes it
	itemKept    = "kept"
	itemRemoved = "removed"
	itemFailed  = "failed"
)

func uninstallCommand(a *command) *cobra.Command {
	var yes, dryRun, keepData bool
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "uninstall",
		Short: "List what Croft has put on this machine, and remove it",
		Long: `List everything that Croft has put on this machine: workspaces with what runs in them, images of the
container engine, the data directory, entries in the configurations of agents (croft setup), the cache,
this program with its manual pages and completions. With --yes it is removed. Directories that
workspaces use in place, projects, files that you wrote, such as croft.yaml, and what is in a
database, in a bucket or on a machine of the provider ssh stay; they are listed as kept.

The changes of croft work that you have not applied are in the data directory: they are lost.`,
		Example: "  croft uninstall --dry-run\n  croft uninstall --yes\n  croft uninstall --yes --keep-data",
		Args:    cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			if yes && dryRun {
				return console.Usagef("uninstall: --yes and --dry-run exclude each other")
			}
			if a.Server != "" {
				return console.Usagef("uninstall removes Croft from this host: run it where the server is, without --server")
			}
			return a.uninstall(ctx, cmd.Root(), yes, keepData)
		}),
	}
	f := cmd.Flags()
	console.RegisterYes(f, &yes)
	f.BoolVar(&dryRun, "dry-run", false, "list what would be removed, as without --yes")
	f.BoolVar(&keepData, "keep-data", false, "keep the data directory with its workspaces")
	return cmd
}

// uninstall lists what is installed and, with yes, removes it in the order of the list.
func (a *command) uninstall(ctx context.Context, root *cobra.Command, yes, keepData bool) error {
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	items, err := a.agentEntries()
	if err != nil {
		return err
	}
	if datadir.Exists(settings.Data) {
		data, end, err := a.dataItems(ctx, settings, yes && !keepData)
		if err != nil {
			return err
		}
		defer end()
		if keepData {
			for i := range data {
				data[i].remove = nil
			}
		}
		items = append(items, data...)
	}
	items = append(items, hostItems(root, settings)...)
	for i := range items {
		if items[i].State = itemFound; items[i].remove == nil {
			items[i].State = itemKept
		}
	}
	if yes {
		err = removeItems(ctx, items)
	}
	return errors.Join(a.PrintAnswer(items, func(w io.Writer) error {
		rows := [][]string{{"WHAT", "NAME", "STATE", "NOTE"}}
		for _, i := range items {
			rows = append(rows, []string{i.What, i.Name, i.State, console.OrDash(console.OneLine(i.Note))})
		}
		err := console.WriteTable(w, rows, "NOTE")
		if !yes {
			a.Note("nothing was removed; croft uninstall --yes removes what is %q", itemFound)
		}
		return err
	}), err)
}

// removeItems removes what may be removed. After a failure the rest stays: a data directory
// describes the processes and containers that could not be removed, and this program is
// needed to try again.
func removeItems(ctx context.Context, items []installedItem) error {
	for i := range items {
		item := &items[i]
		if item.remove == nil {
			continue
		}
		if err := item.remove(ctx); err != nil {
			item.State, item.Note = itemFailed, err.Error()
			return fmt.Errorf("uninstall: %s %s: %w; what follows in the list was not removed: mend it and try again", item.What, console.Printable(item.Name), err)
		}
		item.State = itemRemoved
	}
	return nil
}

// agentEntries lists the MCP servers that croft setup added.
func (a *command) agentEntries() ([]installedItem, error) {
	agents, err := a.setupAgents(nil, true)
	if err != nil {
		return nil, err
	}
	var items []installedItem
	for _, agent := range agents {
		change, err := agent.Remove()
		item := installedItem{What: "MCP server", Name: agent.File, Note: "the entry " + setup.ServerName + " of " + agent.Title}
		switch {
		case err != nil:
			item.Note = "its configuration can't be read: " + err.Error()
		case change == nil:
			continue
		default:
			item.remove = func(context.Context) error {
				_, err := change.Make()
				return err
			}
		}
		items = append(items, item)
	}
	return items, nil
}

// dataItems lists the workspaces, images and files of the data directory. With lock no
// server may use the directory. end releases what the removal of items uses.
func (a *command) dataItems(ctx context.Context, settings *config.Config, lock bool) (items []installedItem, end func(), err error) {
	s, err := a.OpenSystem(ctx, app.Config{Operator: true, Log: a.NewLogger(slog.LevelError)})
	if err != nil {
		return nil, nil, err
	}
	unlock := func() {}
	closeSystem := sync.OnceValue(func() error {
		unlock()
		return s.Close(ctx)
	})
	done := false
	defer func() {
		if !done {
			_ = closeSystem() // the first error is returned
		}
	}()
	if lock {
		u, err := s.Lock()
		if err != nil {
			return nil, nil, fmt.Errorf("uninstall: nothing was removed: end the server first: %w", err)
		}
		unlock = u
	}
	c := app.NewLocal(s)
	list, err := c.List(ctx, client.Filter{})
	if err != nil {
		return nil, nil, err
	}
	if url := settings.Store.URL; lock && len(list) > 0 && url != "" && !strings.HasPrefix(url, "sqlite:") {
		return nil, nil, fmt.Errorf("uninstall: %w: the registry is a database that other hosts may use (store.url), with %s; "+
			"remove those of this host with croft ws rm first", fault.Unsupported, console.CountText(len(list), "workspace"))
	}
	for _, ws := range list {
		item := installedItem{What: "workspace", Name: ws.ID, Note: ws.Kind + ", " + ws.State,
			remove: func(ctx context.Context) error { return c.Destroy(ctx, ws.ID) }}
		if ws.Name != "" {
			item.Name = ws.Name
		}
		if ws.Labels[work.ProjectLabel] != "" {
			item.Note += "; a work: changes that you have not applied are lost"
		}
		if ws.Dir != "" {
			item.Note += "; its directory " + ws.Dir + " stays"
		}
		items = append(items, item)
	}
	items = append(items, imageItems(ctx, s)...)
	items = append(items, installedItem{What: "data directory", Name: settings.Data,
		Note: "workspaces, snapshots, the registry, the token",
		remove: func(ctx context.Context) error {
			_, err := s.GC.Collect(ctx) // leftovers of killed processes
			if err := errors.Join(err, closeSystem()); err != nil {
				return err
			}
			return datadir.Remove(settings.Data)
		}})
	done = true
	return items, func() { _ = closeSystem() }, nil // the removal has returned its error
}

// imageItems lists images that Croft made; none where no engine answers.
func imageItems(ctx context.Context, s *app.System) (items []installedItem) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := s.Images.Made(ctx)
	if err != nil {
		return nil
	}
	for _, img := range list {
		for _, name := range img.Names {
			items = append(items, installedItem{What: "container image", Name: name,
				remove: func(ctx context.Context) error { return s.Images.Remove(ctx, name) }})
		}
	}
	return items
}

// hostItems lists what is outside of the data directory.
func hostItems(root *cobra.Command, settings *config.Config) []installedItem {
	var items []installedItem
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "croft")
		if _, err := os.Lstat(dir); err == nil {
			items = append(items, installedItem{What: "cache", Name: dir, remove: func(context.Context) error { return os.RemoveAll(dir) }})
		}
	}
	if file := settings.File(); file != "" {
		items = append(items, installedItem{What: "configuration", Name: file, Note: "you wrote it"})
	}
	const unit = "/etc/systemd/system/croft.service"
	if _, err := os.Lstat(unit); err == nil {
		items = append(items, installedItem{What: "service", Name: unit, Note: "an administrator installed it: systemctl disable --now croft, then remove the file"})
	}
	items = append(items, elsewhereItems(settings)...)
	return append(items, programItems(root)...)
}

// elsewhereItems lists what the configuration has Croft keep in places that others may use,
// too. All of it is kept.
func elsewhereItems(settings *config.Config) (items []installedItem) {
	if u, err := url.Parse(settings.Store.URL); err == nil && u.Host != "" {
		items = append(items, installedItem{What: "database", Name: u.Redacted(), Note: "records of workspaces and keys; other servers may use them"})
	}
	if bucket := settings.Store.Bucket; bucket != "" {
		items = append(items, installedItem{What: "bucket", Name: bucket, Note: "snapshots, templates and artifacts; other servers may use them"})
	}
	for _, name := range slices.Sorted(maps.Keys(settings.Providers)) {
		var on ssh.Options
		if kind, options, err := settings.Provider(name); err != nil || kind != ssh.Kind || json.Unmarshal(options, &on) != nil || on.Host == "" {
			continue
		}
		dir := cmp.Or(on.Dir, ssh.DefaultDir)
		items = append(items, installedItem{What: "machine", Name: on.Host, Note: "croft-guest; to remove it: ssh " + on.Host + " 'rm -r " + dir + "/bin'"})
	}
	if dir := settings.Evals.Dir; dir != "" {
		if _, err := os.Lstat(dir); err == nil {
			items = append(items, installedItem{What: "evaluations", Name: dir, Note: "results of runs"})
		}
	}
	return items
}

// programItems lists this program, and the manual pages and completions that install.sh put
// beside it.
func programItems(root *cobra.Command) []installedItem {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return nil
	}
	item := installedItem{What: "program", Name: program, remove: func(context.Context) error { return os.Remove(program) }}
	switch {
	case program == "/usr/bin/croft":
		item.remove, item.Note = nil, "it belongs to a package: apt-get remove croft, or dnf remove croft"
	case filepath.Base(program) != "croft":
		item.remove, item.Note = nil, "another program has Croft inside"
	}
	if item.remove == nil || filepath.Base(filepath.Dir(program)) != "bin" {
		return []installedItem{item}
	}
	share := filepath.Join(filepath.Dir(filepath.Dir(program)), "share")
	var items []installedItem
	add := func(what string, files []string) {
		if len(files) > 0 {
			items = append(items, installedItem{What: what, Name: files[0], Note: console.CountText(len(files), "file"), remove: removeFiles(files)})
		}
	}
	var pages []string
	for _, cmd := range allCommands(root) {
		pages = append(pages, filepath.Join(share, "man", "man1", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
	}
	add("manual pages", existing(pages))
	add("completions", existing([]string{
		filepath.Join(share, "bash-completion", "completions", "croft"),
		filepath.Join(share, "zsh", "site-functions", "_croft"),
		filepath.Join(share, "fish", "vendor_completions.d", "croft.fish"),
	}))
	return append(items, item)
}

func allCommands(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		list = append(list, allCommands(c)...)
	}
	return list
}

func existing(files []string) (list []string) {
	for _, name := range files {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			list = append(list, name)
		}
	}
	return list
}

func removeFiles(files []string) func(context.Context) error {
	return func(context.Context) (err error) {
		for _, name := range files {
			err = errors.Join(err, os.Remove(name))
		}
		return err
	}
}
