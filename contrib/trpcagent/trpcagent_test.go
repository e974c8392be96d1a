package trpcagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/agent"
	"trpc.group/trpc-go/trpc-agent-go/artifact"
	"trpc.group/trpc-go/trpc-agent-go/artifact/inmemory"
	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"
	"trpc.group/trpc-go/trpc-agent-go/model"
	"trpc.group/trpc-go/trpc-agent-go/session"
	"trpc.group/trpc-go/trpc-agent-go/skill"
	toolskill "trpc.group/trpc-go/trpc-agent-go/tool/skill"
	"trpc.group/trpc-go/trpc-agent-go/tool/workspaceexec"

	"github.com/croft-run/croft/contrib/trpcagent"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// everywhere runs a test on an executor of each kind that has a shell.
func everywhere(t *testing.T, f func(t *testing.T, e *trpcagent.Executor)) {
	for _, kind := range testshell.Shells {
		t.Run(kind, func(t *testing.T) { f(t, open(t, kind, nil)) })
	}
}

func open(t *testing.T, kind string, opts *trpcagent.Options) *trpcagent.Executor {
	t.Helper()
	p, _ := testshell.NewProvider(t, kind)
	e, err := trpcagent.New(t.Context(), p, opts)
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// caller is what trpc-agent-go's tools have in common.
type caller interface {
	Call(ctx context.Context, args []byte) (any, error)
}

// call calls a tool of trpc-agent-go and returns its answer as its model sees it.
func call(ctx context.Context, t *testing.T, tool caller, args map[string]any) map[string]any {
	t.Helper()
	in, err := json.Marshal(args)
	must(t, err)
	out, err := tool.Call(ctx, in)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	data, err := json.Marshal(out)
	must(t, err)
	var answer map[string]any
	must(t, json.Unmarshal(data, &answer))
	return answer
}

// invocation is a context as an agent of trpc-agent-go has it.
func invocation(ctx context.Context, svc artifact.Service) context.Context {
	inv := agent.NewInvocation(
		agent.WithInvocationMessage(model.NewUserMessage("hi")),
		agent.WithInvocationSession(&session.Session{ID: "s1", AppName: "app", UserID: "user", State: session.StateMap{}}),
		agent.WithInvocationArtifactService(svc),
	)
	return agent.NewInvocationContext(ctx, inv)
}

func TestTheirWorkspaceExec(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ctx := invocation(t.Context(), inmemory.NewService())
		tool := workspaceexec.NewExecTool(e)
		out := call(ctx, t, tool, map[string]any{"command": "mkdir -p work/demo && printf hello > work/demo/a.txt && cat work/demo/a.txt"})
		if out["status"] != "exited" || out["exit_code"] != 0.0 || out["output"] != "hello" {
			t.Errorf("answer %v", out)
		}
		out = call(ctx, t, tool, map[string]any{"command": "cat demo/a.txt; exit 3", "cwd": "work"})
		if out["exit_code"] != 3.0 || out["output"] != "hello" {
			t.Errorf("answer %v", out)
		}
		// A time-out is one, whatever the shell has started.
		start := time.Now()
		out = call(ctx, t, tool, map[string]any{"command": "sleep 1000; true", "timeout_sec": 1})
		if out["exit_code"] == 0.0 || time.Since(start) > patience {
			t.Errorf("answer %v after %v", out, time.Since(start))
		}
		// A session: a prompt comes once, lines stay apart.
		out = call(ctx, t, tool, map[string]any{"command": "printf 'Name: '; read n; echo one; echo two; echo hi $n; exit 5", "background": true, "yield_time_ms": 300})
		id, _ := out["session_id"].(string)
		if id == "" || strings.Count(fmt.Sprint(out["output"]), "Name:") > 1 {
			t.Fatalf("answer %v", out)
		}
		seen, _ := out["output"].(string)
		write := workspaceexec.NewWriteStdinTool(tool)
		args := map[string]any{"session_id": id, "chars": "Ada", "append_newline": true, "yield_time_ms": 300}
		for end := time.Now().Add(patience); time.Now().Before(end); {
			out = call(ctx, t, write, args)
			text, _ := out["output"].(string)
			seen += text
			if out["status"] == "exited" {
				break
			}
			args = map[string]any{"session_id": id, "chars": "", "yield_time_ms": 300}
		}
		if out["exit_code"] != 5.0 || seen != "Name: one\ntwo\nhi Ada\n" {
			t.Errorf("the session said %q, and ended as %v", seen, out)
		}
		out = call(ctx, t, tool, map[string]any{"command": "sleep 100", "background": true, "yield_time_ms": 10})
		killed := call(ctx, t, workspaceexec.NewKillSessionTool(tool), map[string]any{"session_id": out["session_id"]})
		if killed["ok"] != true {
			t.Errorf("answer %v", killed)
		}
	})
}

func TestTheirSaveArtifact(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		svc := inmemory.NewService()
		ctx := invocation(t.Context(), svc)
		tool := workspaceexec.NewExecTool(e)
		// 10 MiB, which fails beyond 4 on trpc-agent-go's own engine.
		call(ctx, t, tool, map[string]any{"command": "head -c 10485760 /dev/zero > out/site.zip"})
		out := call(ctx, t, workspaceexec.NewSaveArtifactTool(tool), map[string]any{"path": "out/site.zip"})
		if out["ref"] != "artifact://out/site.zip@0" || out["size_bytes"] != 10485760.0 {
			t.Errorf("answer %v", out)
		}
		art, err := svc.LoadArtifact(ctx, artifact.SessionInfo{AppName: "app", UserID: "user", SessionID: "s1"}, "out/site.zip", nil)
		if err != nil || len(art.Data) != 10485760 {
			t.Errorf("the artifact: %v", err)
		}
	})
}

func TestTheirBootstrap(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		tool := workspaceexec.NewExecTool(e, workspaceexec.WithWorkspaceBootstrap(codeexecutor.WorkspaceBootstrapSpec{
			Files:    []codeexecutor.WorkspaceFile{{Target: "work/seed.txt", Content: []byte("seed")}},
			Commands: []codeexecutor.WorkspaceCommand{{Cmd: "sh", Args: []string{"-c", "printf x >> work/n; mkdir -p work/env"}, ObservedPaths: []string{"work/env"}, MarkerPath: "work/.done"}},
		}))
		ctx := invocation(t.Context(), inmemory.NewService())
		for range 2 {
			if out := call(ctx, t, tool, map[string]any{"command": "cat work/seed.txt"}); out["output"] != "seed" {
				t.Errorf("answer %v", out)
			}
		}
	})
}

func TestTheirSkills(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		root := t.TempDir()
		dir := filepath.Join(root, "echoer")
		must(t, os.MkdirAll(filepath.Join(dir, "scripts"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("---\nname: echoer\ndescription: echoes\n---\nbody\n"), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "scripts/run.sh"), []byte("echo \"$SKILL_NAME says $1\" > out/a.txt; echo done\n"), 0o755))
		repo, err := skill.NewFSRepository(root)
		must(t, err)
		svc := inmemory.NewService()
		ctx := invocation(t.Context(), svc)
		if out, err := toolskill.NewLoadTool(repo).Call(ctx, []byte(`{"skill":"echoer"}`)); err != nil || !strings.Contains(fmt.Sprint(out), "echoer") {
			t.Errorf("skill_load: %v, %v", out, err)
		}
		run := toolskill.NewRunTool(repo, e)
		for range 2 {
			out := call(ctx, t, run, map[string]any{"skill": "echoer", "command": "sh scripts/run.sh hi", "outputs": map[string]any{"globs": []string{"$OUTPUT_DIR/*.txt"}, "inline": true, "save": true}})
			text, _ := json.Marshal(out)
			if out["exit_code"] != 0.0 || out["stdout"] != "done\n" || !strings.Contains(string(text), "echoer says hi") {
				t.Errorf("answer %s", text)
			}
		}
		keys, err := svc.ListArtifactKeys(ctx, artifact.SessionInfo{AppName: "app", UserID: "user", SessionID: "s1"})
		if err != nil || len(keys) != 1 || keys[0] != "out/a.txt" {
			t.Errorf("artifacts %v, %v", keys, err)
		}
		// What a model may not name.
		_, err = run.Call(ctx, []byte(`{"skill":"echoer","command":"true","inputs":[{"from":"host:///etc/passwd"}]}`))
		if fault.Of(err) != fault.PermissionDenied {
			t.Errorf("host:// from a model: %v, want PermissionDenied", err)
		}
	})
}

// A symlink that leads nowhere or outside, and a pattern that is not valid or leaves the
// workspace, cost the model neither the output of the program nor other files.
func TestTheirSkillRunWithWhatIsSkipped(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		root := t.TempDir()
		must(t, os.Mkdir(filepath.Join(root, "linker"), 0o755))
		must(t, os.WriteFile(filepath.Join(root, "linker/SKILL.md"), []byte("---\nname: linker\ndescription: links\n---\nbody\n"), 0o644))
		repo, err := skill.NewFSRepository(root)
		must(t, err)
		run := toolskill.NewRunTool(repo, e)
		ctx := invocation(t.Context(), inmemory.NewService())
		dangling, outward := "ln -sf nowhere out/skipped", `s=$(printf '\057'); ln -sf "${s}etc${s}hostname" out/skipped`
		for _, test := range []struct {
			prepare string
			args    map[string]any
			told    string // "" if the answer can't name it
		}{
			{dangling, map[string]any{"output_files": []string{"out/*"}}, "out/skipped: "},
			{outward, map[string]any{"output_files": []string{"out/*"}}, "out/skipped: "},
			{"true", map[string]any{"output_files": []string{"../x", "out/*.txt"}}, "../x: "},
			{"true", map[string]any{"output_files": []string{"$NO/x", "out/[a", "out/*.txt"}}, "out/[a: "},
			{"true", map[string]any{"outputs": map[string]any{"globs": []string{"../x", "out/a.txt"}, "inline": true}}, "../x: "},
			{dangling, map[string]any{"outputs": map[string]any{"globs": []string{"out/*"}, "inline": true}}, "out/skipped: "},
			{outward, map[string]any{"outputs": map[string]any{"globs": []string{"out/*"}, "save": true}}, ""},
		} {
			test.args["skill"], test.args["command"] = "linker", "rm -f out/*; "+test.prepare+"; echo hi > out/a.txt; echo ran"
			out := call(ctx, t, run, test.args)
			text, _ := json.Marshal(out)
			if out["stdout"] != "ran\n" || !strings.Contains(string(text), "out/a.txt") {
				t.Errorf("%v: answer %s", test.args, text)
			}
			if test.told != "" && (!strings.Contains(string(text), test.told) || strings.Contains(string(text), "metadata could not be updated")) {
				t.Errorf("%v: the answer does not tell %q and why: %s", test.args, test.told, text)
			}
			if first, ok := out["primary_output"].(map[string]any); ok && first["name"] != "out/a.txt" {
				t.Errorf("%v: the main output is %v", test.args, first["name"])
			}
		}
	})
}

func TestTheirWrappers(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		wrapped, err := codeexecutor.NewWorkspaceInitExecutor(
			codeexecutor.NewEnvInjectingCodeExecutor(e, func(context.Context) map[string]string {
				return map[string]string{"GREETING": "injected", "KEPT": "no"}
			}),
			codeexecutor.NewWorkspaceInitHook(codeexecutor.WorkspaceInitSpec{Commands: []codeexecutor.WorkspaceInitCommand{{Cmd: "sh", Args: []string{"-c", "echo init $GREETING > work/init"}}}}),
		)
		must(t, err)
		eng := wrapped.(codeexecutor.EngineProvider).Engine()
		reg := codeexecutor.NewWorkspaceRegistry()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := reg.Acquire(t.Context(), eng.Manager(), "one"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		ws, err := reg.Acquire(t.Context(), eng.Manager(), "one")
		must(t, err)
		res, err := eng.Runner().RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", "cat work/init; echo $GREETING $KEPT"}, Env: map[string]string{"KEPT": "yes"}})
		if err != nil || res.Stdout != "init injected\ninjected yes\n" {
			t.Errorf("%+v, %v", res, err)
		}
		must(t, eng.Manager().Cleanup(t.Context(), ws))
		if _, err := eng.Runner().RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "true"}); !errors.Is(err, codeexecutor.ErrWorkspaceStale) {
			t.Errorf("after Cleanup: %v, want ErrWorkspaceStale", err)
		}
	})
}

func TestRunProgram(t *testing.T) {
	t.Setenv("HOST_SECRET", "s3cret")
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ctx := t.Context()
		ws, err := e.CreateWorkspace(ctx, strings.Repeat("long/../id ", 40), codeexecutor.WorkspacePolicy{})
		must(t, err)
		run := func(spec codeexecutor.RunProgramSpec) codeexecutor.RunResult {
			t.Helper()
			res, err := e.RunProgram(ctx, ws, spec)
			must(t, err)
			return res
		}
		sh := func(script string) codeexecutor.RunProgramSpec {
			return codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", script}}
		}
		if res := run(sh(`echo "[$HOST_SECRET]"; echo err >&2; [ -d "$RUN_DIR" ] && cd "$WORKSPACE_DIR" && exit 4`)); res.Stdout != "[]\n" || res.Stderr != "err\n" || res.ExitCode != 4 {
			t.Errorf("%+v", res)
		}
		spec := sh("sleep 1000 & sleep 1000; true")
		spec.Timeout = 200 * time.Millisecond
		if res := run(spec); !res.TimedOut || res.ExitCode == 0 || res.Duration > patience {
			t.Errorf("a time-out: %+v", res)
		}
		if res := run(sh("sleep 30 >/dev/null 2>&1 & echo started")); res.TimedOut || res.Stdout != "started\n" {
			t.Errorf("a child in the background: %+v", res)
		}
		if res := run(codeexecutor.RunProgramSpec{Cmd: "no-such-program"}); res.ExitCode != 127 || !strings.Contains(res.Stderr, "no-such-program") {
			t.Errorf("a missing program: %+v", res)
		}
		clean := codeexecutor.RunProgramSpec{Cmd: "env", CleanEnv: true, Env: map[string]string{"A": "b"}}
		if res := run(clean); !strings.Contains(res.Stdout, "A=b\n") || !strings.Contains(res.Stdout, "OUTPUT_DIR=") || !strings.Contains(res.Stdout, "PATH=/usr/local/bin") {
			t.Errorf("a clean environment: %s", res.Stdout)
		}
		if _, err := e.RunProgram(ctx, ws, codeexecutor.RunProgramSpec{Cmd: "true", Cwd: "../.."}); fault.Of(err) != fault.SandboxViolation {
			t.Errorf("a directory outside: %v, want SandboxViolation", err)
		}
		big := run(sh("head -c 33554432 /dev/zero"))
		if len(big.Stdout) > 9<<20 {
			t.Errorf("%d bytes of output came back", len(big.Stdout))
		}
	})
}

func TestPolicies(t *testing.T) {
	e := open(t, local.Kind, nil)
	if _, err := e.CreateWorkspace(t.Context(), "x", codeexecutor.WorkspacePolicy{Isolated: true}); fault.Of(err) == "" {
		t.Error("a provider without isolation gave an isolated workspace")
	}
	if _, err := e.CreateWorkspace(t.Context(), "x", codeexecutor.WorkspacePolicy{MaxDiskBytes: -1}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a negative limit: %v", err)
	}
	one, err := e.CreateWorkspace(t.Context(), "same", codeexecutor.WorkspacePolicy{})
	must(t, err)
	two, err := e.CreateWorkspace(t.Context(), "same", codeexecutor.WorkspacePolicy{})
	must(t, err)
	if one.Path == two.Path || one.ID == two.ID {
		t.Errorf("%+v and %+v are one", one, two)
	}
	victim := t.TempDir()
	must(t, e.Cleanup(t.Context(), codeexecutor.Workspace{ID: "unknown", Path: victim}))
	if _, err := os.Stat(victim); err != nil {
		t.Errorf("Cleanup removed what it did not make: %v", err)
	}
}

// TestKernelsKeepState: Python of one execution id runs in one kernel, other languages beside it.
func TestKernelsKeepState(t *testing.T) {
	testenv.NeedsJupyter(t)
	p, _ := testshell.NewProvider(t, local.Kind)
	e, err := trpcagent.New(t.Context(), p, &trpcagent.Options{Kernels: true})
	must(t, err)
	t.Cleanup(func() { must(t, e.Close(context.WithoutCancel(t.Context()))) })
	run := func(id string, blocks ...codeexecutor.CodeBlock) codeexecutor.CodeExecutionResult {
		t.Helper()
		res, err := e.ExecuteCode(t.Context(), codeexecutor.CodeExecutionInput{ExecutionID: id, CodeBlocks: blocks})
		must(t, err)
		return res
	}
	python := func(code string) codeexecutor.CodeBlock {
		return codeexecutor.CodeBlock{Language: "python", Code: code}
	}
	write := python("import os; x = 20; open(os.environ['OUTPUT_DIR'] + '/a', 'w').write('made')")
	read := codeexecutor.CodeBlock{Language: "bash", Code: "cat $OUTPUT_DIR/a"}
	if got := run("one", write, read); !strings.HasSuffix(got.Output, "made") || len(got.OutputFiles) != 1 {
		t.Errorf("Python, then bash: %+v", got)
	}
	if got := run("one", python("print('sum'); x + 22")); got.Output != "sum\n42\n" {
		t.Errorf("the next code of the same id wrote %q", got.Output)
	}
	if got := run("one", python("1/0"), python("print('later')")); !strings.Contains(got.Output, "ZeroDivisionError") || strings.Contains(got.Output, "later") {
		t.Errorf("an exception wrote %q", got.Output)
	}
	if got := run("two", python("print(x)")); !strings.Contains(got.Output, "NameError") {
		t.Errorf("another id has the state: %q", got.Output)
	}
}

// TestMaxDiskBytesIsSoft: where nothing enforces a limit of the disk, what would exceed it is
// not staged, and a run that exceeds it says so.
func TestMaxDiskBytesIsSoft(t *testing.T) {
	for name, opts := range map[string]*trpcagent.Options{local.Kind: nil, sandbox.Kind: {WorkDir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			e := open(t, name, opts)
			ws, err := e.CreateWorkspace(t.Context(), "x", codeexecutor.WorkspacePolicy{MaxDiskBytes: 1000})
			must(t, err)
			file := func(name string, size int) []codeexecutor.PutFile {
				return []codeexecutor.PutFile{{Path: name, Content: make([]byte, size)}}
			}
			host := t.TempDir()
			must(t, os.WriteFile(filepath.Join(host, "large"), make([]byte, 500), 0o600))
			must(t, e.PutFiles(t.Context(), ws, file("work/a", 600)))
			refused := map[string]error{
				"files":       e.PutFiles(t.Context(), ws, file("work/b", 600)),
				"a directory": e.StageDirectory(t.Context(), ws, host, "work/dir", codeexecutor.StageOptions{}),
			}
			run := func(script string) codeexecutor.RunResult {
				res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", script}})
				must(t, err)
				return res
			}
			if res := run("ls work"); res.Stdout != "a\ninputs\n" && res.Stdout != "a\n" || res.Stderr != "" {
				t.Errorf("after what was refused: %+v", res)
			}
			if res := run("head -c 2000 /dev/zero > out/b"); res.ExitCode != 0 || !strings.Contains(res.Stderr, "2600 bytes, more than MaxDiskBytes, 1000") {
				t.Errorf("beyond the limit: %+v", res)
			}
			refused["inputs"] = e.StageInputs(t.Context(), ws, []codeexecutor.InputSpec{{From: "workspace://work/a", To: "work/c"}})
			for what, err := range refused {
				if fault.Of(err) != fault.ResourceExhausted {
					t.Errorf("%s: %v, want ResourceExhausted", what, err)
				}
			}
			if res := run("rm out/b"); res.Stderr != "" {
				t.Errorf("below the limit again: %+v", res)
			}
			must(t, e.PutFiles(t.Context(), ws, file("work/b", 400)))
		})
	}
}

// isolatedProvider has a level of isolation, and records which one is asked for.
type isolatedProvider struct {
	driver.Provider
	asked []driver.Isolation
}

func (p *isolatedProvider) Probe(ctx context.Context) (driver.Traits, error) {
	traits, err := p.Provider.Probe(ctx)
	traits.Isolation = driver.IsolationNamespaces
	return traits, err
}

func (p *isolatedProvider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	p.asked = append(p.asked, spec.Policy.Isolation)
	spec.Policy.Isolation = ""
	return p.Provider.Open(ctx, spec)
}

// TestAttackIsolatedDoesNotLowerTheLevel: a workspace that must be isolated has at least
// the level that the provider gives without being asked.
func TestAttackIsolatedDoesNotLowerTheLevel(t *testing.T) {
	testenv.ReportAttack(t, "Isolated lowers the level of isolation", "trpc-agent-go", testenv.Prevented, "")
	plain, _ := testshell.NewProvider(t, local.Kind)
	p := &isolatedProvider{Provider: plain}
	e, err := trpcagent.New(t.Context(), p, nil)
	must(t, err)
	ws, err := e.CreateWorkspace(t.Context(), "x", codeexecutor.WorkspacePolicy{Isolated: true})
	must(t, err)
	must(t, e.Cleanup(t.Context(), ws))
	must(t, e.Close(context.WithoutCancel(t.Context())))
	if len(p.asked) != 1 || p.asked[0].Rank() < driver.IsolationNamespaces.Rank() {
		t.Errorf("asked for %q, want %q", p.asked, driver.IsolationNamespaces)
	}
}

func TestExecuteCode(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		in := codeexecutor.CodeExecutionInput{ExecutionID: "a", CodeBlocks: []codeexecutor.CodeBlock{
			{Language: "bash", Code: "echo one; echo result > $OUTPUT_DIR/r.txt"}, {Language: `python title="x"`, Code: "print('two')"},
			{Language: "sh", Code: "exit 3"}, {Language: "sh", Code: "echo never"},
		}}
		res, err := e.ExecuteCode(t.Context(), in)
		must(t, err)
		if res.Output != "one\ntwo\n\n[exit status 3]\n" || len(res.OutputFiles) != 1 || res.OutputFiles[0].Content != "result\n" {
			t.Errorf("%+v", res)
		}
		again, err := e.ExecuteCode(t.Context(), codeexecutor.CodeExecutionInput{ExecutionID: "a", CodeBlocks: []codeexecutor.CodeBlock{{Language: "bash", Code: "cat ../out/r.txt"}}})
		if err != nil || again.Output != "result\n" {
			t.Errorf("%+v, %v", again, err)
		}
		if _, err := e.ExecuteCode(t.Context(), codeexecutor.CodeExecutionInput{CodeBlocks: []codeexecutor.CodeBlock{{Language: "cobol"}}}); fault.Of(err) != fault.Unsupported {
			t.Errorf("another language: %v", err)
		}
	})
}

func TestMain(m *testing.M) { testshell.Main(m) }
