package testmodel

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProtocols: in each protocol a model calls the tool that the script says
// next, knows the results of those before, and ends; and it leaves alone what is
// not about its server.
func TestProtocols(t *testing.T) {
	for _, tt := range []struct{ name, path, first, second, call, other string }{
		{"messages", "/v1/messages?beta=true",
			`{"stream":true,"tools":[{"name":"mcp__croft__Read"},{"name":"Task"}],"messages":[{"role":"user","content":"go"}]}`,
			`{"stream":false,"tools":[{"name":"mcp__croft__Read"}],"messages":[{"role":"user","content":"go"},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"one"}]}]}]}`,
			`"name":"mcp__croft__Read"`, `{"messages":[{"role":"user","content":"title"}]}`},
		{"responses", "/v1/responses",
			`{"stream":true,"tools":[{"type":"namespace","name":"mcp__croft","tools":[{"type":"function","name":"Read"}]}],"input":[]}`,
			`{"tools":[{"type":"namespace","name":"mcp__croft","tools":[{"type":"function","name":"Read"}]}],"input":[{"type":"function_call_output","output":"one"}]}`,
			`"namespace":"mcp__croft"`, `{"input":"title"}`},
		{"chat", "/v1/chat/completions",
			`{"stream":true,"tools":[{"function":{"name":"croft_Read"}}],"messages":[]}`,
			`{"tools":[{"function":{"name":"croft_Read"}}],"messages":[{"role":"tool","content":"one"}]}`,
			`"name":"croft_Read"`, `{"messages":[]}`},
		{"gemini", "/v1beta/models/x:streamGenerateContent?alt=sse",
			`{"tools":[{"functionDeclarations":[{"name":"mcp_croft_Read"}]}],"contents":[]}`,
			`{"tools":[{"functionDeclarations":[{"name":"mcp_croft_Read"}]}],"contents":[{"parts":[{"functionResponse":{"response":{"output":"one"}}}]}]}`,
			`"name":"mcp_croft_Read"`, `{"contents":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &Model{Server: "croft", Steps: []Step{{Tool: "Read", Args: map[string]any{"file_path": "a.txt"}}}, Last: "the end"}
			srv := httptest.NewServer(m)
			defer srv.Close()
			if got := post(t, srv.URL+tt.path, tt.other); strings.Contains(got, "Read") || !strings.Contains(got, `"ok"`) {
				t.Errorf("a request without tools of the server gets %s", got)
			}
			if got := post(t, srv.URL+tt.path, tt.first); !strings.Contains(got, tt.call) || !strings.Contains(got, "a.txt") {
				t.Errorf("the first request gets %s, want a call with %s", got, tt.call)
			}
			if got := post(t, srv.URL+tt.path, tt.second); !strings.Contains(got, "the end") {
				t.Errorf("the second request gets %s, want the end", got)
			}
			if diff := cmp.Diff([]string{"one"}, m.Results()); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"Read"}, m.Offers()); diff != "" {
				t.Errorf("offers (-want +got):\n%s", diff)
			}
		})
	}
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %v", resp.Status, err)
	}
	return string(data)
}
