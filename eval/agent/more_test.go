package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval/session"
)

// TestRealACP does a turn with opencode over the Agent Client Protocol.
func TestRealACP(t *testing.T) {
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
