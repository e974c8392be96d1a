package console

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/croft-run/croft/registry"
)

// EvalLabel marks the workspaces of evaluations with providers other than the
// sandbox. The next evaluation removes those of a crashed process.
const EvalLabel = "croft-eval"

// RunLabel marks the temporary workspaces of croft run, code and script. The next run
// removes those of a crashed process.
const RunLabel = "croft-run"

// runByLabel identifies the process of a run, so that the next run sees whether it
// was killed.
const runByLabel = "croft-run-by"

// RunLabels are the labels of a temporary workspace.
func RunLabels(a *Console) map[string]string {
	labels := map[string]string{RunLabel: "true"}
	if me := processIdentity("self"); me != "" && a.Server == "" {
		labels[runByLabel] = me
	}
	return labels
}

// processIdentity identifies a process by boot id, pid and start time, so that a
// reused pid differs. It is "" without /proc or without such a process.
func processIdentity(pid string) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	id, _, _ := strings.Cut(string(stat), " ")
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" { // a zombie
		return ""
	}
	return fmt.Sprintf("%.8s-%s-%s", boot, id, fields[19])
}

// isKilled reports whether mark identifies a process of this boot that has ended.
func isKilled(mark string) bool {
	me := strings.Split(processIdentity("self"), "-")
	it := strings.Split(mark, "-")
	return len(me) == 3 && len(it) == 3 && me[0] == it[0] && processIdentity(it[1]) != mark
}

// SweepRuns destroys the workspaces of killed runs, and returns their ids.
func (a *Console) SweepRuns(ctx context.Context) []string {
	ids, err := a.System.Discard(ctx, RunLabel, func(r registry.Record) bool { return isKilled(r.Labels[runByLabel]) })
	if err != nil {
		a.Note("croft: remove workspaces of earlier runs: %v", err)
	}
	return ids
}
