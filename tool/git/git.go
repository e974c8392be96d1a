// Package git is an extra capability with tools that show changes and make commits and
// branches.
//
// Git runs inside the workspace with its isolation, like any other command: programs that a
// repository's configuration starts have no more rights than the workspace. An argument is
// never taken for an option: revisions and names must match a pattern, and paths follow
// "--".
package git

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of git's tools.
const (
	timeout    = 2 * time.Minute
	maxOutput  = 200 << 10
	defaultLog = 20
	maxLog     = 500
)

// Source returns the git tools for a workspace with files and a shell.
func Source(ws *workspace.Workspace) driver.ToolSource {
	if caps := ws.Capabilities(); !caps.Has(driver.CapFS) || !caps.Has(driver.CapShell) {
		return nil
	}
	return repository{ws}
}

type repository struct{ ws *workspace.Workspace }

// Tools lists the tools.
func (r repository) Tools() []driver.Tool {
	return []driver.Tool{
		r.statusTool(), r.diffTool(), r.logTool(), r.commitTool(), r.branchTool(),
	}
}

// run runs git with fixed or checked arguments.
func (r repository) run(ctx context.Context, args ...string) (driver.ToolResult, error) {
	base := []string{"git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "color.ui=false", "-c", "core.quotePath=false", "-c", "core.editor=true"}
	res, err := r.ws.Run(ctx, driver.Command{
		Argv: append(base, args...), Timeout: timeout, MaxOutput: maxOutput,
		Env: map[string]string{"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
	})
	switch {
	case fault.Of(err) == fault.NotFound:
		return driver.ToolResult{}, tool.Errorf(fault.Unavailable, "git: not found on PATH")
	case err != nil:
		return driver.ToolResult{}, err
	case res.Cause == driver.CauseCanceled:
		return driver.ToolResult{}, fmt.Errorf("git: %w", fault.Canceled)
	case res.Cause != "":
		return driver.ToolResult{}, tool.Errorf(fault.Unavailable, "git %s: ended: %s", subcommand(args), res.Cause)
	case res.ExitCode != 0:
		return driver.ToolResult{}, tool.Errorf(fault.WrongState, "git %s: %s", subcommand(args), strings.TrimSpace(outputText(res)))
	}
	return newResult(driver.OutputText(res.Stdout, res.StdoutDropped, "narrow it by paths"))
}

// outputText returns both streams, with marks where bytes were dropped.
func outputText(res driver.Result) string {
	return driver.OutputText(res.Stderr, res.StderrDropped, "") + driver.OutputText(res.Stdout, res.StdoutDropped, "")
}

// subcommand returns the first argument that is neither a global option nor its value.
func subcommand(args []string) string {
	for i, a := range args {
		if !strings.HasPrefix(a, "-") && (i == 0 || args[i-1] != "-c") {
			return a
		}
	}
	return ""
}

func newResult(text string) (driver.ToolResult, error) {
	data, err := json.Marshal(map[string]string{"output": text})
	return driver.ToolResult{Text: text, Structured: data}, err
}

var outputSchema = json.RawMessage(`{"type":"object","properties":{"output":{"type":"string"}},"required":["output"]}`)

// revisionPattern matches branch names and revisions. They do not begin with a dash, so
// that git does not take them for options, and have no special characters besides those of
// ancestry.
var revisionPattern = lazyregexp.New(`^[A-Za-z0-9_@][A-Za-z0-9_./@{}^~+-]{0,199}$`)

func checkRevision(field, s string) error {
	if s == "" || revisionPattern.MatchString(s) {
		return nil
	}
	return tool.Errorf(fault.InvalidArgument, "%s %q is not a valid revision", field, s)
}

func (r repository) statusTool() driver.Tool {
	return driver.Tool{
		Name: "git_status", Description: "Show the branch and which files have changed.", ReadOnly: true, Output: outputSchema,
		Arguments: map[string]driver.ArgumentKind{},
		Input:     json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		Call: func(ctx context.Context, _ json.RawMessage) (driver.ToolResult, error) {
			return r.run(ctx, "status", "--porcelain=v1", "--branch", "--untracked-files=all")
		},
	}
}

func (r repository) diffTool() driver.Tool {
	return driver.Tool{
		Name: "git_diff", Description: "Show changes since a revision, between two, or in the index.", ReadOnly: true, Output: outputSchema,
		Arguments: map[string]driver.ArgumentKind{"from": driver.ArgName, "paths": driver.ArgPath},
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"from":{"type":"string","description":"revision to compare with; default the index"},
			"to":{"type":"string","description":"revision to compare; default the present files"},
			"staged":{"type":"boolean","description":"compare the index with from, or with the last commit"},
			"paths":{"type":"array","items":{"type":"string"},"description":"only these files and directories"}}}`),
		Call: func(ctx context.Context, args json.RawMessage) (driver.ToolResult, error) {
			var in struct {
				From, To string
				Staged   bool
				Paths    []string
			}
			if err := json.Unmarshal(args, &in); err != nil {
				return driver.ToolResult{}, err
			}
			for field, rev := range map[string]string{"from": in.From, "to": in.To} {
				if err := checkRevision(field, rev); err != nil {
					return driver.ToolResult{}, err
				}
			}
			argv := []string{"diff", "--no-ext-diff", "--no-textconv"}
			if in.Staged {
				argv = append(argv, "--cached")
			}
			for _, rev := range []string{in.From, in.To} {
				if rev != "" {
					argv = append(argv, rev)
				}
			}
			return r.run(ctx, withPaths(argv, in.Paths)...)
		},
	}
}

// withPaths adds paths, which are never taken for options or patterns.
func withPaths(argv, paths []string) []string {
	argv = append([]string{"--literal-pathspecs"}, argv...)
	return append(append(argv, "--"), paths...)
}

func (r repository) logTool() driver.Tool {
	return driver.Tool{
		Name: "git_log", Description: "Show commits, the latest first.", ReadOnly: true, Output: outputSchema,
		Arguments: map[string]driver.ArgumentKind{"paths": driver.ArgPath},
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"revision":{"type":"string","description":"first revision; default the present commit"},
			"limit":{"type":"integer","minimum":1,"maximum":500,"description":"maximum number; default 20"},
			"paths":{"type":"array","items":{"type":"string"},"description":"only commits that changed these"}}}`),
		Call: func(ctx context.Context, args json.RawMessage) (driver.ToolResult, error) {
			var in struct {
				Revision string
				Limit    int
				Paths    []string
			}
			if err := json.Unmarshal(args, &in); err != nil {
				return driver.ToolResult{}, err
			}
			if err := checkRevision("revision", in.Revision); err != nil {
				return driver.ToolResult{}, err
			}
			if in.Limit == 0 {
				in.Limit = defaultLog
			}
			argv := []string{"log", "--no-show-signature", "--date=iso-strict", "--format=%h %ad %an%n    %s", "-n", strconv.Itoa(min(in.Limit, maxLog))}
			if in.Revision != "" {
				argv = append(argv, in.Revision)
			}
			return r.run(ctx, withPaths(argv, in.Paths)...)
		},
	}
}

func (r repository) commitTool() driver.Tool {
	return driver.Tool{
		Name: "git_commit", Description: "Commit changes of the given paths, of all files, or in the index.", Output: outputSchema,
		Arguments: map[string]driver.ArgumentKind{"paths": driver.ArgPath},
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["message"],"properties":{
			"message":{"type":"string","minLength":1,"description":"what was done, and why"},
			"paths":{"type":"array","items":{"type":"string"},"description":"commit these files and directories"},
			"all":{"type":"boolean","description":"commit every change, new files included"}}}`),
		Call: func(ctx context.Context, args json.RawMessage) (driver.ToolResult, error) {
			var in struct {
				Message string
				Paths   []string
				All     bool
			}
			if err := json.Unmarshal(args, &in); err != nil {
				return driver.ToolResult{}, err
			}
			if in.All && len(in.Paths) > 0 {
				return driver.ToolResult{}, tool.Errorf(fault.InvalidArgument, "give paths or all, not both")
			}
			if in.All {
				in.Paths = []string{"."}
			}
			if len(in.Paths) > 0 {
				if _, err := r.run(ctx, withPaths([]string{"add", "--all"}, in.Paths)...); err != nil {
					return driver.ToolResult{}, err
				}
			}
			// --message=TEXT is one argument, so that the text is never taken for an option.
			words := []string{"-c", "user.useConfigOnly=false"}
			if !r.hasIdentity(ctx) {
				words = append(words, "-c", "user.name=Croft", "-c", "user.email=croft@localhost")
			}
			return r.run(ctx, append(words, "commit", "--no-gpg-sign", "--message="+in.Message)...)
		},
	}
}

// hasIdentity reports whether git has a configured author. The configuration of the host's
// user is not visible inside the workspace.
func (r repository) hasIdentity(ctx context.Context) bool {
	_, name := r.run(ctx, "config", "--get", "user.name")
	_, mail := r.run(ctx, "config", "--get", "user.email")
	return name == nil && mail == nil
}

func (r repository) branchTool() driver.Tool {
	return driver.Tool{
		Name: "git_branch", Description: "List branches, or switch to one, which may be new.", Output: outputSchema,
		Arguments: map[string]driver.ArgumentKind{"name": driver.ArgName},
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"name":{"type":"string","description":"branch to switch to; default list branches"},
			"create":{"type":"boolean","description":"create the branch"},
			"from":{"type":"string","description":"with create: starting revision; default the present commit"}}}`),
		Call: func(ctx context.Context, args json.RawMessage) (driver.ToolResult, error) {
			var in struct {
				Name, From string
				Create     bool
			}
			if err := json.Unmarshal(args, &in); err != nil {
				return driver.ToolResult{}, err
			}
			for field, rev := range map[string]string{"name": in.Name, "from": in.From} {
				if err := checkRevision(field, rev); err != nil {
					return driver.ToolResult{}, err
				}
			}
			switch {
			case in.Name == "":
				return r.run(ctx, "branch", "--list", "--all", "--verbose")
			case !in.Create:
				return r.run(ctx, "switch", "--no-guess", in.Name)
			case in.From != "":
				return r.run(ctx, "switch", "--create="+in.Name, in.From)
			}
			return r.run(ctx, "switch", "--create="+in.Name)
		},
	}
}
