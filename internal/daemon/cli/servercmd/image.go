package servercmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/images"
)

func imageCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Manage container images",
		Long: `Manage the images of this host's container engine, for workspaces of the provider docker
(croft ws open --provider docker --options '{"image":"NAME"}'). The default image is
debian:stable-slim.`,
	}
	cmd.AddCommand(imageListCommand(a), imageImportCommand(a), imageRmCommand(a))
	return cmd
}

const imagesOf = "image manages the container engine"

func imageListCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the images that have names", Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.WithSystem(ctx, imagesOf, func(s *app.System) error {
				list, err := s.Images.List(ctx)
				if err != nil {
					return err
				}
				return a.PrintAnswer(list, func(w io.Writer) error { return console.WriteTable(w, imageRows(list), "CREATED", "BYTES") })
			})
		}),
	}
}

func imageRows(list []images.Image) [][]string {
	rows := [][]string{{"NAME", "CREATED", "BYTES", "ID"}}
	for _, img := range list {
		id := strings.TrimPrefix(img.ID, "sha256:")
		for _, name := range img.Names {
			rows = append(rows, []string{console.Printable(name), console.TimeText(img.Created), strconv.FormatInt(img.Size, 10),
				id[:min(12, len(id))]})
		}
	}
	return rows
}

func imageImportCommand(a *command) *cobra.Command {
	var from images.Source
	cmd := &cobra.Command{
		Use:   "import NAME [PATH]",
		Short: "Import an image from a file of this host, or make one from a template",
		Long: `Import an image under a name: from an OCI layout (a directory), a tarball of docker save, or a
Dockerfile, which is built with its directory as context; or, with --template, from the files of a template.
No registry is needed, unless a Dockerfile names an image that is missing.`,
		Example: `  croft image import tools:1 ./tools.tar
  croft image import tools:1 ./layout/
  croft image import tools:1 ./Dockerfile
  croft image import app:1 --template app`,
		Args: cobra.RangeArgs(1, 2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if (len(args) == 2) == (from.Template != "") {
				return console.Usagef("give either the path of an image or Dockerfile, or --template")
			}
			if len(args) == 2 {
				var err error
				if from.Path, err = filepath.Abs(args[1]); err != nil {
					return err
				}
			}
			return a.WithSystem(ctx, imagesOf, func(s *app.System) error {
				_, stop := a.StartProgress("importing the image")
				err := s.Images.Import(ctx, from, args[0])
				stop()
				if err != nil {
					return err
				}
				return a.PrintAnswer(map[string]string{"imported": args[0]}, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, args[0])
					return err
				})
			})
		}),
	}
	cmd.Flags().StringVar(&from.Template, "template", "", "a template, by its name")
	return cmd
}

func imageRmCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a name of an image; the last name removes the image", Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithSystem(ctx, imagesOf, func(s *app.System) error {
				if err := s.Images.Remove(ctx, args[0]); err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"removed": args[0]})
			})
		}),
	}
}
