package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Source returns the further tools of a workspace, or nil.
type Source func(ws *workspace.Workspace) driver.ToolSource

func byName(a, b *Tool) int { return strings.Compare(a.Name, b.Name) }

// workspaceTools returns the tools of the workspaces' own sources, one for each name. A
// workspace that can't be resolved contributes none.
func (e *Env) workspaceTools(ctx context.Context, list []Entry) []*Tool {
	var out []*Tool
	seen := map[string]bool{}
	for _, entry := range list {
		if len(e.Sources) == 0 && !hasExtras(entry) {
			continue
		}
		ws, err := e.Workspaces.Get(ctx, entry.Name)
		if err != nil {
			e.Log.Warn("tools of a workspace", "workspace", entry.Name, "error", err)
			continue
		}
		for _, d := range e.sourceTools(ws) {
			if seen[d.Name] {
				continue
			}
			seen[d.Name] = true
			t, err := e.adaptTool(d.Tool, d.builtIn)
			if err != nil {
				e.Log.Warn("tool refused", "workspace", entry.Name, "tool", d.Name, "error", err)
				continue
			}
			out = append(out, t)
		}
	}
	slices.SortFunc(out, byName)
	return out
}

// hasExtras reports whether a workspace may have capabilities that the core does not
// define.
func hasExtras(entry Entry) bool {
	known := []workspace.Capability{driver.CapFS, driver.CapShell, driver.CapCode, driver.CapScript, driver.CapSnapshot}
	return slices.ContainsFunc(entry.Capabilities.Names(), func(c workspace.Capability) bool { return !slices.Contains(known, c) })
}

// A sourceTool is a tool of an extension.
type sourceTool struct {
	driver.Tool
	extension string // its name: of the extra, or of the Go type of the source
	builtIn   bool   // of a configured source
}

// recoverPanic turns a panic of the extension into the error of the call; it is deferred.
func (d *sourceTool) recoverPanic(log *slog.Logger, err *error) {
	if p := recover(); p != nil {
		log.Error("extension panicked", "extension", d.extension, "tool", d.Name, "panic", p, "stack", string(debug.Stack()))
		*err = Errorf(fault.Internal, "%s: a defect of the extension %s ended this call; the server's log has it", d.Name, d.extension)
	}
}

// sourceTools lists the tools of a workspace's extras and of the configured sources.
func (e *Env) sourceTools(ws *workspace.Workspace) []sourceTool {
	var out []sourceTool
	add := func(s driver.ToolSource, extension string, builtIn bool) {
		for _, d := range s.Tools() {
			out = append(out, sourceTool{d, extension, builtIn})
		}
	}
	extras := ws.Extras()
	for _, name := range slices.Sorted(maps.Keys(extras)) {
		if s, ok := extras[name].(driver.ToolSource); ok {
			add(s, name, false)
		}
	}
	for _, source := range e.Sources {
		if s := source(ws); s != nil {
			add(s, fmt.Sprintf("%T", s), true)
		}
	}
	return out
}

// adaptTool adapts a driver.Tool to a Tool. Its function looks the tool up again in the
// workspace of the call, which may not have it.
func (e *Env) adaptTool(d driver.Tool, builtIn bool) (*Tool, error) {
	switch {
	case strings.HasPrefix(d.Name, driver.ReservedToolPrefix):
		return nil, fmt.Errorf("tool: %s: %w: names that begin with %s are reserved", d.Name, fault.InvalidArgument, driver.ReservedToolPrefix)
	case e.tools[d.Name] != nil:
		return nil, fmt.Errorf("tool: %s: %w: Croft has a tool of this name", d.Name, fault.AlreadyExists)
	}
	var in jsonschema.Schema
	if err := json.Unmarshal(d.Input, &in); err != nil || in.Type != "object" {
		return nil, fmt.Errorf("tool: %s: %w: its input schema must have the type object", d.Name, fault.InvalidArgument)
	}
	check, err := in.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("tool: %s: input schema: %w: %w", d.Name, fault.InvalidArgument, err)
	}
	t := &Tool{Spec: Spec{
		Name: d.Name, Family: Extra, Description: d.Description,
		ReadOnly: d.ReadOnly, Destructive: d.Destructive, OpenWorld: d.OpenWorld, BuiltIn: builtIn,
	}}
	t.Input = in.CloneSchemas()
	if t.Input.Properties == nil {
		t.Input.Properties = map[string]*jsonschema.Schema{}
	}
	t.Input.Properties[workspaceKey] = workspaceSchema(false)
	if d.Output != nil {
		if err := json.Unmarshal(d.Output, &t.Output); err != nil {
			return nil, fmt.Errorf("tool: %s: output schema: %w: %w", d.Name, fault.InvalidArgument, err)
		}
	}
	t.args = arguments{required: in.Required, known: argumentNames(t.Input), schema: t.Input}
	t.Arguments = d.Arguments
	t.decode = func(args map[string]json.RawMessage) (any, error) { return args, t.args.checkNames(args) }
	t.subjects = func(in any) []subject { return sourceSubjects(d.Arguments, in.(map[string]json.RawMessage)) }
	t.call = func(ctx context.Context, c *Call, in any) (answer, error) {
		return c.callSourceTool(ctx, d.Name, check, in.(map[string]json.RawMessage))
	}
	return t, nil
}

// callSourceTool calls a tool of the workspace's own sources.
func (c *Call) callSourceTool(ctx context.Context, name string, check *jsonschema.Resolved, args map[string]json.RawMessage) (_ answer, err error) {
	args = maps.Clone(args)
	delete(args, workspaceKey)
	raw, err := encode(args)
	if err != nil {
		return answer{}, err
	}
	var value map[string]any
	if err := json.Unmarshal(raw, &value); err != nil {
		return answer{}, Errorf(fault.InvalidArgument, "%s: %v", name, err)
	}
	if err := checkValues(check.Schema(), value); err != nil {
		return answer{}, err
	}
	if err := check.Validate(value); err != nil {
		return answer{}, Errorf(fault.InvalidArgument, "%s: %v", name, err)
	}
	if raw, err = encode(value); err != nil { // normalises numbers
		return answer{}, err
	}
	for _, d := range c.Env.sourceTools(c.Workspace) {
		if d.Name == name {
			defer d.recoverPanic(c.Env.Log, &err)
			res, err := d.Call(ctx, raw)
			return answer{text: res.Text, structured: res.Structured}, err
		}
	}
	return answer{}, Errorf(fault.Unsupported, "workspace %q does not have the tool %s", c.Name, name)
}
