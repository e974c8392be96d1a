package servercmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/backup"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func backupCommand(a *command) *cobra.Command {
	var opts backup.Options
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up a data directory, while it is used",
		Long: `Write a backup of the data directory to a new file, or to standard output with "-": the records of
workspaces, the files of each workspace as a snapshot, all snapshots and templates, the files of
volumes, artifacts, the configuration and the events. A server may use the directory meanwhile.

Left out, and listed: workspaces in memory, and directories of the host that are used in place.
Processes are not kept. The token is left out without --with-token; croft restore makes a new one.
Until the backup is complete, the file is named FILE.partial; after a crash the next backup or croft gc
removes it.`,
		Example: "  croft backup /backups/croft-$(date +%F).tar.zst",
		Args:    cobra.ExactArgs(1),
		RunE:    console.RunE(func(ctx context.Context, args []string) error { return a.backUp(ctx, args[0], opts) }),
	}
	cmd.Flags().BoolVar(&opts.Token, "with-token", false, "include the token of the server, and the key of the access tokens of E2B's sandboxes")
	return cmd
}

// backupAnswer is what croft backup --json prints.
type backupAnswer struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	*backup.Contents
}

func (a *command) backUp(ctx context.Context, file string, opts backup.Options) error {
	if _, err := os.Lstat(file); file != "-" && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fault.Advise(fmt.Errorf("backup: %s: %w", file, fault.AlreadyExists), "name a new file"))
	}
	return a.WithSystem(ctx, "backup reads the data directory", func(s *app.System) error {
		out := backupAnswer{File: file}
		write := func(w io.Writer) (err error) {
			now, stop := a.StartProgress("backing up")
			defer stop()
			if now != nil {
				w = io.MultiWriter(w, &console.ByteCounter{Progress: now})
			}
			out.Contents, err = s.Backups.Write(ctx, w, opts)
			return err
		}
		if file == "-" {
			if err := write(a.Out); err != nil {
				return err
			}
			a.noteNotInBackup(out.Contents)
			return nil
		}
		var err error
		opts.Partial, err = filepath.Abs(backup.PartialName(file))
		if err != nil {
			return err
		}
		if err := atomicfile.WriteTo(file, atomicfile.Options{Durable: true, Temp: backup.PartialName(file)}, write); err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		out.Bytes = info.Size()
		a.noteNotInBackup(out.Contents)
		return a.PrintAnswer(out, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "backed up %s and %s to %s, %d bytes\n", console.CountText(int64(len(out.Workspaces)), "workspace"), console.CountText(int64(out.Snapshots), "snapshot"), console.Printable(file), out.Bytes)
			return err
		})
	})
}

func (a *command) noteNotInBackup(c *backup.Contents) {
	for _, l := range c.LeftOut {
		name := l.ID
		if l.Name != "" {
			name = l.Name + " (" + l.ID + ")"
		}
		a.Note("left out: %s: %s", console.Printable(name), console.Printable(l.Reason))
	}
}

func restoreCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty data directory",
		Long: `Restore a backup of croft backup into the data directory, which must be empty or missing; a croft.yaml
that is there stays and counts. "-" is standard input. The digests of all files are verified before the
directory becomes usable. Each workspace has its id and name, and opens with the files that it had.
Processes are not restored.

With store.url in the configuration, the records are written to that database, which must have none.`,
		Example: "  croft restore /backups/croft-2026-11-17.tar.zst --data /var/lib/croft",
		Args:    cobra.ExactArgs(1),
		RunE:    console.RunE(func(ctx context.Context, args []string) error { return a.restore(ctx, args[0]) }),
	}
}

func (a *command) restore(ctx context.Context, file string) (err error) {
	if a.Server != "" {
		return console.Usagef("restore writes a data directory: leave out --server and CROFT_SERVER")
	}
	in := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	now, stop := a.StartProgress("restoring")
	if now != nil {
		in = io.TeeReader(in, &console.ByteCounter{Progress: now})
	}
	out, err := backup.Restore(ctx, bufio.NewReaderSize(in, 1<<20), a.Data, func(inBackup string) (string, error) {
		if a.Config != "" {
			inBackup = a.Config
		}
		c, err := a.ResolveConfig(inBackup)
		if err != nil {
			return "", err
		}
		if c.Store.Bucket != "" {
			return "", fmt.Errorf("restore: %w: a backup has its snapshots and artifacts for a data directory, and the configuration has a bucket (store.bucket); leave it out", fault.Unsupported)
		}
		return c.Store.URL, nil
	})
	stop()
	if err != nil {
		return err
	}
	a.noteNotInBackup(&out.Contents)
	if !out.Token {
		a.Note("the token is a new one: it is in %s", console.Printable(out.Data+"/token"))
	}
	return a.PrintAnswer(out, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "restored %s and %s into %s, as of %s\n", console.CountText(int64(len(out.Workspaces)), "workspace"), console.CountText(int64(out.Snapshots), "snapshot"),
			console.Printable(out.Data), out.Created.Format("2006-01-02 15:04:05 MST"))
		return err
	})
}
