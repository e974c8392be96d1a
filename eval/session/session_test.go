package session

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestJSON holds the wire form: what is not known is left out, lists are never
// null, and each type of event has its own fields.
func TestJSON(t *testing.T) {
	runner := NewRunner("Claude Code!", Agent{Type: "claude-code", Model: "m"})
	b := Builder{Tokens: Tokens{Input: new(30.0), Output: new(5.0), Cache: new(10.0), Partial: true}}
	b.Add(Event{Type: Message, Role: User, Text: ""})
	b.Say(Thinking, "𝛼", "2026-11-15T09:00:00.000Z")
	b.Skill("greet", "Loaded via skill tool", "")
	b.Add(Event{Type: ToolCall, Tool: "Bash", Args: json.RawMessage(`{"command":"ls && <x>"}`)})
	b.Run("ls && <x>", "/w", "").ExitCode = new(0)
	b.Add(Event{Type: ToolResult, Output: ""})
	b.Read("skills/greet/SKILL.md", "/w", "")
	b.Say(Final, "done", "")
	got, err := json.Marshal(b.Report(runner, "p"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"runner":{"id":"Claude Code!","pathKey":"claude-code--` + PathKey("Claude Code!")[len("claude-code--"):] + `","agent":{"type":"claude-code","model":"m"}},"prompt":"p",
		"usage":{"inputTokens":30,"outputTokens":5,"cacheTokens":10,"totalTokens":25,"inputChars":1,"outputChars":4,"reasoningChars":2,"source":{"input":"provider","output":"provider","reasoning":"chars"}},
		"files":{"observedReads":["/w/skills/greet/SKILL.md"],"observedSkillReads":["/w/skills/greet/SKILL.md"]},
		"detectedSkills":[{"skill":"greet","confidence":"explicit","evidence":["Read /w/skills/greet/SKILL.md","Loaded via skill tool"]}],
		"events":[{"type":"message","role":"user","text":""},
			{"type":"message","role":"assistant","phase":"thinking","text":"𝛼","at":"2026-11-15T09:00:00.000Z"},
			{"type":"skillSignal","skill":"greet","signal":"tool:skill"},
			{"type":"toolCall","tool":"Bash","args":{"command":"ls && <x>"}},
			{"type":"command","command":"ls && <x>"},
			{"type":"toolResult","output":""},
			{"type":"fileRead","path":"/w/skills/greet/SKILL.md"},
			{"type":"message","role":"assistant","phase":"final","text":"done"}],
		"finalOutput":"done","rawArtifacts":{},
		"commands":[{"command":"ls && <x>","dir":"/w","exitCode":0}]}`
	if diff := cmp.Diff(decode(t, want), decode(t, string(got))); diff != "" {
		t.Errorf("a report as JSON (-want +got):\n%s", diff)
	}
	var back Report
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(got) {
		t.Errorf("read and written again it is %s, %v", again, err)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestEmptyReportHasLists(t *testing.T) {
	got, err := json.Marshal(Empty(NewRunner("r", Agent{}), "😀"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"runner":{"id":"r","pathKey":"r--` + PathKey("r")[3:] + `","agent":{"type":"","model":""}},"prompt":"😀",` +
		`"usage":{"inputChars":2,"outputChars":0,"reasoningChars":0,"source":{"input":"chars","output":"chars","reasoning":"chars"}},` +
		`"files":{"observedReads":[],"observedSkillReads":[]},"detectedSkills":[],"events":[],"finalOutput":"","rawArtifacts":{}}`
	if string(got) != want {
		t.Errorf("an empty report is\n%s, want\n%s", got, want)
	}
}

// TestPathKey has the values that skillgym makes.
func TestPathKey(t *testing.T) {
	for id, want := range map[string]string{"claude": "claude--c857d09d", "codex": "codex--57de4cf4"} {
		if got := PathKey(id); got != want {
			t.Errorf("PathKey(%q) = %q, want %q", id, got, want)
		}
	}
	if got := PathKey(" ?? "); !strings.HasPrefix(got, "runner--") {
		t.Errorf("PathKey of no letters = %q, want runner--...", got)
	}
	if PathKey("a b") == PathKey("a-b") {
		t.Error("two ids have one key")
	}
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"a/../b", "/w/b"}, {" a ", "/w/a"}, {"/x//y/../z", "/x/z"}, {"/x/y/", "/x/y/"}, {"../..", "/"}, {" ", ""}, {"/", "/"},
	} {
		if got, ok := Resolve(tt.path, "/w"); got != tt.want || ok != (tt.want != "") {
			t.Errorf("Resolve(%q) = %q, %v, want %q", tt.path, got, ok, tt.want)
		}
	}
}

// TestTotals: the total needs the reasoning, unless an agent's provider counts it
// as output.
func TestTotals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tokens Tokens
		want   *float64
	}{
		{"all", Tokens{Input: new(10.0), Output: new(5.0), Reasoning: new(2.0), Cache: new(4.0)}, new(13.0)},
		{"no reasoning", Tokens{Input: new(10.0), Output: new(5.0)}, nil},
		{"no reasoning, told", Tokens{Input: new(10.0), Output: new(5.0), Total: new(15.0)}, new(15.0)},
		{"no reasoning, partial", Tokens{Input: new(10.0), Output: new(5.0), Partial: true}, new(15.0)},
		{"nothing", Tokens{Partial: true}, nil},
	} {
		b := Builder{Tokens: tt.tokens}
		if diff := cmp.Diff(tt.want, b.Report(Runner{}, "").Usage.TotalTokens); diff != "" {
			t.Errorf("%s: total (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestTime(t *testing.T) {
	at := time.Date(2026, 11, 15, 10, 0, 0, 5e6, time.FixedZone("", 3600))
	if got, want := Time(at), "2026-11-15T09:00:00.005Z"; got != want {
		t.Errorf("Time = %q, want %q", got, want)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"type":"message","role":"user","text":"x"}`))
	f.Add([]byte(`{"type":"toolCall","tool":"t","args":null}`))
	f.Add([]byte(`{"type":"command","command":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e Event
		if e.UnmarshalJSON(data) != nil {
			return
		}
		out, err := e.MarshalJSON()
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		var back Event
		if err := back.UnmarshalJSON(out); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	})
}

// TestManySkills: an agent that names any number of skills keeps nobody busy for long:
// each is looked up, not looked for.
func TestManySkills(t *testing.T) {
	const many = 300_000
	var b Builder
	for i := range many {
		name := strconv.Itoa(i)
		b.Skill(name, "e", "")
		b.Reads = append(b.Reads, "/skills/"+name+"/SKILL.md")
	}
	if got := len(b.Report(Runner{}, "p").DetectedSkills); got < many/100 || got > many {
		t.Errorf("%d skills, want thousands of %d", got, many)
	}
}

// TestFinalOutputIsBounded: an agent may print as much as it likes.
func TestFinalOutputIsBounded(t *testing.T) {
	said := strings.Repeat("\u00e9", maxText)
	b := Builder{Output: &said}
	r := b.Report(Runner{}, "")
	if got := len(r.FinalOutput); got > maxText+100 || !strings.HasSuffix(r.FinalOutput, "bytes are in the log of the agent)") || !utf8.ValidString(r.FinalOutput) {
		t.Errorf("the report holds %d bytes, which end in %q", got, r.FinalOutput[max(got-60, 0):])
	}
	if got := r.Usage.OutputChars; got != Length(said) {
		t.Errorf("the output has %v characters, want %v", got, Length(said))
	}
	short := "done"
	if got := (&Builder{Output: &short}).Report(Runner{}, "").FinalOutput; got != short {
		t.Errorf("got %q, want %q", got, short)
	}
}

// TestReportIsBounded: whatever an agent says, and however often, a report is of a size
// that can be read, written and handed on, and tells what it leaves out.
func TestReportIsBounded(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	for name, flood := range map[string]func(b *Builder){
		"one message": func(b *Builder) { b.Say(Final, strings.Repeat("x", 5<<20), "") },
		"messages": func(b *Builder) {
			for range 12 {
				b.Say(Thinking, long, "")
			}
		},
		"results": func(b *Builder) {
			for range 12 {
				b.Add(Event{Type: ToolResult, Output: long})
			}
		},
		"small messages": func(b *Builder) {
			for range 80_000 {
				b.Say(Final, "a few words of an agent", "")
			}
		},
		"commands": func(b *Builder) {
			for range 12 {
				b.Run(long, "/w", "").ExitCode = new(0)
			}
		},
		"calls": func(b *Builder) {
			for range 12 {
				b.Add(Event{Type: ToolCall, Tool: "t", Args: json.RawMessage(`"` + long + `"`)})
			}
		},
		"reads": func(b *Builder) {
			for range 12 {
				b.Read("/"+long, "/w", "")
			}
		},
	} {
		var b Builder
		b.Say(Commentary, "first", "")
		flood(&b)
		total := len(b.Events)
		r := b.Report(Runner{}, "")
		size := len(r.FinalOutput)
		for _, e := range r.Events {
			size += len(e.Text) + len(e.Output) + len(e.Args) + len(e.Command) + len(e.Path)
		}
		for _, c := range r.Commands {
			size += len(c.Command)
		}
		size += len(strings.Join(r.Files.ObservedReads, ""))
		if size > 24<<20 || r.Events[0].Text != "first" {
			t.Errorf("%s: %d bytes that begin with %+v, want a bounded report from the first event on", name, size, r.Events[0])
		}
		if r.LeftOut != total-len(r.Events) {
			t.Errorf("%s: it tells of %d events that are left out, of %d there are %d", name, r.LeftOut, total, len(r.Events))
		}
	}
	var b Builder
	b.Add(Event{Type: ToolCall, Tool: "write", Args: json.RawMessage(`"` + strings.Repeat("x", maxEvents) + `"`)})
	b.Run("ls", "/w", "")
	if r := b.Report(Runner{}, ""); len(r.Events) != 2 || r.LeftOut != 0 || !json.Valid(r.Events[0].Args) || len(r.Commands) != 1 {
		t.Errorf("after a call that would fill it alone a report has %d events and leaves %d out", len(r.Events), r.LeftOut)
	}
	b = Builder{}
	b.Say(Thinking, long, "")
	b.Say(Final, long+"end", "")
	if r := b.Report(Runner{}, ""); r.Usage.OutputChars != len(long)+3 || r.Usage.ReasoningChars != len(long) {
		t.Errorf("%d and %d characters, want those of all that was said: %d and %d", r.Usage.OutputChars, r.Usage.ReasoningChars, len(long)+3, len(long))
	}
}
