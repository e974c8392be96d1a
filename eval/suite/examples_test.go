package suite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// In a checkout of skillgym its suites import it from its sources, which need modules
// of Node that no suite has.
func TestSuitesOfACheckoutOfSkillgym(t *testing.T) {
	files := []string{"package.json", `{"name":"skillgym"}`, "src/index.ts", `import { AsyncLocalStorage } from "node:async_hooks"; export const assert = new AsyncLocalStorage();`}
	for _, from := range []string{"../src/index.js", "../src/index", "../index.ts"} {
		s := load(t, append([]string{"examples/a.ts", `import { assert, type Case } from "` + from + `";
const suite: Case[] = [{ id: "a", prompt: "p", assert() { assert.equal(1, 1) } }];
export default suite;`}, files...)...)
		if !judge(t, s, "a", `{}`, nil).Passed {
			t.Errorf("%s: it failed", from)
		}
	}
	files[1] = `{"name":"other"}`
	if _, err := tryLoad(t, append([]string{"examples/a.ts", `import { assert } from "../src/index.js"; assert.ok(true); export default []`}, files...)...); err == nil || !strings.Contains(err.Error(), "assert.ok is not a function") {
		t.Errorf("another package: %v, want that its own sources are loaded", err)
	}
}

// The suites that skillgym publishes load as they are. Those that import ../src do so
// from its source tree, where a line stands for the package.
func TestPublishedExamplesLoadUnchanged(t *testing.T) {
	cfg, err := LoadConfig(t.Context(), "testdata/skillgym/examples/basic-suite.ts", "")
	if err != nil {
		t.Fatalf("LoadConfig: %v", err)
	}
	var ids []string
	for _, r := range cfg.Runners {
		ids = append(ids, r.ID+" "+r.Agent.Type)
	}
	if diff := cmp.Diff([]string{"open-main opencode", "claude-main claude-code", "codex-main codex", "cursor-main cursor-agent", "copilot-main copilot"}, ids); diff != "" {
		t.Errorf("runners (-want +got):\n%s", diff)
	}
	want := map[string][]string{
		"basic-suite.ts":                    {"always-passes", "assertion-fails", "assert-crashes", "max-steps-exceeded"},
		"explain-command-mismatch-suite.ts": {"command-mismatch-for-explain"},
		"failure-classification-suite.ts":   {"wrong-cli-alias-echo", "wrong-cli-alias-command"},
		"flaky-retry-suite.ts":              {"retry-once"},
		"repeat-counter-suite.ts":           {"repeat-counter-stable", "repeat-counter-flaky"},
		"skill-selection-suite.ts":          {"find-skills-expo-opencode-compatible", "find-skills-expo-strict"},
		"workspace-isolation-suite.ts":      {"isolated-workspace-check"},
	}
	for name, ids := range want {
		t.Run(name, func(t *testing.T) {
			s, err := Load(t.Context(), filepath.Join("testdata/skillgym/examples", name), cfg)
			if err != nil {
				t.Fatalf("Load: %v", err)
			}
			defer s.Close()
			var got []string
			for _, c := range s.Cases {
				got = append(got, c.ID)
			}
			if diff := cmp.Diff(ids, got); diff != "" {
				t.Errorf("cases (-want +got):\n%s", diff)
			}
		})
	}
}
