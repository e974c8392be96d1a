package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// benchEval compares croft eval with npm's skillgym: the same suite, the same stub agent,
// fresh workspaces from a template of 600 files. The number of runs is fixed, because a
// run of skillgym takes half a minute.
func benchEval(ctx context.Context, b *bench) error {
	e, err := newEvalBench(ctx, b)
	if err != nil || e == nil {
		return err
	}
	for _, schedule := range []string{"serial", "parallel"} {
		if err := e.addThroughput(ctx, b, schedule, evalBound); err != nil {
			return err
		}
	}
	if err := e.addStartUp(ctx, b); err != nil {
		return err
	}
	return e.addMemory(ctx, b)
}

const (
	evalBound     = 0.15 // of npm's skillgym
	evalCases     = 50
	evalTemplate  = 600       // files
	evalTurns     = 3         // of each, for whole runs
	evalStartMost = 250 * 1e6 // nanoseconds to the first agent
)

// An evalBench is a project with a suite, and the two programs.
type evalBench struct {
	dir, croft, npm string
	runs            int
}

const evalAgent = `#!/bin/sh
date +%s%N >&2
echo '{"type":"system","subtype":"init","session_id":"s1"}'
echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls -la"}}]}}'
echo '{"type":"result","result":"done","usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":2}}'
`

// evalSuite is a suite of n cases.
func evalSuite(n int) string {
	return `import { assert } from "skillgym";
export const workspace = { mode: "isolated", templateDir: "./template" };
export default Array.from({ length: ` + strconv.Itoa(n) + ` }, (_, i) => ({ id: "case-" + i, prompt: "hello", assert(r) { assert.commands.includes(r, "ls"); } }));
`
}

func newEvalBench(ctx context.Context, b *bench) (*evalBench, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	modules := filepath.Join(cache, "croft", "agents", "node_modules")
	e := &evalBench{npm: filepath.Join(modules, ".bin", "skillgym")}
	if _, err := os.Stat(e.npm); err != nil {
		fmt.Fprintln(b.log, "eval: no skillgym here to compare with; scripts/deps installs it")
		return nil, nil
	}
	if e.dir, err = b.tempDir(); err != nil {
		return nil, err
	}
	if _, err := buildGuest(ctx, e.dir); err != nil { // beside croft, where it is looked for
		return nil, err
	}
	e.croft = filepath.Join(e.dir, "croft")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", e.croft, "github.com/croft-run/croft/cmd/croft").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build croft: %w: %s", err, out)
	}
	project := filepath.Join(e.dir, "project")
	for i := range evalTemplate {
		name := filepath.Join(project, "template", fmt.Sprintf("d%d", i%30), fmt.Sprintf("f%d", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(name, make([]byte, 2048), 0o644); err != nil { // a template
			return nil, err
		}
	}
	for name, text := range map[string]string{
		"agent.sh": evalAgent, "one.mjs": evalSuite(1), "fifty.mjs": evalSuite(evalCases), "hundred.mjs": evalSuite(100), "thousand.mjs": evalSuite(1000),
		"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "claude-code", model: "m", command: "./agent.sh" } } } };` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o755); err != nil { // one is a program
			return nil, err
		}
	}
	return e, os.Symlink(modules, filepath.Join(project, "node_modules"))
}

// syncDisk writes dirty pages, so that neither side waits for writes of the other one.
func syncDisk() { syscall.Sync() }

// runSuite runs a suite with one of the programs and returns its output directory.
func (e *evalBench) runSuite(ctx context.Context, ours bool, suite string, args ...string) (out string, state *os.ProcessState, err error) {
	e.runs++
	out = filepath.Join(e.dir, fmt.Sprintf("out%d", e.runs))
	argv := []string{e.npm, "run"}
	if ours {
		argv = []string{e.croft, "eval", "run"}
	}
	argv = append(argv, suite, "--output-dir", out)
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	cmd.Dir = filepath.Join(e.dir, "project")
	cmd.Env = append(os.Environ(), "CROFT_DATA="+filepath.Join(e.dir, "data"))
	if said, err := cmd.CombinedOutput(); err != nil {
		return out, nil, fmt.Errorf("%v: %w: %s", argv, err, said)
	}
	return out, cmd.ProcessState, nil
}

// addThroughput adds a row of whole runs.
func (e *evalBench) addThroughput(ctx context.Context, b *bench, schedule string, bound float64) error {
	var a, r []time.Duration
	for range evalTurns {
		for _, ours := range []bool{true, false} { // ours writes a twentieth of the reference
			into := &r
			if ours {
				into = &a
			}
			syncDisk()
			start := time.Now()
			out, _, err := e.runSuite(ctx, ours, "fifty.mjs", "--schedule", schedule)
			if err != nil {
				return err
			}
			*into = append(*into, time.Since(start))
			if err := os.RemoveAll(out); err != nil {
				return err
			}
		}
	}
	row := Row{Family: b.family, Name: fmt.Sprintf("%d cases, template of %d files, %s", evalCases, evalTemplate, schedule), Ref: "npm skillgym", N: evalTurns, Bound: bound, OursNS: median(a), RefNS: median(r)}
	row.Ratio = float64(row.OursNS) / float64(row.RefNS)
	b.addRow(row)
	return nil
}

// addStartUp adds a row of the time until the first agent runs.
func (e *evalBench) addStartUp(ctx context.Context, b *bench) error {
	const turns = 5
	var a, r []time.Duration
	for range turns {
		for ours, into := range map[bool]*[]time.Duration{true: &a, false: &r} {
			syncDisk()
			start := time.Now()
			out, _, err := e.runSuite(ctx, ours, "one.mjs")
			if err != nil {
				return err
			}
			logs, err := filepath.Glob(filepath.Join(out, "*/case-0/*/repeat-1/stderr.log"))
			if err != nil || len(logs) != 1 {
				return fmt.Errorf("%d logs, %w", len(logs), err)
			}
			data, err := os.ReadFile(logs[0])
			if err != nil {
				return err
			}
			at, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
			if err != nil {
				return err
			}
			*into = append(*into, time.Unix(0, at).Sub(start))
		}
	}
	row := Row{Family: b.family, Name: "start of the program to the first agent", Ref: "npm skillgym", N: turns, OursNS: median(a), RefNS: median(r)}
	row.Ratio = float64(row.OursNS) / float64(row.RefNS)
	b.addRow(row)
	b.atMost(evalStartMost)
	return nil
}

// addMemory adds a row of the peak memory for many cases.
func (e *evalBench) addMemory(ctx context.Context, b *bench) error {
	most := map[string]int64{}
	for _, suite := range []string{"hundred.mjs", "thousand.mjs"} {
		_, state, err := e.runSuite(ctx, true, suite, "--schedule", "parallel")
		if err != nil {
			return err
		}
		usage, ok := state.SysUsage().(*syscall.Rusage)
		if !ok {
			return fmt.Errorf("the memory of a child is not known here")
		}
		most[suite] = usage.Maxrss << 10
	}
	row := Row{Family: b.family, Name: "memory for 1,000 cases", Ref: "for 100 cases", N: 1, Unit: bytesUnit, OursNS: most["thousand.mjs"], RefNS: most["hundred.mjs"], Bound: 1.5}
	row.Ratio = float64(row.OursNS) / float64(row.RefNS)
	b.addRow(row)
	return nil
}
