package verifytool

import (
	"context"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
)

type checkKindInput struct {
	Kind string `json:"kind,omitempty" jsonschema:"default both" enum:"lint|typecheck"`

	Language string   `json:"language,omitempty" jsonschema:"project to use if there are several: go, rust, node, python, java or another that profile names; all runs each"`
	Files    []string `json:"files,omitempty" jsonschema:"only these files: paths relative to the workspace; default everything" croft:"path"`
	Timeout  int      `json:"timeout,omitempty" jsonschema:"time limit in seconds; default 120, at most 600"`
}

// checkTool is run_lint and run_typecheck in one, for clients to which each tool costs.
func checkTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "check", Family: tool.Verify, Needs: commandCaps, FanOut: true, Idempotent: true,
		Description: "Run the project's linter and type checker, on the whole project or on some files. Each finding is a line: file:line:column:rule: message.",
	}, check)
}

func check(ctx context.Context, c *tool.Call, in checkKindInput) (findingsOutput, error) {
	of := checkInput{in.Language, in.Files, in.Timeout}
	switch in.Kind {
	case "lint":
		return runChecker(ctx, c, of, "lint", verify.Lint)
	case "typecheck":
		return runChecker(ctx, c, of, "typecheck", verify.Typecheck)
	case "":
	default:
		return findingsOutput{}, tool.Errorf(fault.InvalidArgument, "kind must be lint or typecheck")
	}
	types, terr := runChecker(ctx, c, of, "typecheck", verify.Typecheck)
	lint, lerr := runChecker(ctx, c, of, "lint", verify.Lint)
	if terr != nil && lerr != nil {
		return findingsOutput{}, terr
	}
	out := findingsOutput{Findings: append(types.Findings, lint.Findings...)}
	out.text = "--- typecheck ---\n" + partText(types, terr) + "--- lint ---\n" + partText(lint, lerr)
	return out, nil
}

func partText(o findingsOutput, err error) string {
	if err != nil {
		return tool.ErrorText(err) + "\n"
	}
	return o.text
}

func runTypecheckTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "run_typecheck", Family: tool.Verify, Needs: commandCaps, FanOut: true, Idempotent: true,
		Description: "Run the project's type checker or compiler, without its tests. Each finding is a line: file:line:column:rule: message.",
	}, func(ctx context.Context, c *tool.Call, in checkInput) (findingsOutput, error) {
		return runChecker(ctx, c, in, "typecheck", verify.Typecheck)
	})
}
