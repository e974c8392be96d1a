package suite

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
)

// load writes files into a new directory and loads the first as a suite.
func load(t *testing.T, files ...string) *Suite {
	t.Helper()
	s, err := tryLoad(t, files...)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return s
}

// tryLoad is load for what may fail. files are names and contents in turn.
func tryLoad(t *testing.T, files ...string) (*Suite, error) {
	t.Helper()
	if !isYAML(files[0]) {
		testenv.NeedsProgram(t, "node")
	}
	dir := write(t, files...)
	s, err := new(Loader).Load(t.Context(), filepath.Join(dir, files[0]), nil)
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	return s, err
}

func write(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// judge runs the assertion of a case, and fails where it could not be asked.
func judge(t *testing.T, s *Suite, id, report string, env AssertEnv) *Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := s.Assert(ctx, id, json.RawMessage(report), env)
	if err != nil {
		t.Fatalf("Assert(%s): %v", id, err)
	}
	return out
}

// body returns a suite with one case, c, whose assertion has the given body.
func body(text string) string {
	return `import { assert, commandMatcher } from "skillgym";
export default [{ id: "c", prompt: "p", async assert(report: any, ctx: any) {
` + text + `
} }];`
}

func TestAnAssertionThatHoldsPasses(t *testing.T) {
	s := load(t, "a.suite.ts", body(`assert.match(ctx.finalOutput(), /ready/); assert.output.includes(report, "read");`))
	out := judge(t, s, "c", `{"finalOutput":"ready"}`, nil)
	if !out.Passed || out.Error != nil {
		t.Errorf("outcome = %+v, want passed", out)
	}
}

func TestAFailureNamesThePlaceInTheSource(t *testing.T) {
	s := load(t, "a.ts", body("  const x: number = 1;\n  assert.commands.includes(report, 'pwd');"))
	out := judge(t, s, "c", `{"events":[{"type":"command","command":"ls -la"}]}`, nil)
	if out.Passed || out.Origin != OriginAssertion {
		t.Fatalf("outcome = %+v, want a failed assertion", out)
	}
	want := `Expected commands to include a value matching "pwd". Observed commands: ls -la parsed (executable="ls", options={"-l":[true],"-a":[true]})`
	if out.Error.Message != want {
		t.Errorf("message\n got %s\nwant %s", out.Error.Message, want)
	}
	if f := out.Error.Frame; f == nil || f.File != s.Path || f.Line != 4 || f.Column != 19 {
		t.Errorf("frame = %+v, want %s:4:19", f, s.Path)
	}
	if want := "at assert (file://" + s.Path + ":4:"; !strings.Contains(out.Error.Stack, want) {
		t.Errorf("stack = %s\nwant it to contain %q", out.Error.Stack, want)
	}
}
