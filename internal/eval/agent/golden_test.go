package agent

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden reports anew")

// replayer is a program that writes what a real one wrote, and leaves behind the
// files that it left. Directories in testdata are one session each.
const replayer = `
here=$(dirname "$0")
case "$*" in *"export ses_"*) exec cat "$here/export.json";; esac
if [ -n "$CODEX_HOME" ] && [ -f "$here/session.jsonl" ]; then
	mkdir -p "$CODEX_HOME/sessions/2026"
	cp "$here/session.jsonl" "$CODEX_HOME/sessions/2026/rollout-2026-11-15T09-00-00-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee.jsonl"
fi
if [ -n "$GEMINI_CLI_HOME" ]; then
	mkdir -p "$GEMINI_CLI_HOME/.gemini/tmp/work/chats"
	cp "$here/session.jsonl" "$GEMINI_CLI_HOME/.gemini/tmp/work/chats/"
fi
if [ -n "$COPILOT_OTEL_FILE_EXPORTER_PATH" ]; then cp "$here/otel.jsonl" "$COPILOT_OTEL_FILE_EXPORTER_PATH"; fi
exec cat "$here/stdout.jsonl"
`

// recorded makes the program that plays a session of testdata.
func recorded(t *testing.T, session string) string {
	t.Helper()
	path := stub(t, replayer)
	if err := os.CopyFS(filepath.Dir(path), os.DirFS(filepath.Join("testdata", session))); err != nil {
		t.Fatal(err)
	}
	return path
}

// typeOf returns the type of agent that a session of testdata is of.
func typeOf(name string) string { return strings.TrimPrefix(name, "classic-") }

// TestGolden: what the real agents wrote reads as it did, field by field. Those of
// Cursor's agent and Copilot, and the classic ones, are written by hand.
func TestGolden(t *testing.T) {
	for _, name := range []string{"claude-code", "codex", "opencode", "gemini", "cursor-agent", "copilot", "classic-claude-code", "classic-codex", "classic-opencode"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Type: typeOf(name), Model: "m", Command: recorded(t, name)}
			in := input(t, cfg)
			in.Prompt = realPrompt
			out, err := Run(t.Context(), RunnerFunc(plain), mustNew(t, cfg), in)
			if err != nil || out.Failure != nil {
				t.Fatalf("run: %v, %v", err, out.Failure)
			}
			r := out.Report
			if r.StartedAt == "" || r.DurationMs == nil || r.PeakMemoryBytes == 0 {
				t.Errorf("times and memory: %q %v %d", r.StartedAt, r.DurationMs, r.PeakMemoryBytes)
			}
			r.StartedAt, r.EndedAt, r.DurationMs, r.PeakMemoryBytes = "", "", nil, 0
			golden(t, filepath.Join("testdata", name, "report.json"), portable(t, r, in))
		})
	}
}

// portable returns a value as JSON with the directories of a test in a form that
// is always the same.
func portable(t *testing.T, v any, in Input) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	text := bytes.ReplaceAll(b.Bytes(), []byte(in.Artifacts), []byte("/top/artifacts"))
	return bytes.ReplaceAll(text, []byte(in.Dir), []byte("/top/work"))
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), -update writes it anew:\n%s", path, diff)
	}
}

// FuzzNormalize: no agent's parser trips over anything.
func FuzzNormalize(f *testing.F) {
	for _, name := range []string{"claude-code", "codex", "opencode", "gemini", "cursor-agent", "copilot", "classic-claude-code", "classic-codex", "classic-opencode", "acp"} {
		for _, file := range []string{"stdout.jsonl", "session.jsonl", "export.json", "otel.jsonl"} {
			if text, err := os.ReadFile(filepath.Join("testdata", name, file)); err == nil {
				f.Add(text[:min(len(text), 4000)], text[max(0, len(text)-4000):])
			}
		}
	}
	f.Fuzz(func(t *testing.T, text, more []byte) {
		for _, typ := range Types() {
			a, err := New(Config{Type: typ, Model: "m", Command: "x"})
			if err != nil {
				t.Fatal(err)
			}
			out := Output{Stdout: text, Stderr: more, Started: time.Unix(0, 0)}
			a.Rejected(t.Context(), noRunner, Input{Dir: "/w", Artifacts: "/w"}, out)
			steps, n := a.Steps(), 0
			for line := range bytes.Lines(text) {
				if now := steps(line); now < n {
					t.Errorf("%s: steps went from %d to %d", typ, n, now)
				} else {
					n = now
				}
			}
			report, err := a.Normalize(Input{Dir: "/w"}, Raw{Output: out, Session: text, Telemetry: more})
			if err != nil {
				continue
			}
			if _, err := json.Marshal(report); err != nil {
				t.Errorf("%s: a report that is no JSON: %v", typ, err)
			}
			for _, p := range report.Files.ObservedReads {
				if !filepath.IsAbs(p) {
					t.Errorf("%s: a read of %q, want an absolute path", typ, p)
				}
			}
		}
	})
}
