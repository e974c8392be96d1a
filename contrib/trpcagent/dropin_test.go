package trpcagent_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/artifact"
	"trpc.group/trpc-go/trpc-agent-go/artifact/inmemory"
	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"
	"trpc.group/trpc-go/trpc-agent-go/tool/workspaceexec"

	"github.com/croft-run/croft/contrib/trpcagent"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// sh runs a script.
func sh(t *testing.T, e *trpcagent.Executor, ws codeexecutor.Workspace, script string) codeexecutor.RunResult {
	t.Helper()
	res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", script}})
	must(t, err)
	return res
}

func TestPathIsUniqueAndOnTheHost(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		one, two := create(t, e), create(t, e)
		if one.Path == two.Path {
			t.Errorf("two workspaces have the path %s", one.Path)
		}
		if res := sh(t, e, one, "echo from inside > work/f; pwd"); res.Stdout != one.Path+"\n" {
			t.Errorf("inside it is %q, want %s", res.Stdout, one.Path)
		}
		if data, err := os.ReadFile(filepath.Join(one.Path, "work/f")); err != nil || string(data) != "from inside\n" {
			t.Errorf("on the host: %q, %v", data, err)
		}
	})
}

// TestSessionsBootstrapAtOnce: trpc-agent-go locks by Path, so sessions with a slow
// bootstrap must not have the same.
func TestSessionsBootstrapAtOnce(t *testing.T) {
	e := open(t, sandbox.Kind, nil)
	const sessions, each = 4, 3 * time.Second
	start := time.Now()
	var wg sync.WaitGroup
	for range sessions {
		wg.Go(func() {
			tool := workspaceexec.NewExecTool(e, workspaceexec.WithWorkspaceBootstrap(codeexecutor.WorkspaceBootstrapSpec{
				Commands: []codeexecutor.WorkspaceCommand{{Cmd: "sleep", Args: []string{strconv.Itoa(int(each.Seconds()))}, MarkerPath: "work/.done"}},
			}))
			if _, err := tool.Call(t.Context(), []byte(`{"command": "true"}`)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(start); took > (sessions-1)*each+each/2 {
		t.Errorf("%d sessions took %v, one after the other", sessions, took)
	}
}

func TestDeadGuestCostsNoFiles(t *testing.T) {
	e := open(t, local.Kind, nil)
	ws := create(t, e)
	guest, err := strconv.Atoi(strings.TrimSpace(sh(t, e, ws, "echo kept > work/f; echo $PPID").Stdout))
	must(t, err)
	go func() {
		time.Sleep(300 * time.Millisecond)
		_ = syscall.Kill(guest, syscall.SIGKILL) // the checks below show whether it died
	}()
	res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "sleep", Args: []string{"20"}})
	if text := res.Stderr + errorText(err); !strings.Contains(text, "guest") {
		t.Errorf("the command under way: %+v, %v; want the cause in words", res, err)
	}
	if errors.Is(err, codeexecutor.ErrWorkspaceStale) {
		t.Errorf("the workspace is stale: %v", err)
	}
	if res := sh(t, e, ws, "cat work/f"); res.Stdout != "kept\n" {
		t.Errorf("after the death of the guest: %+v", res)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestOldHandleIsStale(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		old, err := e.CreateWorkspace(t.Context(), "same", codeexecutor.WorkspacePolicy{})
		must(t, err)
		must(t, e.Cleanup(t.Context(), old))
		now, err := e.CreateWorkspace(t.Context(), "same", codeexecutor.WorkspacePolicy{})
		must(t, err)
		sh(t, e, now, "echo new > work/f")
		if _, err := e.RunProgram(t.Context(), old, codeexecutor.RunProgramSpec{Cmd: "true"}); !errors.Is(err, codeexecutor.ErrWorkspaceStale) {
			t.Errorf("RunProgram with the old handle: %v, want ErrWorkspaceStale", err)
		}
		must(t, e.Cleanup(t.Context(), old))
		if res := sh(t, e, now, "cat work/f"); res.Stdout != "new\n" {
			t.Errorf("the old handle ended the new workspace: %+v", res)
		}
	})
}

func TestRelativePATH(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		sh(t, e, ws, "mkdir -p work/bin; printf '#!/bin/sh\necho found' > work/bin/tool; chmod +x work/bin/tool")
		res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "tool", Cwd: "work", Env: map[string]string{"PATH": "bin:/usr/bin:/bin"}})
		if err != nil || res.Stdout != "found\n" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestInjectedVariablesReachTheProgram(t *testing.T) {
	unconfined, err := local.New(&local.Config{Root: t.TempDir(), Guest: testshell.Guest(t), AllowEnv: []string{"*_API_KEY"}})
	must(t, err)
	confined, _ := testshell.NewProvider(t, sandbox.Kind)
	for _, p := range []driver.Provider{unconfined, confined} {
		exec, err := trpcagent.New(t.Context(), p, nil)
		must(t, err)
		e := codeexecutor.NewEnvInjectingEngine(exec, func(context.Context) map[string]string { return map[string]string{"MY_API_KEY": "k3y"} })
		ws, err := e.Manager().CreateWorkspace(t.Context(), "x", codeexecutor.WorkspacePolicy{})
		must(t, err)
		res, err := e.Runner().RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "printenv", Args: []string{"MY_API_KEY"}})
		if err != nil || res.Stdout != "k3y\n" {
			t.Errorf("%s: %+v, %v", p.Kind(), res, err)
		}
		must(t, exec.Close(t.Context()))
	}
}

func TestMetadataHasInputsAndOutputs(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		sh(t, e, ws, "echo x > work/x; cp work/x out/x")
		must(t, e.StageInputs(t.Context(), ws, []codeexecutor.InputSpec{{From: "workspace://work/x", To: "work/inputs/x"}}))
		_, err := e.CollectOutputs(t.Context(), ws, codeexecutor.OutputSpec{Globs: []string{"out/*"}})
		must(t, err)
		m, err := codeexecutor.LoadMetadata(ws.Path)
		if err != nil || len(m.Inputs) != 1 || m.Inputs[0].To != "work/inputs/x" || len(m.Outputs) != 1 {
			t.Errorf("metadata.json: %+v, %v", m, err)
		}
		must(t, os.WriteFile(filepath.Join(ws.Path, codeexecutor.MetadataTempFileName()), []byte("x"), 0o644))
		files, err := e.Collect(t.Context(), ws, []string{"*", ".*"})
		if err != nil || len(files) != 1 || files[0].Name != codeexecutor.MetaFileName {
			t.Errorf("Collect = %+v, %v; want %s alone", files, err, codeexecutor.MetaFileName)
		}
	})
}

// brokenArtifacts is an artifact service with a full disk.
type brokenArtifacts struct{ artifact.Service }

var errDiskFull = errors.New("disk says no")

func (brokenArtifacts) SaveArtifact(context.Context, artifact.SessionInfo, string, *artifact.Artifact) (int, error) {
	return 0, errDiskFull
}

func TestFailedSaveIsAnError(t *testing.T) {
	e := open(t, local.Kind, nil)
	ws := create(t, e)
	sh(t, e, ws, "echo x > out/x")
	ctx := codeexecutor.WithArtifactService(t.Context(), brokenArtifacts{inmemory.NewService()})
	_, err := e.CollectOutputs(ctx, ws, codeexecutor.OutputSpec{Globs: []string{"out/*"}, Save: true})
	if !errors.Is(err, errDiskFull) || errors.Is(err, codeexecutor.ErrPartialOutputCommit) {
		t.Errorf("CollectOutputs = %v; want the cause, and not what trpc-agent-go's tools take for success", err)
	}
}

func TestPersistFindsTheWorkspaceAgain(t *testing.T) {
	for _, kind := range testshell.Shells {
		t.Run(kind, func(t *testing.T) {
			p, host := testshell.NewProvider(t, kind)
			svc := inmemory.NewService()
			ctx := codeexecutor.WithArtifactService(t.Context(), svc)
			save := func(text string) {
				_, err := svc.SaveArtifact(ctx, artifact.SessionInfo{}, "a", &artifact.Artifact{Data: []byte(text)})
				must(t, err)
			}
			save("first")
			var handles []codeexecutor.Workspace
			for i := range 2 {
				state, err := stage.NewDirState(filepath.Join(host, "state"))
				must(t, err)
				e, err := trpcagent.New(ctx, p, &trpcagent.Options{Persist: true, State: state})
				must(t, err)
				ws, err := e.CreateWorkspace(ctx, "session", codeexecutor.WorkspacePolicy{})
				must(t, err)
				handles = append(handles, ws)
				must(t, e.StageInputs(ctx, ws, []codeexecutor.InputSpec{{From: "artifact://a", To: "work/a", Pin: true}}))
				if res := sh(t, e, ws, "cat work/a; echo x >> work/n; wc -l < work/n"); strings.TrimSpace(res.Stdout) != "first"+strconv.Itoa(i+1) {
					t.Errorf("process %d: %q", i+1, res.Stdout)
				}
				must(t, e.Cleanup(ctx, ws))
				must(t, e.Close(ctx))
				save("second")
				if i == 1 {
					must(t, e.Destroy(ctx, "session"))
				}
			}
			if _, err := os.Stat(handles[0].Path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Destroy: %v", err)
			}
		})
	}
}

func TestMemoryLimitOfOneRun(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		spec := codeexecutor.RunProgramSpec{Cmd: "python3", Args: []string{"-c", "x = bytearray(300 << 20); print('got it')"}, Timeout: time.Minute}
		if res, err := e.RunProgram(t.Context(), ws, spec); err != nil || res.Stdout != "got it\n" {
			t.Errorf("without a limit: %+v, %v", res, err)
		}
		spec.Limits.MemoryMB = 64
		if res, err := e.RunProgram(t.Context(), ws, spec); err != nil || res.ExitCode == 0 || strings.Contains(res.Stdout, "got it") {
			t.Errorf("with a limit of 64 MB: %+v, %v", res, err)
		}
	})
}

func TestRunSaysHowItEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		time.AfterFunc(500*time.Millisecond, func() { _ = e.Cleanup(context.WithoutCancel(t.Context()), ws) })
		res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "sleep", Args: []string{"30"}})
		if !errors.Is(err, codeexecutor.ErrWorkspaceStale) || codeexecutor.IsWorkspaceRetrySafe(err) || res.ExitCode == 127 {
			t.Errorf("cleaned up meanwhile: %+v, %v; want ErrWorkspaceStale that can't be repeated", res, err)
		}
		ws = create(t, e)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		res, err = e.RunProgram(ctx, ws, codeexecutor.RunProgramSpec{Cmd: "sleep", Args: []string{"30"}})
		if !errors.Is(err, context.DeadlineExceeded) || res.ExitCode == 127 {
			t.Errorf("cancelled: %+v, %v", res, err)
		}
	})
}

func TestCodeClosesWhenIdle(t *testing.T) {
	p, err := local.New(&local.Config{Root: t.TempDir(), Guest: testshell.Guest(t), Lease: 100 * time.Millisecond})
	must(t, err)
	e, err := trpcagent.New(t.Context(), p, &trpcagent.Options{CodeIdle: 100 * time.Millisecond})
	must(t, err)
	code := func(script string) string {
		res, err := e.ExecuteCode(t.Context(), codeexecutor.CodeExecutionInput{ExecutionID: "a", CodeBlocks: []codeexecutor.CodeBlock{{Language: "sh", Code: script}}})
		must(t, err)
		return strings.TrimSpace(res.Output)
	}
	guest := code("echo kept > f; echo $PPID")
	deadline := time.Now().Add(patience)
	for isRunning(guest) && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	if isRunning(guest) {
		t.Errorf("the guest %s still runs", guest)
	}
	if got := code("cat f"); got != "kept" {
		t.Errorf("afterwards the file has %q", got)
	}
	must(t, e.Close(t.Context()))
	if left, err := p.Features().HasWorkspaces(t.Context()); left || err != nil {
		t.Errorf("after Close: %v, %v", left, err)
	}
}

func TestCloseEndsCode(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		closed := make(chan error)
		time.AfterFunc(500*time.Millisecond, func() { closed <- e.Close(context.WithoutCancel(t.Context())) })
		start := time.Now()
		_, err := e.ExecuteCode(t.Context(), codeexecutor.CodeExecutionInput{ExecutionID: "a", CodeBlocks: []codeexecutor.CodeBlock{{Language: "sh", Code: "sleep 100"}}})
		if err == nil || time.Since(start) > patience {
			t.Errorf("code that Close ended: %v after %v", err, time.Since(start))
		}
		must(t, <-closed)
	})
}

// isRunning reports whether a process runs that is no zombie.
func isRunning(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(data), ") Z ")
}

func TestNewNamesTheMissingGuest(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("PATH", missing)
	p, err := local.New(&local.Config{Root: t.TempDir(), Guest: filepath.Join(missing, "croft-guest")})
	must(t, err)
	if _, err := trpcagent.New(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), "croft-guest") {
		t.Errorf("New = %v, want an error that names croft-guest", err)
	}
}

func TestDescribeTellsTheTruth(t *testing.T) {
	policy := driver.Policy{Network: driver.Network{Allow: []driver.NetRule{{Host: "example.com"}}}}
	if open(t, sandbox.Kind, nil).Describe().NetworkAllowed {
		t.Error("a sandbox without network says that it has one")
	}
	if !open(t, sandbox.Kind, &trpcagent.Options{Policy: policy}).Describe().NetworkAllowed {
		t.Error("a sandbox with an allowed host says that it has no network")
	}
	if open(t, sandbox.Kind, &trpcagent.Options{WorkDir: t.TempDir()}).Describe().ReadOnlyMount {
		t.Error("a sandbox in place says that it mounts directories")
	}
	if d := open(t, local.Kind, nil).Describe(); d.ReadOnlyMount || !d.NetworkAllowed {
		t.Errorf("local: %+v", d)
	}
}

func TestWorkDirAndInputs(t *testing.T) {
	for _, kind := range testshell.Shells {
		t.Run(kind, func(t *testing.T) {
			_, host := testshell.NewProvider(t, kind)
			inputs, work := filepath.Join(host, "in"), filepath.Join(host, "work")
			must(t, os.Mkdir(inputs, 0o755))
			must(t, os.WriteFile(filepath.Join(inputs, "a.txt"), []byte("input"), 0o644))
			delim := codeexecutor.CodeBlockDelimiter{Start: "<code>", End: "</code>"}
			e := open(t, kind, &trpcagent.Options{WorkDir: work, InputsDir: inputs, Delimiter: delim, ReadOnlySkills: true})
			if e.CodeBlockDelimiter() != delim {
				t.Errorf("delimiter %+v", e.CodeBlockDelimiter())
			}
			ws := create(t, e)
			if filepath.Dir(ws.Path) != work {
				t.Errorf("the workspace is %s, want it in %s", ws.Path, work)
			}
			if res := sh(t, e, ws, "cat work/inputs/a.txt"); res.Stdout != "input" {
				t.Errorf("the inputs: %+v", res)
			}
			must(t, e.StageDirectory(t.Context(), ws, inputs, "skills/s", codeexecutor.StageOptions{}))
			if info, err := os.Stat(filepath.Join(ws.Path, "skills/s/a.txt")); err != nil || info.Mode()&0o222 != 0 {
				t.Errorf("a skill is writable: %v, %v", info, err)
			}
			must(t, e.Cleanup(t.Context(), ws))
			if _, err := os.Stat(ws.Path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Cleanup: %v", err)
			}
			trusted := open(t, kind, &trpcagent.Options{WorkDir: work, TrustedLocal: true})
			ws = create(t, trusted)
			sh(t, trusted, ws, "echo mine > result")
			must(t, trusted.Cleanup(t.Context(), ws))
			if data, err := os.ReadFile(filepath.Join(work, "result")); ws.Path != work || err != nil || string(data) != "mine\n" {
				t.Errorf("%s has %q, %v", ws.Path, data, err)
			}
		})
	}
}

func TestNewSandbox(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(testshell.Guest(t))+":"+os.Getenv("PATH"))
	e, err := trpcagent.NewSandbox()
	if err != nil && strings.Contains(err.Error(), "probe") {
		t.Skipf("skipped: host: it lacks what the sandbox needs: %v", err)
	}
	must(t, err)
	ws := create(t, e)
	if res := sh(t, e, ws, "echo hi"); res.Stdout != "hi\n" {
		t.Errorf("%+v", res)
	}
	must(t, e.Close(t.Context()))
	if _, err := os.Stat(filepath.Dir(filepath.Dir(ws.Path))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close the directory of the workspaces is left: %v", err)
	}
}
