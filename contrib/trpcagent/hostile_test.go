package trpcagent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/contrib/trpcagent"
	"github.com/croft-run/croft/fault"
)

// TestHostileInput: whatever a model or a program makes of the interfaces is a coded
// error or a result, and the workspace is good afterwards.
func TestHostileInput(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ctx := t.Context()
		for _, id := range []string{"", "../../x", "a/b\x00c", strings.Repeat("x", 10_000), "\xff"} {
			ws, err := e.CreateWorkspace(ctx, id, codeexecutor.WorkspacePolicy{})
			if err != nil {
				t.Errorf("CreateWorkspace(%.20q): %v", id, err)
				continue
			}
			must(t, e.Cleanup(ctx, ws))
			must(t, e.Cleanup(ctx, ws))
		}
		ws := create(t, e)
		coded := func(what string, err error) {
			t.Helper()
			if c := fault.Of(err); err == nil || c == fault.Internal {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, path := range []string{"", ".", "/", "..", "../x", "a/../../x", "/etc/croft-hostile", "a\x00b", strings.Repeat("d/", 3000) + "f", strings.Repeat("n", 300)} {
			coded("PutFiles "+path[:min(len(path), 20)], e.PutFiles(ctx, ws, []codeexecutor.PutFile{{Path: "work/first", Content: []byte("x")}, {Path: path, Content: []byte("x")}}))
		}
		if files, err := e.Collect(ctx, ws, []string{"work/first"}); err != nil || len(files) != 0 {
			t.Errorf("a part was put: %+v, %v", files, err)
		}
		coded("PutFiles, set-user-id", e.PutFiles(ctx, ws, []codeexecutor.PutFile{{Path: "work/set", Content: []byte("x"), Mode: 0o4777}}))

		coded("StageDirectory", e.StageDirectory(ctx, ws, filepath.Join(t.TempDir(), "nothing"), "x", codeexecutor.StageOptions{}))
		coded("StageDirectory, a file", e.StageDirectory(ctx, ws, os.Args[0], "x", codeexecutor.StageOptions{}))
		coded("StageDirectory, out", e.StageDirectory(ctx, ws, t.TempDir(), "../x", codeexecutor.StageOptions{}))
		for _, from := range []string{"", "host:///etc/passwd", "artifact://x", "workspace://../x", "skill://../../x", "ftp://x", "host://etc", "artifact://a@99999999999999999999"} {
			coded("StageInputs "+from, e.StageInputs(ctx, ws, []codeexecutor.InputSpec{{From: from, To: "work/in"}}))
		}
		for _, pattern := range []string{"../**", "/etc/*", "[", "{a,b", "$HOME/**", strings.Repeat("{a,b}", 40), "a\x00b"} {
			files, err := e.Collect(ctx, ws, []string{pattern}) // an error would cost the model the whole result
			if err != nil || len(files) != 1 || files[0].Name != trpcagent.LeftOutName {
				t.Errorf("Collect %.20q: %+v, %v, want %s alone", pattern, files, err, trpcagent.LeftOutName)
			}
		}
		for _, spec := range []codeexecutor.OutputSpec{{MaxFiles: -1}, {Save: true}, {Globs: []string{"work/**"}, NameTemplate: "{{range .}}"}} {
			_, err := e.CollectOutputs(ctx, ws, spec)
			coded("CollectOutputs", err)
		}
		for _, spec := range []codeexecutor.RunProgramSpec{
			{}, {Cmd: "tr\x00ue"}, {Cmd: "true", Args: []string{"a\x00b"}}, {Cmd: "true", Cwd: "../.."}, {Cmd: "true", Cwd: "/etc"}, {Cmd: "true", Env: map[string]string{"A=B": "c"}},
			{Cmd: "true", Env: map[string]string{"": "c"}}, {Cmd: "true", Env: map[string]string{"A": "b\x00"}}, {Cmd: "true", Args: []string{strings.Repeat("x", 4<<20)}},
			{Cmd: "true", Limits: codeexecutor.ResourceLimits{MemoryMB: -1}}, {Cmd: "sh", Args: []string{"-c", "exit 3"}, Limits: codeexecutor.ResourceLimits{MemoryMB: 1 << 50, CPUPercent: 1 << 62}},
		} {
			res, err := e.RunProgram(ctx, ws, spec)
			if err == nil && res.ExitCode == 0 {
				t.Errorf("RunProgram %.100v: %+v", spec, res)
			}
			if err != nil {
				coded("RunProgram", err)
			}
		}
		if res, err := e.RunProgram(ctx, ws, codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", "cat | wc -c; yes | head -c 30000000"}, Stdin: strings.Repeat("x", 1<<20), Timeout: time.Minute}); err != nil || !strings.HasPrefix(res.Stdout, "1048576\n") || len(res.Stdout) > 20<<20 {
			t.Errorf("much in and out: %d bytes, %v", len(res.Stdout), err)
		}
		for _, blocks := range [][]codeexecutor.CodeBlock{
			{{Language: "cobol", Code: "x"}}, {{Language: "sh\n", Code: "exit 3"}}, {{Language: "", Code: "import sys; sys.exit(4)"}}, {{Language: "typescript", Code: strings.Repeat("A<", 20_000)}},
			{{Language: strings.Repeat("x", 1<<20), Code: "x"}},
		} {
			res, err := e.ExecuteCode(ctx, codeexecutor.CodeExecutionInput{CodeBlocks: blocks})
			if err == nil && !strings.Contains(res.Output, "exit status") {
				t.Errorf("ExecuteCode %.60v: %.200q", blocks, res.Output)
			}
			if err != nil {
				coded("ExecuteCode", err)
				if len(err.Error()) > 4096 {
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
			}
		}
		if res, err := e.ExecuteCode(ctx, codeexecutor.CodeExecutionInput{}); err != nil || res.Output != "" {
			t.Errorf("no blocks: %+v, %v", res, err)
		}
		hostileSession(t, e, ws)
		if res, err := e.RunProgram(ctx, ws, codeexecutor.RunProgramSpec{Cmd: "echo", Args: []string{"good"}}); err != nil || res.Stdout != "good\n" {
			t.Errorf("afterwards: %+v, %v", res, err)
		}
		must(t, e.Cleanup(ctx, ws))
		if _, err := e.RunProgram(ctx, ws, codeexecutor.RunProgramSpec{Cmd: "true"}); !errors.Is(err, codeexecutor.ErrWorkspaceStale) {
			t.Errorf("after Cleanup: %v", err)
		}
	})
}

func hostileSession(t *testing.T, e *trpcagent.Executor, ws codeexecutor.Workspace) {
	t.Helper()
	s, err := e.StartProgram(t.Context(), ws, codeexecutor.InteractiveProgramSpec{RunProgramSpec: codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", "printf 'a\\nb\\nc\\n'; cat"}}})
	must(t, err)
	for _, n := range []int{-1, 0, 1 << 62, -1 << 62} {
		_ = s.Log(&n, &n)
		_ = s.Poll(&n)
	}
	c := s.(trpcagent.Controller)
	for _, name := range []string{"", "SIGNOTHING", "9999", "SIGKILL\x00"} {
		if err := c.Signal(name); fault.Of(err) == "" || fault.Of(err) == fault.Internal {
			t.Errorf("Signal(%q) = %v", name, err)
		}
	}
	for _, size := range [][2]int{{0, 0}, {-1, 5}, {1 << 20, 1 << 20}} {
		if err := c.Resize(size[0], size[1]); fault.Of(err) == "" || fault.Of(err) == fault.Internal {
			t.Errorf("Resize(%v) = %v", size, err)
		}
	}
	must(t, c.CloseStdin())
	_ = c.CloseStdin()
	if err := s.Write("late", true); fault.Of(err) == fault.Internal {
		t.Errorf("Write after the end: %v", err)
	}
	must(t, s.Close())
	_ = s.Close()
	_ = s.Poll(nil)
	if err := s.Kill(-time.Hour); fault.Of(err) == fault.Internal {
		t.Errorf("Kill after Close: %v", err)
	}
}
