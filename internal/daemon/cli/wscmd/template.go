package wscmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func templateCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Manage templates, from which workspaces start",
		Long: `Manage templates, from which workspaces start. A template never changes. Any number of
workspaces start from it (croft ws open --template NAME, croft run --template NAME); in the sandbox
they share its files, copy-on-write.`,
	}
	cmd.AddCommand(templateCreateCommand(a), templateListCommand(a), templateShowCommand(a), templateRmCommand(a))
	return cmd
}

func templateCreateCommand(a *command) *cobra.Command {
	var t client.TemplateRequest
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a template from a directory, a snapshot, a git repository or an image",
		Long: `Make a template from one of --dir, --snapshot, --repo and --image. Nothing of the source is run:
from a repository the files of one commit are read, without hooks and filters.`,
		Example: `  croft template create app --dir ~/src/app --ignore node_modules/
  croft template create app-v1 --repo ~/src/app --revision v1
  croft template create debian --image debian:stable-slim
  croft template create tools --image ./tools.tar`,
		Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			t.Name = args[0]
			return a.templateCreate(ctx, t)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&t.Dir, "dir", "", "directory of the host")
	f.StringVar(&t.Snapshot, "snapshot", "", "snapshot by its id")
	f.StringVar(&t.Git, "repo", "", "git repository of the host")
	f.StringVar(&t.Revision, "revision", "", "with --repo: a branch, tag or commit (default HEAD)")
	f.StringVar(&t.Image, "image", "", "an OCI layout or a tarball, as a path with a slash, or the name of an image in a registry")
	f.BoolVar(&t.Credentials, "credentials", false, "with --dir: take credential files, such as .env, along")
	f.StringArrayVar(&t.Ignore, "ignore", nil, "leave out files that match this pattern of .gitignore syntax")
	return cmd
}

func (a *command) templateCreate(ctx context.Context, t client.TemplateRequest) error {
	if t.Dir+t.Snapshot+t.Git+t.Image == "" {
		return console.Usagef("no source: give one of --dir DIR, --snapshot ID, --repo DIR and --image IMAGE")
	}
	paths := []*string{&t.Dir, &t.Git}
	if console.IsPath(t.Image) {
		paths = append(paths, &t.Image)
	}
	for _, p := range paths {
		if *p == "" || p == &t.Git && strings.Contains(*p, ":") && !console.IsPath(*p) {
			continue // not a path; the server refuses it
		}
		if a.Server != "" && !filepath.IsAbs(*p) {
			return console.Usagef("%s is relative: with --server, give a path of the server's host from its root", *p)
		}
		var err error
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	return a.WithClient(ctx, func(c *client.Client) error {
		_, stop := a.StartProgress("making the template")
		made, err := c.CreateTemplate(ctx, t)
		stop()
		if err != nil {
			return err
		}
		a.noteCredentials(made.LeftOut)
		return a.PrintAnswer(made, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, made.Name)
			return err
		})
	})
}

func templateListCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the templates", Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				list, err := c.Templates(ctx)
				if err != nil {
					return err
				}
				return a.PrintAnswer(list, func(w io.Writer) error {
					rows := [][]string{{"NAME", "CREATED", "FILES", "BYTES", "SOURCE"}}
					for _, t := range list {
						rows = append(rows, []string{t.Name, console.TimeText(t.Created), strconv.FormatInt(t.Files, 10), strconv.FormatInt(t.Bytes, 10), console.Printable(t.Source)})
					}
					return console.WriteTable(w, rows, "FILES", "BYTES", "CREATED")
				})
			})
		}),
	}
}

func templateShowCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Describe a template", Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				t, err := c.Template(ctx, args[0])
				if err != nil {
					return err
				}
				return a.PrintAnswer(t, func(w io.Writer) error {
					return console.WriteTable(w, [][]string{
						{"name", t.Name}, {"snapshot", t.Snapshot}, {"source", console.Printable(t.Source)}, {"created", console.TimeText(t.Created)},
						{"files", strconv.FormatInt(t.Files, 10)}, {"bytes", strconv.FormatInt(t.Bytes, 10)}, {"digest", t.Digest},
					})
				})
			})
		}),
	}
}

func templateRmCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Delete a template; workspaces that started from it stay", Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				if err := c.DeleteTemplate(ctx, args[0]); err != nil {
					return err
				}
				return a.printRemoved(args[0])
			})
		}),
	}
}
