package agent

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/internal/eval/replay"
	"github.com/croft-run/croft/internal/testmodel"
)

// TestRealACP does a turn with opencode over the Agent Client Protocol.
//
//croft:slow
func TestRealACP(t *testing.T) {
	t.Parallel()
	c := clis["opencode"]
	c.cfg = Config{Type: "acp", CommandArgs: []string{"acp"}, Model: "scripted/scripted"}
	out, model, in := c.session(t)
	if out.Failure != nil {
		text, _ := os.ReadFile(in.Artifacts + "/stderr.log")
		t.Fatalf("failure: %v\n%s\n%q", out.Failure, text, model.Results())
	}
	r := out.Report
	var tools []string
	for _, e := range r.Events {
		if e.Type == session.ToolCall {
			tools = append(tools, e.Tool+" "+string(e.Args))
		}
	}
	want := []string{`skill {"name":"greet"}`, `read {"filePath":"` + in.Dir + `/notes.txt"}`,
		`bash {"command":"wc -l < notes.txt","description":"count","cwd":"` + in.Dir + `"}`,
		`bash {"command":"echo sorry >&2; exit 3","description":"fail","cwd":"` + in.Dir + `"}`,
		`write {"content":"made\n","filePath":"` + in.Dir + `/made.txt"}`}
	if diff := cmp.Diff(want, tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if len(r.Commands) != 2 || *r.Commands[0].ExitCode != 0 || *r.Commands[1].ExitCode != 3 {
		t.Errorf("commands %+v", r.Commands)
	}
	if r.FinalOutput != "There are 2 lines." || r.Steps != 6 || len(r.DetectedSkills) != 1 || r.SessionID == "" || r.Usage.InputTokens == nil {
		t.Errorf("final output %q, %d steps, skills %v, session %q, usage %+v", r.FinalOutput, r.Steps, r.DetectedSkills, r.SessionID, r.Usage)
	}
	if diff := cmp.Diff([]string{in.Dir + "/notes.txt"}, r.Files.ObservedReads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

// TestGoldenACP: what real programs said over the protocol reads as it did.
func TestGoldenACP(t *testing.T) {
	for _, name := range []string{"acp-opencode", "acp-gemini"} {
		text, err := os.ReadFile(filepath.Join("testdata", name, "stdout.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		a, in := mustNew(t, Config{Type: "acp", Command: "x"}), Input{Dir: "/top/work", Prompt: realPrompt}
		report, err := a.Normalize(in, Raw{Session: text})
		if err != nil {
			t.Fatal(err)
		}
		count := a.Steps()
		for line := range strings.Lines(string(text)) {
			report.Steps = count([]byte(line))
		}
		in.Artifacts = "/nowhere"
		golden(t, filepath.Join("testdata", name, "report.json"), portable(t, report, in))
	}
}

// TestRealResume asks the agent of a session that has ended, in the home that it
// had.
func TestRealResume(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Split(*resume, ",") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, model := clis[name], (*testmodel.Model)(nil)
			a, in, _ := c.start(t, func(dir string) http.Handler {
				model = &testmodel.Model{Steps: c.steps(dir)[:1], Last: "Because of the notes."}
				return model
			})
			first, err := Run(t.Context(), RunnerFunc(plain), a, in)
			if err != nil || first.Failure != nil {
				t.Fatalf("the first session: %v, %v", err, first.Failure)
			}
			asked := len(model.Requests())
			in.Resume, in.Runtime, in.Artifacts, in.Prompt = first.Report.SessionID, in.Artifacts, in.Artifacts+"/explain/question-01", "Why did you do that?"
			why, err := Run(t.Context(), RunnerFunc(plain), a, in)
			if err != nil || why.Failure != nil {
				text, _ := os.ReadFile(in.Artifacts + "/stderr.log")
				t.Fatalf("resumed: %v, %v\n%s", err, why.Failure, text)
			}
			if why.Report.FinalOutput != "Because of the notes." {
				t.Errorf("it says %q", why.Report.FinalOutput)
			}
			said := strings.Join(model.Requests()[asked:], "\n")
			if !strings.Contains(said, realPrompt) || !strings.Contains(said, in.Prompt) {
				t.Errorf("the model did not see both prompts: %.3000s", said)
			}
		})
	}
}

// resume are the agents that TestRealResume runs: the quick ones by default.
var resume = flag.String("resume", "claude,codex", "agents whose sessions are resumed")

// TestRealReplay: what the real programs and a model said once is said again
// without a model, in other directories, with the same report.
func TestRealReplay(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Split(*replayed, ",") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clis[name]
			up := &url.URL{Scheme: "http", Host: "model"}
			var tape bytes.Buffer
			var rec *replay.Recorder
			var door *gate
			first, in := c.run(t, func(dir string) http.Handler {
				rec = replay.NewRecorder(inProcess{&testmodel.Model{Steps: c.steps(dir), Last: "There are 2 lines."}}, &tape)
				door = &gate{next: replay.Handler(up, rec.In(dir, filepath.Dir(dir)))}
				return door
			})
			door.shut() // a program may end before all that it was answered is on the tape
			if first.Failure != nil || rec.Err() != nil {
				t.Fatalf("recorded: %v, %v", first.Failure, rec.Err())
			}
			played, err := replay.Read(&tape)
			if err != nil {
				t.Fatal(err)
			}
			second, again := c.run(t, func(dir string) http.Handler { return replay.Handler(up, played.In(dir, filepath.Dir(dir))) })
			if second.Failure != nil {
				text, _ := os.ReadFile(again.Artifacts + "/stdout.log")
				t.Fatalf("replayed: %v\n%.5000s", second.Failure, text)
			}
			c.check(t, second.Report, again)
			if first.Report.FinalOutput != second.Report.FinalOutput || in.Dir == again.Dir {
				t.Errorf("first %q in %s, then %q in %s", first.Report.FinalOutput, in.Dir, second.Report.FinalOutput, again.Dir)
			}
		})
	}
}

// replayed are the agents that TestRealReplay runs: the quick ones by default.
var replayed = flag.String("replay", "claude,codex", "agents whose sessions are replayed")

// A gate answers until it is shut.
type gate struct {
	next http.Handler

	mu   sync.RWMutex
	over bool // guarded by mu
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.over {
		http.Error(w, "it is over", http.StatusServiceUnavailable)
		return
	}
	g.next.ServeHTTP(w, r)
}

// shut waits for what is being answered.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

// inProcess asks a handler without a network.
type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}
