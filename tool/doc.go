// Package tool defines the tools that an agent may call in a workspace: one typed operation
// per tool, each in a file of its own.
//
// A [Tool] is a function on a workspace with a struct for its arguments and one for its
// answer, from which its JSON schemas are generated. A tool declares which capability it
// needs and whether it changes anything. Edges (MCP, the command line, evaluations) only
// adapt: they pass a [Request] to [Env.Run] and translate the [Result].
//
// # What a call goes through
//
// Run finds the tool and the workspace and checks the arguments; a mistyped, missing or
// unknown argument is an error that names it. Run then checks the approval rules, calls the
// function, turns a panic into an error of the call, removes secrets from the answer,
// truncates a long text to head and tail with a handle to the whole, and emits an event.
//
// # Which workspace
//
// Every tool takes "workspace". It may be omitted if there is only one workspace; if there
// are several, the error lists their names. Names are trimmed and case-sensitive. Tools
// with [Spec.FanOut] take "all" and answer for each workspace.
//
// # Toolsets
//
// [Coding] has the names and arguments that coding agents are used to (Read, Edit, Bash);
// [Workspace] has plain names with the reserved prefix workspace_. Both are explicit lists.
// Families with more dependencies are in packages below this one; tool/all has all of them.
//
// # To write a tool
//
// Write a file with the arguments, the answer, and the function:
//
//	type headInput struct {
//		FilePath string `json:"file_path" jsonschema:"file to read" croft:"path"`
//		Lines    int    `json:"lines,omitempty" jsonschema:"how many; default 10"`
//	}
//
//	type headOutput struct {
//		Content string `json:"content"`
//	}
//
//	func (o headOutput) Text() string { return o.Content }
//
//	func Head() *tool.Tool {
//		return tool.New(tool.Spec{
//			Name: "head", Family: tool.Files, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true,
//			Description: "Show the first lines of a file.",
//		}, head)
//	}
//
//	func head(ctx context.Context, c *tool.Call, in headInput) (headOutput, error) { ... }
//
// The tag croft has the kind of an argument ([driver.ArgumentKind]). Approval rules are
// checked for every path, patch and command of a call, and the audit event names its
// subject. A field without omitempty is required. New adds "workspace". Text and data of an
// answer must both be complete: some clients show the model the text, others the data.
// [Errorf] makes an error whose text the model reads word for word; any other error wraps a
// fault code.
//
// [PerWorkspace] holds a value for each workspace (a language server, the last test run).
// An [Effect] of the Env runs after files were changed. Long-running tools report by
// [Call.Progress] and stop when ctx ends.
package tool
