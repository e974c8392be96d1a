package trpcagent_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/contrib/trpcagent"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/provider/docker"
)

// TestContainers runs programs and code blocks in a container of Docker, with files
// that go in and come out.
func TestContainers(t *testing.T) {
	testenv.NeedsDocker(t)
	d, err := testenv.StartDockerd(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, d.Stop()) })
	p, err := docker.New(&docker.Config{Root: filepath.Join(t.TempDir(), "ws"), Host: d.Host(), Guest: testshell.Guest(t)})
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	e, err := trpcagent.New(t.Context(), p, nil)
	must(t, err)
	t.Cleanup(func() { must(t, e.Close(context.WithoutCancel(t.Context()))) })
	ws := create(t, e)
	must(t, e.PutFiles(t.Context(), ws, []codeexecutor.PutFile{{Path: "work/in.txt", Content: []byte("hello")}}))
	res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{
		Cmd: "sh", Args: []string{"-c", "tr a-z A-Z < work/in.txt | tee out/result.txt; id -un; cat /proc/sys/kernel/hostname"}, Timeout: time.Minute,
	})
	if err != nil || res.ExitCode != 0 || res.Stdout != "HELLOcroft\ncroft\n" {
		t.Errorf("RunProgram = %+v, %v", res, err)
	}
	files, err := e.Collect(t.Context(), ws, []string{"out/*.txt"})
	if err != nil || len(files) != 1 || files[0].Content != "HELLO" {
		t.Errorf("Collect = %+v, %v", files, err)
	}
	must(t, e.Cleanup(t.Context(), ws))
}
