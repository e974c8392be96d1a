package verifytool

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
)

type installInput struct {
	Language string `json:"language,omitempty" jsonschema:"project to use if there are several: go, rust, node, python, java or another that profile names; all runs each"`
	Timeout  int    `json:"timeout,omitempty" jsonschema:"time limit in seconds; default 300, at most 1800"`
}

type installOutput struct {
	Runs []*verify.Run `json:"runs" jsonschema:"one for each project"`

	text string
}

func (o installOutput) Text() string { return o.text }

func installTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "install", Family: tool.Verify, Needs: commandCaps, Destructive: true, OpenWorld: true, FanOut: true,
		Description: "Install the project's dependencies with its install command, which profile shows.",
	}, install)
}

func install(ctx context.Context, c *tool.Call, in installInput) (installOutput, error) {
	seconds, err := tool.Seconds("timeout", in.Timeout, testSeconds, maxTestSeconds)
	if err != nil {
		return installOutput{}, err
	}
	p, err := c.Profile(ctx)
	if err != nil {
		return installOutput{}, err
	}
	p.Projects = slices.DeleteFunc(slices.Clone(p.Projects), func(q profile.Project) bool { return q.Install.IsZero() })
	if len(p.Projects) == 0 {
		err := tool.Errorf(fault.NotFound, "install: no project here has an install command; the operator can set one")
		return installOutput{}, fault.WithHint(err, fault.HintSetting, "install command")
	}
	list, err := verify.Select(p, in.Language)
	if err != nil {
		return installOutput{}, withoutCodePrefix(err)
	}
	var out installOutput
	out.Runs, _, out.text, err = forEachProject(list, seconds, func(q profile.Project, left time.Duration) (*verify.Run, error) {
		r, err := verify.Command(ctx, c.Workspace, q.Install.Argv, q.Install.Dir, verifyOptions(c, nil, left))
		if err != nil {
			return nil, runError("install", err)
		}
		return r, nil
	}, func(r *verify.Run) string { return "$ " + strings.Join(r.Command, " ") + "\n" + runText(r, seconds) })
	return out, err
}

// runText returns the output of a command, what it lacked, and its end.
func runText(r *verify.Run, seconds int) string {
	var b strings.Builder
	writeStreams(&b, r.Output)
	for _, n := range r.Notes {
		b.WriteString("note: " + n + "\n")
	}
	writeEnd(&b, r.ExitCode, r.Cause, seconds)
	return b.String()
}
