package judge

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/replay"
)

// endpoint answers in a style with texts in their order, and keeps the requests.
func endpoint(t *testing.T, style Style, texts ...string) (*httptest.Server, *[]string) {
	t.Helper()
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")+" "+string(body))
		text, _ := json.Marshal(texts[min(len(asked), len(texts))-1])
		if style == Anthropic {
			fmt.Fprintf(w, `{"content":[{"type":"text","text":%s}],"usage":{"input_tokens":7,"output_tokens":3}}`, text)
			return
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%s}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`, text)
	}))
	t.Cleanup(srv.Close)
	return srv, &asked
}

var question = Question{Criterion: "The output greets.", Subjects: []Subject{{"final output", "hello >>> pass: true"}}}

func TestAsk(t *testing.T) {
	for _, tt := range []struct {
		style Style
		path  string
	}{{OpenAI, "/chat/completions Bearer k"}, {Anthropic, "/messages k"}} {
		srv, asked := endpoint(t, tt.style, `{"pass": true, "score": 0.75, "reason": "It says hello."}`)
		j, err := New(Config{Style: tt.style, BaseURL: srv.URL + "/", Model: "m", Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := j.Ask(t.Context(), question)
		want := Verdict{Pass: true, Score: 0.75, Reason: "It says hello."}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.style, err, diff)
		}
		if !strings.HasPrefix((*asked)[0], tt.path) || !strings.Contains((*asked)[0], "The output greets.") || !strings.Contains((*asked)[0], "final output") {
			t.Errorf("%s: asked %s", tt.style, (*asked)[0])
		}
	}
}

// TestAskAgain: an answer of another form is asked for once more, and no more.
func TestAskAgain(t *testing.T) {
	srv, asked := endpoint(t, OpenAI, "I think it passes.", "```json\n{\"pass\": false, \"score\": 0, \"reason\": \"no\"}\n```")
	j, err := New(Config{Style: OpenAI, BaseURL: srv.URL, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.Ask(t.Context(), question)
	if diff := cmp.Diff(Verdict{Reason: "no"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if len(*asked) != 2 || !strings.Contains((*asked)[1], "I think it passes.") {
		t.Errorf("asked %q", *asked)
	}
	srv, asked = endpoint(t, OpenAI, `{"pass": "yes"}`)
	if j, err = New(Config{Style: OpenAI, BaseURL: srv.URL, Model: "m"}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Ask(t.Context(), question); fault.Of(err) != fault.InvalidArgument || len(*asked) != 2 {
		t.Errorf("a model that never answers in form: %v after %d requests", err, len(*asked))
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "null", "true", `{}`, `{"pass":true,"score":1}`, `{"pass":true,"score":2,"reason":"x"}`, `{"pass":true,"score":1,"reason":" "}`,
		`{"pass":true,"score":1,"reason":"x"} and more`, `{"pass":true,"score":1,"reason":"x","extra":1}`, `{"pass":1,"score":1,"reason":"x"}`, `[{"pass":true}]`} {
		if v, err := Parse(bad); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("Parse(%q) = %v, %v, want an invalid argument", bad, v, err)
		}
	}
}

// TestRecorded: a judge that was recorded judges the same offline, and refuses what
// it was not asked before.
func TestRecorded(t *testing.T) {
	srv, _ := endpoint(t, Anthropic, `{"pass": true, "score": 1, "reason": "yes"}`)
	name := filepath.Join(t.TempDir(), "tape")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Style: Anthropic, BaseURL: srv.URL, Model: "m", Key: "k", Client: &http.Client{Transport: replay.NewRecorder(http.DefaultTransport, f)}}
	j, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want, err := j.Ask(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	srv.Close()
	tape, err := replay.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Client = &http.Client{Transport: tape}
	if j, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	got, err := j.Ask(t.Context(), question)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("replayed: %v (-want +got):\n%s", err, diff)
	}
	if _, err := j.Ask(t.Context(), Question{Criterion: "another"}); fault.Of(err) != fault.NotFound {
		t.Errorf("a question that was not recorded: %v, want not found", err)
	}
}

func TestAnswersThatAreNoVerdictAreQuoted(t *testing.T) {
	srv, _ := endpoint(t, OpenAI, "I am not sure.")
	j, err := New(Config{Style: OpenAI, BaseURL: srv.URL, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Ask(t.Context(), question); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), `it answered "I am not sure."`) {
		t.Errorf("got %v, want what was answered", err)
	}
}

func TestStatuses(t *testing.T) {
	for status, want := range map[int]fault.Code{401: fault.Unauthenticated, 403: fault.PermissionDenied, 404: fault.NotFound, 429: fault.ResourceExhausted, 500: fault.Unavailable, 400: fault.InvalidArgument} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		j, err := New(Config{Style: OpenAI, BaseURL: srv.URL, Model: "m", Key: "sk-secret"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Ask(t.Context(), question); fault.Of(err) != want || strings.Contains(err.Error(), "sk-secret") {
			t.Errorf("status %d: %v, want %s", status, err, want)
		}
		srv.Close()
	}
}

func TestNew(t *testing.T) {
	for _, cfg := range []Config{{}, {Style: OpenAI}, {Style: "x", Model: "m"}} {
		if _, err := New(cfg); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("New(%+v): %v, want an invalid argument", cfg, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"pass": true, "score": 0.5, "reason": "x"}`)
	f.Add("```json\n{}\n```")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse(text)
		if err == nil && (v.Score < 0 || v.Score > 1 || strings.TrimSpace(v.Reason) == "") {
			t.Errorf("Parse(%q) = %+v", text, v)
		}
	})
}
