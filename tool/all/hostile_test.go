package all_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/workspace"
)

// hostile are values for arguments. As commands they are harmless.
var hostile = []any{
	"", " ", "\n", "\x00", "a\x00b", ".", "..", "/", "../../etc/passwd", "-rf", "--help", "%", "%zz", "My Project", "a:b@c[d]", "try 1",
	"é\u202e\U0001f4a3", "\\", "${HOME}", "*[", "(", "~", "{{", `"`, "all", "\x1b[2J", strings.Repeat("a", 5000), strings.Repeat("a/", 3000),
	0, -1, 1.5, math.MaxInt32, math.MaxInt64, math.MinInt64, true, []any{}, []any{""}, map[string]any{}, map[string]any{"": nil},
}

// place returns value at a path of a schema, within base, which is an example and may be nil.
func place(s *jsonschema.Schema, base any, path []string, value any) any {
	switch {
	case s.Items != nil:
		var first any
		if list, ok := base.([]any); ok && len(list) > 0 {
			first = list[0]
		}
		return []any{place(s.Items, first, path, value)}
	case s.Properties != nil && len(path) > 0:
		object, _ := base.(map[string]any)
		object = maps.Clone(object)
		if object == nil {
			object = map[string]any{}
		}
		object[path[0]] = place(s.Properties[path[0]], object[path[0]], path[1:], value)
		return object
	}
	return value
}

// argumentPaths returns the dotted names of all arguments, those within others as well.
func argumentPaths(s *jsonschema.Schema, prefix string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		out = append(out, prefix+name)
		inner := s.Properties[name]
		for inner.Items != nil {
			inner = inner.Items
		}
		out = append(out, argumentPaths(inner, prefix+name+".")...)
	}
	return out
}

// TestNoCallKillsTheServer calls each tool over MCP with hostile values in each of its
// arguments: each call has an answer, and afterwards the server still serves.
func TestNoCallKillsTheServer(t *testing.T) {
	for _, tl := range available(t) {
		t.Run(tl.Name, func(t *testing.T) {
			t.Parallel()
			ex := examples[tl.Name]
			files := ex.files
			if files == nil {
				files = project
			}
			env := newEnv(t, files)
			server := mcpserver.New(t.Context(), mcpserver.Options{Env: env, Toolset: mcpserver.Both})
			t.Cleanup(server.Close)
			client := connect(t, server)
			call := func(name string, args any) error {
				_, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
				return err
			}
			for _, line := range ex.before {
				name, args, _ := strings.Cut(line, " ")
				if err := call(name, json.RawMessage(args)); err != nil {
					t.Fatal(err)
				}
			}
			var base map[string]any
			if err := json.Unmarshal([]byte(ex.args), &base); err != nil {
				t.Fatal(err)
			}
			base["workspace"] = "app"
			if ex.needs == kernel && tl.Name != "workspace_create_context" { // a kernel takes seconds to start
				res, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "workspace_create_context", Arguments: map[string]any{"workspace": "app"}})
				if err != nil || res.IsError {
					t.Fatal(res, err)
				}
				id := regexp.MustCompile(`[a-z0-9]{20}`).FindString(res.Content[0].(*mcp.TextContent).Text)
				if base["context_id"] = id; id == "" {
					t.Fatalf("no id in %q", res.Content[0])
				}
			}
			for _, name := range argumentPaths(tl.Input, "") {
				for i, value := range hostile {
					if tl.Family == tool.Verify && i%4 != 0 {
						continue // most calls start a runner, which takes a second
					}
					if ex.needs == kernel && name != "code" && i%8 != 0 {
						continue // as above
					}
					args := place(tl.Input, base, strings.Split(name, "."), value)
					if err := call(tl.Name, args); err != nil {
						t.Errorf("%s with %s = %.50q: %v", tl.Name, name, value, err)
					}
				}
			}
			if _, err := client.ListResources(t.Context(), nil); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// connect connects a client to a server in this process.
func connect(t *testing.T, server *mcpserver.Server) *mcp.ClientSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go server.ServeStdio(t.Context(), in, out)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// FuzzTools calls the tools that need files only, with any text as any argument: none of
// it may be an internal error.
func FuzzTools(f *testing.F) {
	for i := range hostile {
		if s, ok := hostile[i].(string); ok {
			f.Add(uint8(i), uint8(i/3), s)
		}
	}
	set := new(tool.Set)
	ws, err := workspace.NewMux(new(memory.Provider)).Open(f.Context(), workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
	if err == nil {
		err = set.Add("app", ws)
	}
	if err != nil {
		f.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: slices.Concat(all.Coding(), all.Workspace()), Workspaces: set})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { env.Close(context.Background()) })
	for name, text := range project {
		if _, err := ws.WriteFile(f.Context(), name, []byte(text), nil); err != nil && fault.Of(err) != fault.NotFound {
			f.Fatal(err)
		}
	}
	tools, err := env.Available(f.Context(), "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which, argument uint8, text string) {
		tl := tools[int(which)%len(tools)]
		paths := argumentPaths(tl.Input, "")
		var base map[string]any
		if err := json.Unmarshal([]byte(examples[tl.Name].args), &base); err != nil {
			t.Fatal(err)
		}
		name := paths[int(argument)%len(paths)]
		args, err := json.Marshal(place(tl.Input, base, strings.Split(name, "."), text))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []tool.Request{{Tool: "Read", Args: json.RawMessage(`{"file_path": "calc.go"}`)}, {Tool: tl.Name, Args: args}} {
			if _, err := env.Run(t.Context(), call); fault.Of(err) == fault.Internal {
				t.Errorf("%s %s: %v", call.Tool, call.Args, err)
			}
		}
	})
}
