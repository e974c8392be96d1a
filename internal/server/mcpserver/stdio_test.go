package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
)

// A talk is a client over a pair of streams that writes and reads lines.
type talk struct {
	t   testing.TB
	in  *io.PipeWriter
	out *bufio.Scanner

	silence *time.Timer // ends what is read, where nothing comes for too long
}

// converse serves over streams and greets.
func converse(t testing.TB, s *mcpserver.Server, version string) *talk {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.ServeStdio(t.Context(), in, out)
		out.Close()
	}()
	silence := time.AfterFunc(patience, func() { read.CloseWithError(errors.New("nobody waits any longer")) })
	t.Cleanup(func() {
		silence.Stop()
		write.Close()
		go io.Copy(io.Discard, read) // what it still has to say
		if err := <-served; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
	c := &talk{t, write, bufio.NewScanner(read), silence}
	c.out.Buffer(nil, 64<<20)
	c.say(strings.Replace(initialize, "2025-06-18", version, 1))
	c.hear()
	c.say(initialized)
	return c
}

func (c *talk) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next message.
func (c *talk) hear() map[string]any {
	c.t.Helper()
	c.silence.Reset(patience)
	if !c.out.Scan() {
		c.t.Fatal("nothing more is said", c.out.Err())
	}
	var m map[string]any
	if err := json.Unmarshal(c.out.Bytes(), &m); err != nil {
		c.t.Fatalf("%q: %v", c.out.Bytes(), err)
	}
	return m
}

func encode(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (c *talk) ask(id, name, args string) map[string]any {
	c.t.Helper()
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args))
	return c.hear()
}

// TestStreamsAnswerAsHTTPDoes: a client over streams gets the answers of one over
// HTTP.
func TestStreamsAnswerAsHTTPDoes(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", open(t, new(memory.Provider))); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, set, mcpserver.Options{})
	other := client(t, listen(t, s.Handler()).URL, nil)
	c := converse(t, s, "2025-06-18")
	for i, call := range []struct{ name, args string }{
		{"Write", `{"file_path":"a \u00e4\u2028.txt","content":"one \"two\"\n\u0001\ttab <&>\n"}`},
		{"Read", `{"file_path":"a \u00e4\u2028.txt"}`},
		{"Read", `{"file_path":"missing"}`},
		{"Read", `{"file_path":7}`},
		{"Read", `{"file_path":"../x"}`},
		{"Read", `[]`},
		{"Read", `null`},
		{"Glob", `{"pattern":"*"}`},
	} {
		said := c.ask(fmt.Sprint(i+10), call.name, call.args)
		if said["id"] != float64(i+10) {
			t.Errorf("%s(%s) was answered with the id %v", call.name, call.args, said["id"])
		}
		var args any
		if err := json.Unmarshal([]byte(call.args), &args); err != nil {
			t.Fatal(err)
		}
		if call.name == "Write" {
			continue // it is there now
		}
		res, err := other.CallTool(t.Context(), &mcp.CallToolParams{Name: call.name, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, said["result"]); diff != "" {
			t.Errorf("%s(%s) (-HTTP +streams):\n%s", call.name, call.args, diff)
		}
	}
}

// TestLargeTextsOverStreams: answers are whole lines, also where several large ones
// are wanted at once and the client has a log; and the digest is that of what was
// read.
func TestLargeTextsOverStreams(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, set, mcpserver.Options{})
	c := converse(t, s, "2025-06-18")
	line := strings.Repeat("lorem ipsum ", 8)
	c.ask("2", "Write", fmt.Sprintf(`{"file_path":"big","content":%q}`, strings.Repeat(line+"\n", 1500)))
	c.say(`{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"debug"}}`)
	c.hear()
	const calls = 8
	for i := range calls {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"Read","arguments":{"file_path":"big","offset":%d}}}`, 10+i, 1+i))
	}
	logs, answers := 0, map[float64]string{}
	for logs < calls || len(answers) < calls {
		said := c.hear()
		if said["method"] == "notifications/message" {
			logs++
			continue
		}
		res := said["result"].(map[string]any)
		answers[said["id"].(float64)] = res["content"].([]any)[0].(map[string]any)["text"].(string)
	}
	for i := range calls {
		var want strings.Builder
		for n := 1 + i; n <= 1500; n++ {
			fmt.Fprintf(&want, "%d\t%s\n", n, line)
		}
		if got := answers[float64(10+i)]; got != want.String() {
			t.Errorf("the answer from line %d on has %d bytes, want %d: %.100q", 1+i, len(got), want.Len(), got)
		}
	}
	for _, call := range []struct{ name, args, want string }{
		{"Read", `{"file_path":"big","offset":1501}`, "exceeds line count"},
		{"Edit", fmt.Sprintf(`{"file_path":"big","old_string":%q,"new_string":"short","replace_all":true}`, line), "replaced 1500"},
	} {
		got := c.ask("90", call.name, call.args)
		for got["method"] == "notifications/message" {
			got = c.hear()
		}
		if !strings.Contains(fmt.Sprint(got), call.want) {
			t.Errorf("%s is answered with %.300v, want %q within", call.name, got, call.want)
		}
	}
}

// TestStreamsTakeOtherMessages: what is no ordinary call gets an answer, too.
func TestStreamsTakeOtherMessages(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", open(t, new(memory.Provider))); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, set, mcpserver.Options{})
	c := converse(t, s, "2025-06-18")
	if got := c.ask(`"a string"`, "Glob", `{"pattern":"*"}`); got["id"] != "a string" || got["result"] == nil {
		t.Errorf("an id that is a string: %v", got)
	}
	if got := c.ask("5", "nothing", `{}`); got["error"] == nil || !strings.Contains(fmt.Sprint(got["error"]), "unknown tool") {
		t.Errorf("an unknown tool: %v", got)
	}
	c.say(`{"jsonrpc":"2.0","id":6,"method":"tools/list"}`)
	if got := c.hear(); got["result"] == nil {
		t.Errorf("tools/list: %v", got)
	}
	c.say(`[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"Glob","arguments":{"pattern":"*"}}}]`)
	if got := c.hear(); got["id"] != 7.0 || got["result"] == nil {
		t.Errorf("a batch: %v", got)
	}
	c.say(`{"jsonrpc":"2.0","id":8,"method":"ping","params":{"note":"\"tools/call\""}}`)
	if got := c.hear(); got["id"] != 8.0 || got["error"] != nil {
		t.Errorf("a ping that speaks of calls: %v", got)
	}
}

// TestNonsenseDoesNotEndTheSession: what is no message is answered, and the next
// message, too.
func TestNonsenseDoesNotEndTheSession(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", open(t, new(memory.Provider))); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, set, mcpserver.Options{})
	c := converse(t, s, "2025-06-18")
	for _, line := range []string{
		"not json", "{}", "[]", "42", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, "\xff\xfe",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Glob","arguments":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 33<<20) + `"}`,
	} {
		c.say(line)
		if got := c.hear(); got["error"] == nil || got["id"] != nil {
			t.Errorf("%.60q is answered with %v", line, got)
		}
		if got := c.ask("2", "Glob", `{"pattern":"*"}`); got["id"] != 2.0 || got["result"] == nil {
			t.Errorf("after %.60q a call is answered with %v", line, got)
		}
	}
	long := strings.Repeat("x", 1<<20)
	if got := c.ask("3", "Glob", `{"`+long+`":1,"pattern":"*"}`); len(fmt.Sprint(got)) > 100<<10 {
		t.Errorf("an error has %d bytes", len(fmt.Sprint(got)))
	}
}

// TestCallsOverStreamsAreCancelled, and others go on meanwhile.
func TestCallsOverStreamsAreCancelled(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", open(t, new(memory.Provider))); err != nil {
		t.Fatal(err)
	}
	block, begun, ended := blocks()
	s, _ := serve(t, set, mcpserver.Options{}, block)
	c := converse(t, s, "2025-06-18")
	c.say(callBlock)
	await(t, "the call", begun)
	if got := c.ask("3", "Glob", `{"pattern":"*"}`); got["id"] != 3.0 {
		t.Errorf("the call beside it: %v", got)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`) // of nobody
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	await(t, "the end of the call", ended)
	if got := c.hear(); got["id"] != 2.0 {
		t.Errorf("after it was cancelled: %v", got)
	}
	c.say(strings.Replace(callBlock, `"arguments":{}`, `"arguments":{},"_meta":{"progressToken":"p"}`, 1))
	if got := c.hear(); got["method"] != "notifications/progress" {
		t.Errorf("progress: %v", got)
	}
	await(t, "the call", begun)
	c.in.Close() // the client is gone
	await(t, "the end of the call", ended)
}

// TestSessionsAreForgotten: what a client has read counts for it alone, and is
// forgotten with it.
func TestSessionsAreForgotten(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	s, env := serve(t, set, mcpserver.Options{})
	env.Readers = tool.ReadSession
	streamable, sse := listen(t, s.Handler()), listen(t, s.SSEHandler())
	for name, transport := range map[string]func() mcp.Transport{
		"streamable": func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: streamable.URL} },
		"sse":        func() mcp.Transport { return &mcp.SSEClientTransport{Endpoint: sse.URL} },
	} {
		t.Run(name, func(t *testing.T) {
			join := func() *mcp.ClientSession {
				c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport(), nil)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			call := func(c *mcp.ClientSession, tool string, args map[string]any) *mcp.CallToolResult {
				res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			a, b := join(), join()
			if res := call(a, "Write", map[string]any{"file_path": name, "content": "x\n"}); res.IsError {
				t.Fatalf("%+v", res)
			}
			edit := map[string]any{"file_path": name, "old_string": "x", "new_string": "y"}
			if res := call(b, "Edit", edit); !res.IsError {
				t.Error("what one client has read counts for another")
			}
			if res := call(a, "Edit", edit); res.IsError {
				t.Errorf("Edit by the one who has read it: %+v", res)
			}
			if env.Reads.Len() == 0 {
				t.Error("nothing is known of what was read")
			}
			b.Close()
			a.Close()
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if env.Reads.Len() == 0 {
					return
				}
			}
			t.Errorf("%d files are known of clients that are gone", env.Reads.Len())
		})
	}
}

// TestParseErrorsAreScrubbed: the answer to an invalid message quotes it, without secrets.
func TestParseErrorsAreScrubbed(t *testing.T) {
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_TOKEN=hunter2hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: tool.Coding(), Workspaces: new(tool.Set), Secrets: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close(context.WithoutCancel(t.Context())) })
	s := mcpserver.New(t.Context(), mcpserver.Options{Env: env})
	t.Cleanup(s.Close)
	c := converse(t, s, "2025-06-18")
	c.say(`{"jsonrpc":"hunter2hunter2","id":7,"method":"ping"}`)
	if got := fmt.Sprint(c.hear()); strings.Contains(got, "hunter2") || !strings.Contains(got, "[REDACTED:token]") {
		t.Errorf("the answer is %s", got)
	}
}
