package suite

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
