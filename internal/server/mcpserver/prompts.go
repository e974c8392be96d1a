package mcpserver

import (
	"context"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A flow is a prompt for a common task. It is offered if its tools are available.
type flow struct {
	name, description, text string
	tools                   []string
}

var flows = []flow{
	{"fix_tests", "Run the tests and fix what fails.",
		"Run the tests%[1]s with run_tests, or by the test command that the profile tool shows. For each failure read the test and the code that it tests, find the cause, and fix the code, not the test, " +
			"unless the test is wrong. Run the failing tests again after each change, and all tests at the end. Say what was wrong.",
		[]string{"Read", "Edit", "profile", "run_tests"}},
	{"review_changes", "Review what has changed since the last commit.",
		"Look at what has changed%[1]s since the last commit (git status and git diff). Read the files around each change. Report mistakes, missing tests and what is hard to understand, " +
			"with file and line, the gravest first. Change nothing.",
		[]string{"Read", "Bash"}},
	{"explain_project", "Find out what a project is and how it is worked on.",
		"Find out what the project%[1]s is: use the profile tool, look at the top directories, and read the README and the main entry points. Explain in a page what it does, how it is laid out, and how to build, test and run it. Change nothing.",
		[]string{"Read", "Glob", "profile"}},
}

// refreshPrompts updates the prompts of a view: the flows whose tools it has.
func refreshPrompts(m *viewServer) {
	var names []string
	for _, f := range flows {
		if len(removedNames(f.tools, m.tools)) > 0 {
			continue
		}
		names = append(names, f.name)
		if !slices.Contains(m.prompts, f.name) {
			m.AddPrompt(f.mcpPrompt(), f.promptHandler())
		}
	}
	if gone := removedNames(m.prompts, names); len(gone) > 0 {
		m.RemovePrompts(gone...)
	}
	m.prompts = names
}

// mcpPrompt converts a flow to MCP.
func (f flow) mcpPrompt() *mcp.Prompt {
	return &mcp.Prompt{
		Name: f.name, Description: f.description,
		Arguments: []*mcp.PromptArgument{{Name: "workspace", Description: "name of the workspace; optional if there is only one"}},
	}
}

func (f flow) promptHandler() mcp.PromptHandler {
	return func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		where := ""
		if name := req.Params.Arguments["workspace"]; name != "" {
			where = fmt.Sprintf(" in workspace %q", name)
		}
		return &mcp.GetPromptResult{Description: f.description, Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf(f.text, where)}},
		}}, nil
	}
}
