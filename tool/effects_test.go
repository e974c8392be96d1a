package tool_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-run/croft/tool"
)

// TestLateEffects has a linter that ends after the answer, and an effect that must see
// every edit.
func TestLateEffects(t *testing.T) {
	end := make(chan struct{})
	linted := make(chan struct{})
	lint := func(ctx context.Context, _ *tool.Call, paths []string) (string, error) {
		if !strings.HasSuffix(paths[0], ".go") {
			return "", nil
		}
		defer close(linted)
		select {
		case <-end:
			return paths[0] + ":1: undefined: x", nil
		case <-ctx.Done():
			return "stopped", nil
		}
	}
	var notified atomic.Int64
	notify := func(context.Context, *tool.Call, []string) (string, error) {
		notified.Add(1)
		return "", nil
	}
	env := newEnv(t, tool.Config{
		Tools: tool.Coding(), Workspaces: newSet(t, "w"), Effects: []tool.Effect{lint, notify}, EffectWait: 20 * time.Millisecond,
	})
	got := ok(t, env, "Write", `{"file_path":"f.go","content":"a\n"}`)
	if !strings.Contains(got, "the next answer about the file has their findings") || strings.Contains(got, "undefined") {
		t.Errorf("answer to the edit: %q, want one that announces the findings", got)
	}
	if notified.Load() != 1 {
		t.Errorf("the other effect ran %d times before the answer, want 1", notified.Load())
	}
	if got := ok(t, env, "Read", `{"file_path":"f.go"}`); strings.Contains(got, "undefined") {
		t.Errorf("answer before the linter ended: %q", got)
	}
	close(end)
	<-linted
	ok(t, env, "Write", `{"file_path":"other","content":"b\n"}`)
	var reads []string
	for range 2 {
		for start := time.Now(); time.Since(start) < 5*time.Second; time.Sleep(time.Millisecond) {
			got = ok(t, env, "Read", `{"file_path":"f.go"}`)
			if strings.Contains(got, "f.go:1: undefined: x") || len(reads) > 0 {
				break
			}
		}
		reads = append(reads, got)
	}
	if !strings.Contains(reads[0], "after the earlier edit of f.go:\nf.go:1: undefined: x") {
		t.Errorf("next answer about the file: %q, want the findings", reads[0])
	}
	if strings.Contains(reads[1], "undefined") {
		t.Errorf("the findings are repeated: %q", reads[1])
	}
}

// TestEffectTime has an effect that never ends by itself.
func TestEffectTime(t *testing.T) {
	hang := func(ctx context.Context, _ *tool.Call, _ []string) (string, error) {
		<-ctx.Done()
		return "stopped", nil
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Effects: []tool.Effect{hang, hang}, EffectTime: 10 * time.Millisecond, EffectWait: time.Minute})
	if got := ok(t, env, "Write", `{"file_path":"f","content":"a\n"}`); strings.Count(got, "stopped") != 2 {
		t.Errorf("answer: %q, want the notes of two stopped effects", got)
	}
}
