// Package tool is what an agent may do in a workspace: one typed operation per
// tool, in a file of its own.
//
// A [Tool] is a function over a workspace with a struct for its arguments and
// one for its answer, from which its JSON schemas are made. It says which
// capability it needs, and whether it changes anything. Edges (MCP, the command
// line, evaluations) only adapt: they hand a [Request] to [Env.Run] and translate
// the [Result].
//
// # What a call goes through
//
// Run finds the tool and the workspace, checks the arguments (an argument of the
// wrong type, a missing or an unknown one is an error that names it), asks for
// approval where the operator wants that, runs the function, makes a panic the
// error of that call, scrubs secrets from what comes out, cuts a text that is too
// long into head and tail with a handle to the whole, and emits an event. The answer
// leaves after that.
//
// # Which workspace
//
// Every tool takes "workspace". Omitted, it is the only one there is; where there
// are several, the call is refused with their names, and so is a name that is
// unknown. Names are trimmed and case-sensitive. Tools that say so
// ([Spec.FanOut]) take "all", and answer for each workspace.
//
// # Toolsets
//
// [Coding] has the names and arguments that agents for code are used to (Read,
// Edit, Bash); [Workspace] has plain ones that begin with workspace_, a prefix
// that no other tool may have. Both are lists, written out; families that need
// more live in packages below this one, and tool/all has them all.
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
// The tag croft has the kind of an argument ([driver.ArgumentKind]): rules of approval
// hold for every path, patch and command of a call, and the audit names what it is
// about. A field without omitempty is required. "workspace" is added by New. The answer
// must tell everything: some clients show the model the text, others the data.
// An error that the model should read word for word is made by [Errorf]; any other
// wraps a fault code.
//
// What a family keeps for a workspace (a language server, the last test run) it
// gets from [Keep], and what must happen after files were changed is an [Effect]
// of the Env. Long work tells how it goes by [Call.Progress] and ends with ctx.
package tool
