package verifytool

import (
	"context"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// Limits of linters and type checkers, in seconds.
const (
	lintSeconds    = 120
	maxLintSeconds = 600
)

type findingsOutput struct {
	Findings []*verify.Findings `json:"findings" jsonschema:"one for each project"`

	text string
}

func (o findingsOutput) Text() string { return o.text }

func runLintTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "run_lint", Family: tool.Verify, Needs: commandCaps, FanOut: true, Idempotent: true,
		Description: "Run the project's linter on the whole project or on some files. Each finding is a line: file:line:column:rule: message.",
	}, func(ctx context.Context, c *tool.Call, in checkInput) (findingsOutput, error) {
		return runChecker(ctx, c, in, "lint", verify.Lint)
	})
}

// runChecker runs a linter or a type checker for each project.
func runChecker(ctx context.Context, c *tool.Call, in checkInput, verb string,
	run func(context.Context, *workspace.Workspace, profile.Project, *verify.Options) (*verify.Findings, error),
) (findingsOutput, error) {
	seconds, err := tool.Seconds("timeout", in.Timeout, lintSeconds, maxLintSeconds)
	if err != nil {
		return findingsOutput{}, err
	}
	list, err := selectProjects(ctx, c, in.Language, relPaths(c, in.Files))
	if err != nil {
		return findingsOutput{}, err
	}
	o := verifyOptions(c, in.Files, time.Duration(seconds)*time.Second)
	found, _, text, err := forEachProject(list, seconds, func(p profile.Project, left time.Duration) (*verify.Findings, error) {
		o := *o
		o.Timeout = left
		f, err := run(ctx, c.Workspace, p, &o)
		if err != nil {
			return nil, inspectError(c, verb, p, err)
		}
		return f, nil
	}, func(f *verify.Findings) string { return findingsText(f, verb, seconds) })
	return findingsOutput{Findings: found, text: text}, err
}

// inspectError has its own text for a linter that is not installed.
func inspectError(c *tool.Call, verb string, p profile.Project, err error) error {
	if argv, ok := p.Lint.All(); ok && fault.Of(err) == fault.Unsupported && verb == "lint" {
		return tool.Errorf(fault.Unsupported, "linter not installed: %s%s", argv[0], verify.MissingHint(c.Workspace, argv[0]))
	}
	name := "run_" + verb
	if c.Tool == "check" {
		name = "check: " + verb
	}
	return runError(name, err)
}
