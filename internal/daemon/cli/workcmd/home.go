package workcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// The home inside ends with the guest. What an agent keeps there, its conversations above
// all, is saved beside the settings of the project when the agent ends, and is put back
// when it starts again. The host does not read the archive: it is the workload's.

const (
	// homeScript writes an archive into the home. Files that are there stay.
	homeScript = `cd && tar -x --skip-old-files -f - 2>&1`
	// saveScript writes the home to standard output.
	saveScript = `cd && exec tar -c --one-file-system --exclude=./.cache`

	maxHome   = 64 << 20 // size of an archive
	homeAfter = ".home.tar"
)

// ownScripts are the beginnings of commands that no log of a work lists.
var ownScripts = append([]string{homeScript, saveScript, "bash -c " + findScript}, history.Commands...)

// savedHome returns the file with the home of a work's agent.
func (a *command) savedHome(id string) (string, error) {
	settings, err := a.Settings()
	if err != nil {
		return "", err
	}
	return filepath.Join(settings.Data, "work", id+homeAfter), nil
}

// saveHome saves the home of a work's agent, without its login.
func (a *command) saveHome(ctx context.Context, ws *workspace.Workspace, agent *work.Agent) error {
	script := saveScript
	if agent.Login != nil {
		script += " --exclude=./" + agent.Login.File
	}
	res, err := ws.Run(ctx, driver.Command{Script: script + " -f - .", MaxOutput: maxHome})
	switch {
	case err != nil:
		return err
	case res.StdoutDropped > 0:
		return fmt.Errorf("%w: the home has more than %d MB", fault.ResourceExhausted, maxHome>>20)
	case res.ExitCode != 0:
		return fmt.Errorf("%w: tar: %s", fault.Failed, console.OneLine(string(res.Stderr)))
	}
	file, err := a.savedHome(ws.ID())
	if err != nil {
		return err
	}
	return atomicfile.Write(file, res.Stdout, atomicfile.Options{})
}

// removeHomes removes the homes of works that do not exist any more.
func (a *command) removeHomes(ctx context.Context, c console.Workspaces) error {
	pattern, err := a.savedHome("*")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return err
	}
	all, err := works(ctx, c, "")
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, ws := range all {
		known[ws.ID] = true
	}
	for _, file := range files {
		if !known[strings.TrimSuffix(filepath.Base(file), homeAfter)] {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}
