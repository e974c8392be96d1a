// Command bench measures this module beside trpc-agent-go's own local engine, in
// one run and in turns, and prints ratios: the family "stage" of Croft's
// benchmarks, which lives here because of what it imports.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"
	theirs "trpc.group/trpc-go/trpc-agent-go/codeexecutor/local"

	"github.com/croft-run/croft/contrib/trpcagent"
	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A row is one comparison, as those of Croft's bench.
type row struct {
	Family string  `json:"family"`
	Name   string  `json:"name"`
	OursNS int64   `json:"ours_ns"`
	Ref    string  `json:"ref"`
	RefNS  int64   `json:"ref_ns"`
	Ratio  float64 `json:"ratio"`
	N      int     `json:"n"`
	Bound  float64 `json:"bound,omitempty"`
	Most   int64   `json:"most,omitempty"`
	Unit   string  `json:"unit,omitempty"` // "" is nanoseconds
}

func main() {
	out := flag.String("o", "", "write the rows as JSON to this file")
	n := flag.Int("n", 7, "turns")
	only := flag.String("only", "", "one of create, collect, stage, shared, run, line and noop; all where it is empty")
	flag.Parse()
	rows, err := run(context.Background(), *n, *only)
	for _, r := range rows {
		missed := ""
		if r.Bound > 0 && r.Ratio > r.Bound || r.Most > 0 && r.OursNS > r.Most {
			missed = " MISSED"
		}
		if r.Unit == "bytes" {
			fmt.Printf("%-44s ours %.1f MiB%s\n", r.Name, float64(r.OursNS)/(1<<20), missed)
			continue
		}
		fmt.Printf("%-44s ours %12v  %s %12v  ratio %.3f%s\n", r.Name, time.Duration(r.OursNS), r.Ref, time.Duration(r.RefNS), r.Ratio, missed)
	}
	if data, jerr := json.MarshalIndent(rows, "", "  "); err == nil && jerr == nil && *out != "" {
		err = os.WriteFile(*out, append(data, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type engines struct {
	ours, ref codeexecutor.Engine
	exec      *trpcagent.Executor
	dir       string
	n         int
	rows      []row
}

func run(ctx context.Context, n int, only string) (rows []row, err error) {
	dir, err := os.MkdirTemp("", "croft-bench-stage-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p, err := local.New(&local.Config{Root: filepath.Join(dir, "ours")})
	if err != nil {
		return nil, err
	}
	exec, err := trpcagent.New(ctx, p, nil)
	if err != nil {
		return nil, err
	}
	defer exec.Close(ctx)
	e := &engines{ours: exec, exec: exec, ref: theirs.New(theirs.WithWorkDir(filepath.Join(dir, "ref"))).Engine(), dir: dir, n: n}
	if err := os.MkdirAll(filepath.Join(dir, "ref"), 0o755); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"create", e.benchCreate}, {"collect", e.benchCollect}, {"stage", e.benchStage}, {"shared", e.benchStageShared}, {"run", e.benchRunTrue}, {"line", e.benchLongLine}, {"noop", e.benchNoop},
	} {
		if only != "" && only != part.name {
			continue
		}
		syncAndCollect()
		if err := part.run(ctx); err != nil {
			return e.rows, err
		}
	}
	return e.rows, nil
}

// syncAndCollect writes dirty pages and runs the garbage collector, so that work of the
// last part does not slow down short calls of the next.
func syncAndCollect() {
	syscall.Sync()
	runtime.GC()
}

// compareSides runs both sides alternating and adds the row of their medians.
func (e *engines) compareSides(name string, bound float64, ours, ref func() error) error {
	return e.compareTurns(e.n, name, bound, ours, ref)
}

// shortCallFactor multiplies the turns of rows that take milliseconds, which are noisier.
const shortCallFactor = 10

func (e *engines) compareTurns(n int, name string, bound float64, ours, ref func() error) error {
	var a, b []time.Duration
	for i := range n + 1 {
		for _, side := range []struct {
			f    func() error
			into *[]time.Duration
		}{{ours, &a}, {ref, &b}} {
			start := time.Now()
			if err := side.f(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if i > 0 { // the first warms
				*side.into = append(*side.into, time.Since(start))
			}
		}
	}
	r := row{Family: "stage", Name: name, OursNS: median(a), Ref: "trpc local", RefNS: median(b), N: n, Bound: bound}
	r.Ratio = float64(r.OursNS) / float64(max(r.RefNS, 1))
	e.rows = append(e.rows, r)
	return nil
}

func median(d []time.Duration) int64 {
	slices.Sort(d)
	return int64(d[len(d)/2])
}

// createBoth makes a workspace on each side.
func (e *engines) createBoth(ctx context.Context, id string) (ours, ref codeexecutor.Workspace, err error) {
	if ours, err = e.ours.Manager().CreateWorkspace(ctx, id, codeexecutor.WorkspacePolicy{}); err == nil {
		ref, err = e.ref.Manager().CreateWorkspace(ctx, id, codeexecutor.WorkspacePolicy{})
	}
	return ours, ref, err
}

func (e *engines) benchCreate(ctx context.Context) error {
	cycle := func(m codeexecutor.WorkspaceManager) func() error {
		return func() error {
			for range 20 {
				ws, err := m.CreateWorkspace(ctx, "c", codeexecutor.WorkspacePolicy{})
				if err != nil {
					return err
				}
				if err := m.Cleanup(ctx, ws); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return e.compareTurns(shortCallFactor*e.n, "create and cleanup, 20 times", 2, cycle(e.ours.Manager()), cycle(e.ref.Manager()))
}

func (e *engines) benchCollect(ctx context.Context) error {
	ours, ref, err := e.createBoth(ctx, "collect")
	if err != nil {
		return err
	}
	var files []codeexecutor.PutFile
	for i := range 1000 {
		files = append(files, codeexecutor.PutFile{Path: fmt.Sprintf("out/f%04d.txt", i), Content: make([]byte, 1024)})
	}
	take := func(eng codeexecutor.Engine, ws codeexecutor.Workspace) func() error {
		return func() error {
			man, err := eng.FS().CollectOutputs(ctx, ws, codeexecutor.OutputSpec{Globs: []string{"out/**"}, MaxFiles: 2000, Inline: true})
			if err == nil && len(man.Files) != len(files) {
				err = fmt.Errorf("%d files", len(man.Files))
			}
			return err
		}
	}
	if err := e.ours.FS().PutFiles(ctx, ours, files); err != nil {
		return err
	}
	if err := e.ref.FS().PutFiles(ctx, ref, files); err != nil {
		return err
	}
	if err := e.compareSides("CollectOutputs of 1,000 x 1 KiB", 0.05, take(e.ours, ours), take(e.ref, ref)); err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := take(e.ours, ours)(); err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	e.rows = append(e.rows, row{Family: "stage", Name: "CollectOutputs, allocated", Unit: "bytes", OursNS: int64(after.TotalAlloc - before.TotalAlloc), Ref: "-", Ratio: 1, N: 1, Most: 20 << 20})
	return nil
}

// makeSource makes a directory with 5,000 files of 2 KiB.
func (e *engines) makeSource() (string, error) {
	src := filepath.Join(e.dir, "src")
	if _, err := os.Stat(src); err == nil {
		return src, nil
	}
	for i := range 5000 {
		name := filepath.Join(src, fmt.Sprintf("d%03d", i/50), fmt.Sprintf("f%d", i))
		if i%50 == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return "", err
			}
		}
		if err := os.WriteFile(name, make([]byte, 2048), 0o644); err != nil {
			return "", err
		}
	}
	return src, nil
}

// stageSource stages the source, each time to another directory.
func (e *engines) stageSource(ctx context.Context, eng codeexecutor.Engine, ws codeexecutor.Workspace, src string) func() error {
	turn := 0
	return func() error {
		turn++
		return eng.FS().StageDirectory(ctx, ws, src, fmt.Sprintf("work/s%d", turn), codeexecutor.StageOptions{AllowMount: true})
	}
}

func (e *engines) benchStage(ctx context.Context) error {
	src, err := e.makeSource()
	if err != nil {
		return err
	}
	ours, ref, err := e.createBoth(ctx, "stage")
	if err != nil {
		return err
	}
	return e.compareSides("StageDirectory of 5,000 files, copied", 0.82, e.stageSource(ctx, e.ours, ours, src), e.stageSource(ctx, e.ref, ref, src))
}

// benchStageShared stages in a sandbox by an overlayfs mount, copy-on-write.
func (e *engines) benchStageShared(ctx context.Context) error {
	src, err := e.makeSource()
	if err != nil {
		return err
	}
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(e.dir, "sandbox")})
	if err != nil {
		return err
	}
	defer p.Close()
	exec, err := trpcagent.New(ctx, p, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "no sandbox here:", err)
		return nil
	}
	defer exec.Close(ctx)
	ours, err := exec.CreateWorkspace(ctx, "shared", codeexecutor.WorkspacePolicy{})
	if err != nil {
		return err
	}
	if err := e.checkMount(ctx, exec, ours, src); err != nil {
		fmt.Fprintln(os.Stderr, "no mounts in sandboxes here:", err)
		return nil
	}
	ref, err := e.ref.Manager().CreateWorkspace(ctx, "shared", codeexecutor.WorkspacePolicy{})
	if err != nil {
		return err
	}
	return e.compareSides("StageDirectory of 5,000 files, copy-on-write", 0.2, e.stageSource(ctx, exec, ours, src), e.stageSource(ctx, e.ref, ref, src))
}

// checkMount checks that a mount is measured.
func (e *engines) checkMount(ctx context.Context, exec *trpcagent.Executor, ws codeexecutor.Workspace, src string) error {
	w, err := exec.Workspace(ws)
	if err != nil {
		return err
	}
	res, err := w.Import(ctx, src, "s0", &workspace.ImportOptions{Mount: true})
	if err == nil && res.Method != driver.ImportMount {
		err = fmt.Errorf("it was done by %s", res.Method)
	}
	return err
}

func (e *engines) benchRunTrue(ctx context.Context) error {
	ours, ref, err := e.createBoth(ctx, "run")
	if err != nil {
		return err
	}
	prog := func(eng codeexecutor.Engine, ws codeexecutor.Workspace) func() error {
		return func() error {
			for range 20 {
				if _, err := eng.Runner().RunProgram(ctx, ws, codeexecutor.RunProgramSpec{Cmd: "true"}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return e.compareTurns(shortCallFactor*e.n, "RunProgram true, 20 times", 2.5, prog(e.ours, ours), prog(e.ref, ref))
}

// benchLongLine measures ours alone: the reference takes more than ten seconds.
func (e *engines) benchLongLine(ctx context.Context) error {
	ws, err := e.ours.Manager().CreateWorkspace(ctx, "line", codeexecutor.WorkspacePolicy{})
	if err != nil {
		return err
	}
	var took []time.Duration
	for range 3 {
		start := time.Now()
		s, err := e.exec.StartProgram(ctx, ws, codeexecutor.InteractiveProgramSpec{RunProgramSpec: codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", "head -c 16777216 /dev/zero"}}})
		if err != nil {
			return err
		}
		for s.Poll(nil).Status == codeexecutor.ProgramStatusRunning {
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Since(start))
		if err := s.Close(); err != nil {
			return err
		}
	}
	e.rows = append(e.rows, row{Family: "stage", Name: "a session's line of 16 MiB", OursNS: median(took), Ref: "-", Ratio: 1, N: 3, Most: int64(time.Second)})
	return nil
}

func (e *engines) benchNoop(ctx context.Context) error {
	dir := filepath.Join(e.dir, "skill")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range 500 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), make([]byte, 1024), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("x"), 0o644); err != nil {
		return err
	}
	ws, err := e.ours.Manager().CreateWorkspace(ctx, "noop", codeexecutor.WorkspacePolicy{})
	if err != nil {
		return err
	}
	w, err := e.exec.Workspace(ws)
	if err != nil {
		return err
	}
	state, err := stage.NewDirState(filepath.Join(e.dir, "state"))
	if err != nil {
		return err
	}
	st, err := stage.New(w, &stage.Options{State: state})
	if err != nil {
		return err
	}
	spec := bootstrap.Spec{Skills: []bootstrap.Skill{{Name: "s", Dir: dir}}}
	r := bootstrap.New(st, nil)
	var took []time.Duration
	for range 50 {
		start := time.Now()
		if _, err := r.Apply(ctx, spec); err != nil {
			return err
		}
		took = append(took, time.Since(start))
	}
	const most = 3300 * time.Microsecond
	e.rows = append(e.rows, row{Family: "stage", Name: "no-op reconcile, a skill of 500 files", OursNS: median(took), Ref: "-", Ratio: 1, N: len(took), Most: int64(most)})
	return nil
}
