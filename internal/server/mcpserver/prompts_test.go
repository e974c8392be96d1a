package mcpserver_test

import (
	"context"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func promptNames(t testing.TB, s *mcp.ClientSession) []string {
	t.Helper()
	var names []string
	for x, err := range s.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, x.Name)
	}
	return names
}

// TestPromptsComeWithTheirTools: a prompt that speaks of tools which are not there
// helps nobody.
func TestPromptsComeWithTheirTools(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("mem", open(t, new(memory.Provider))); err != nil {
		t.Fatal(err)
	}
	named := func(name string) *tool.Tool {
		return tool.New(tool.Spec{Name: name, Needs: []workspace.Capability{driver.CapShell}},
			func(context.Context, *tool.Call, struct{}) (tool.Message, error) { return tool.Message{}, nil })
	}
	s, _ := serve(t, set, mcpserver.Options{}, named("run_tests"), named("git_status"), named("git_diff"))
	web := listen(t, s.Handler())
	changed := make(chan struct{}, 100)
	c := client(t, web.URL, &mcp.ClientOptions{PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { changed <- struct{}{} }})
	if got, want := promptNames(t, c), []string{"explain_project"}; !slices.Equal(got, want) {
		t.Errorf("with files alone there are %v, want %v", got, want)
	}
	if _, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "fix_tests"}); err == nil {
		t.Error("there is a prompt that was not listed")
	}
	if got := promptNames(t, client(t, web.URL+"?toolset=workspace", nil)); len(got) != 0 {
		t.Errorf("without the tools that they speak of there are %v", got)
	}
	if err := set.Add("dir", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "a list that changed", changed)
	if got, want := promptNames(t, c), []string{"explain_project", "fix_tests", "review_changes"}; !slices.Equal(got, want) {
		t.Errorf("with a shell there are %v, want %v", got, want)
	}
	set.Remove("dir")
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "a list that changed", changed)
	if got, want := promptNames(t, c), []string{"explain_project"}; !slices.Equal(got, want) {
		t.Errorf("afterwards there are %v, want %v", got, want)
	}
}
