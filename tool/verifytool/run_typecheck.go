package verifytool

import (
	"context"

	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/verify"
)

func runTypecheckTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "run_typecheck", Family: tool.Verify, Needs: commandCaps, FanOut: true, Idempotent: true,
		Description: "Run the project's type checker or compiler, without its tests. Each finding is a line: file:line:column:rule: message.",
	}, func(ctx context.Context, c *tool.Call, in checkInput) (findingsOutput, error) {
		return runChecker(ctx, c, in, "typecheck", verify.Typecheck)
	})
}
