package wscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/prepare/stage"
)

func artifactCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "artifact",
		Short: "List, copy and remove the artifacts of workspaces",
		Long: `List, copy and remove artifacts: files that croft collect --save or an agent saved. Each has versions,
which count from 0. Artifacts outlive their workspace: name a destroyed workspace by its id.`,
	}
	cmd.AddCommand(artifactListCommand(a), artifactGetCommand(a), artifactRmCommand(a))
	return cmd
}

func artifactListCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [NAME [ARTIFACT]]",
		Aliases: []string{"ls"},
		Short:   "List artifacts: of all workspaces, of one, or the versions of one artifact",
		Long: `List the latest version of every artifact, those of destroyed workspaces included. With NAME, list the
artifacts of that workspace; with ARTIFACT, all versions of that artifact.`,
		Example: "  croft artifact list\n  croft artifact list demo out/report.pdf",
		Args:    cobra.MaximumNArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error { return a.artifactList(ctx, c, args) })
		}),
	}
	cmd.ValidArgsFunction = a.completeArtifact
	return cmd
}

func (a *command) artifactList(ctx context.Context, c *client.Client, args []string) error {
	list, err := listArtifacts(ctx, c, args)
	if err != nil {
		return err
	}
	return a.PrintAnswer(list, func(w io.Writer) error {
		var rows [][]string
		for _, art := range list {
			row := []string{fmt.Sprintf("%s@%d", console.Printable(art.Name), art.Version), fmt.Sprint(art.Size),
				art.Created.UTC().Format(time.RFC3339)}
			if len(args) == 0 {
				row = append([]string{art.Workspace}, row...)
			}
			rows = append(rows, row)
		}
		return console.WriteTable(w, rows)
	})
}

// listArtifacts lists all artifacts, those of a workspace, or the versions of one.
func listArtifacts(ctx context.Context, c *client.Client, args []string) ([]client.WorkspaceArtifact, error) {
	if len(args) == 0 {
		return c.Artifacts(ctx)
	}
	name := ""
	if len(args) == 2 {
		var err error
		if name, _, err = parseArtifact(args[1]); err != nil {
			return nil, err
		}
	}
	versions, err := c.ArtifactVersions(ctx, args[0], name)
	if err == nil && name != "" && len(versions) == 0 {
		err = fmt.Errorf("artifact %s: %w", console.Printable(args[1]), fault.NotFound)
	}
	list := []client.WorkspaceArtifact{}
	for _, art := range versions {
		list = append(list, client.WorkspaceArtifact{Workspace: args[0], Artifact: art})
	}
	return list, err
}

// parseArtifact reads NAME[@VERSION], with or without artifact:// before it.
func parseArtifact(ref string) (name string, version int, err error) {
	return stage.ParseRef(strings.TrimPrefix(ref, "artifact://"))
}

func artifactGetCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NAME ARTIFACT[@VERSION] [DEST]",
		Short: "Copy an artifact to a file or to standard output",
		Long: `Copy the latest version of an artifact, or the named one, to the file DEST, or into DEST if that is a
directory. Without DEST, or with -, it goes to standard output. A file is written atomically.`,
		Example: "  croft artifact get demo out/report.pdf@2 .",
		Args:    cobra.RangeArgs(2, 3),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			dest := "-"
			if len(args) == 3 {
				dest = args[2]
			}
			return a.artifactGet(ctx, args[0], args[1], dest)
		}),
	}
	cmd.ValidArgsFunction = a.completeArtifact
	return cmd
}

func (a *command) artifactGet(ctx context.Context, workspace, ref, dest string) error {
	name, version, err := parseArtifact(ref)
	if err != nil {
		return err
	}
	return a.WithClient(ctx, func(c *client.Client) error {
		body, art, err := remoteArtifacts{c, workspace}.Open(ctx, name, version)
		if err != nil {
			return err
		}
		defer body.Close()
		if dest == "-" {
			_, err := io.Copy(a.Out, body)
			return err
		}
		if at, err := os.Stat(dest); err == nil && at.IsDir() || strings.HasSuffix(dest, "/") {
			dest = filepath.Join(dest, path.Base(name))
		}
		root, err := os.OpenRoot(filepath.Dir(dest))
		if err != nil {
			return hostError("write", dest, err)
		}
		defer root.Close() //nolint:errcheck // closing a directory can lose nothing
		if _, err := replaceBelow(root, filepath.Base(dest), body, 0o644, true); err != nil {
			return hostError("write", dest, err)
		}
		return a.PrintAnswer(art, func(io.Writer) error { return nil })
	})
}

func artifactRmCommand(a *command) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "rm NAME [ARTIFACT[@VERSION]...]",
		Short: "Remove artifacts: one version, or all versions if none is named",
		Long: `Remove artifacts of a workspace, which may be destroyed: the named version, or all versions. With
--all, remove every artifact of the workspace. Version numbers are not used again.`,
		Example: "  croft artifact rm demo out/report.pdf@0\n  croft artifact rm demo --all",
		Args:    cobra.MinimumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if all == (len(args) > 1) {
				return console.Usagef("name artifacts, or give --all")
			}
			return a.artifactRm(ctx, args[0], args[1:])
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "every artifact of the workspace")
	cmd.ValidArgsFunction = a.completeArtifact
	return cmd
}

func (a *command) artifactRm(ctx context.Context, workspace string, refs []string) error {
	return a.WithClient(ctx, func(c *client.Client) error {
		if len(refs) == 0 {
			list, err := listArtifacts(ctx, c, []string{workspace})
			if err != nil {
				return err
			}
			for _, art := range list {
				refs = append(refs, art.Name)
			}
		}
		removed := []string{}
		var failed error
		for _, ref := range refs {
			if failed = removeArtifact(ctx, c, workspace, ref); failed != nil {
				break
			}
			removed = append(removed, ref)
		}
		if len(removed) == 0 && failed != nil {
			return failed
		}
		return errors.Join(failed, a.PrintJSONOnly(map[string][]string{"removed": removed}))
	})
}

// removeArtifact removes a version, or all; one that does not exist is NotFound.
func removeArtifact(ctx context.Context, c *client.Client, workspace, ref string) error {
	name, version, err := parseArtifact(ref)
	if err != nil {
		return err
	}
	list, err := listArtifacts(ctx, c, []string{workspace, name})
	if err != nil {
		return err
	}
	found := version == stage.Latest
	for _, art := range list {
		found = found || art.Version == version
	}
	if !found {
		return fault.Advise(fmt.Errorf("artifact %s: %w", console.Printable(ref), fault.NotFound),
			"the versions are %d to %d", list[0].Version, list[len(list)-1].Version)
	}
	return c.DeleteArtifact(ctx, workspace, name, version)
}

// completeArtifact offers workspaces (also destroyed ones with artifacts), then the
// artifacts of the named one, then files.
func (a *command) completeArtifact(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 && cmd.Name() == "get" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names, directive := []string(nil), cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		names, directive = a.Complete(cmd, a.WorkspaceNames, nil)
	}
	if a.ResolveTarget(cmd, nil) != nil {
		return names, directive
	}
	a.WithClientQuietly(cmd.Context(), func(c *client.Client) error {
		list, err := listArtifacts(cmd.Context(), c, args[:min(len(args), 1)])
		seen := map[string]bool{}
		for _, art := range list {
			name := art.Name
			if len(args) == 0 {
				name = cobra.CompletionWithDesc(art.Workspace, "has artifacts")
			}
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
		return err
	})
	return names, directive
}
