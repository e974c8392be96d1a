package skill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/skill"
	"github.com/croft-run/croft/workspace"
)

func TestTools(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDFs.\n---\nRun scripts/x.sh.\n", "pdf/docs/more.md": "more", "pdf/scripts/x.sh": "echo \"$SKILL_NAME $1\" | tee \"$OUTPUT_DIR/r.txt\"\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(root, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"SKILL.md": "# Other\n", "more.md": "of the other", "z.md": "the last"}
	for i := range 20 {
		texts[fmt.Sprintf("n%02d.md", i)] = strings.Repeat("x", 30<<10)
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(other, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	env := newEnv(t, skill.Options{Skills: &bootstrap.Skills{Roots: []string{root}}, Artifacts: stage.NewArtifacts(bucket, "").In})
	call := func(name, args string) (tool.Result, error) {
		return env.Run(t.Context(), tool.Request{Tool: name, Args: json.RawMessage(args)})
	}
	for _, test := range []struct{ tool, args, want string }{
		{"skill_load", `{}`, "pdf: Reads PDFs."},
		{"skill_load", `{"skill":"pdf","include_all_docs":true}`, "Run scripts/x.sh.\n\n\n--- docs/more.md ---\nmore"},
		{"skill_list_docs", `{"skill":"pdf"}`, "docs/more.md"},
		{"skill_run", `{"skill":"pdf","command":"bash scripts/x.sh hi","outputs":{"inline":true,"save":true}}`, "out/r.txt (text/plain; charset=utf-8, 7 bytes) artifact://out/r.txt@0\npdf hi"},
		{"skill_run", `{"skill":"pdf","command":"cat ../../work/inputs/r.txt","inputs":[{"from":"artifact://out/r.txt@0"}]}`, "pdf hi\n\n[exit status 0]"},
		{"skill_run", `{"skill":"pdf","command":"sleep 20","timeout":1}`, "[timed out]"},
		{"skill_run", `{"skill":"pdf","command":"head -c 2000000 /dev/zero | tr '\\0' x"}`, "x\n... (output truncated, 1992500 bytes elided)\nx"},
		{"skill_run", `{"skill":"pdf","command":"truncate -s 5G $OUTPUT_DIR/big.bin","timeout":99999999999,"outputs":{"globs":["out/big.bin"],"inline":true,"max_file_bytes":99999999999,"max_total_bytes":99999999999}}`, "out/big.bin (application/octet-stream, 5368709120 bytes)"},
		{"skill_run", `{"skill":"pdf","command":"echo ran; echo text > $OUTPUT_DIR/b.txt","outputs":{"globs":["../x","out/b.txt"]}}`, "ran\n\n[exit status 0]"},
		{"skill_run", `{"skill":"pdf","command":"echo ran","outputs":{"globs":["../x"],"max_files":-1}}`, "ran\n\n[exit status 0]"},
		{"skill_run", `{"skill":"pdf","command":"cat $WORK_DIR/inputs/more.md","inputs":[{"from":"skill://other/more.md"}]}`, "of the other"},
		{"skill_load", `{"skill":"other","include_all_docs":true}`, "documents did not fit; ask for them by name: "},
		{"skill_load", `{"skill":"other","docs":["z.md"]}`, "the last"},
		{"workspace_save_artifact", `{"path":"out/r.txt"}`, "saved out/r.txt as artifact://out/r.txt@1"},
	} {
		res, err := call(test.tool, test.args)
		if err != nil || !strings.Contains(res.Text, test.want) {
			t.Errorf("%s %s answers %q, %v; want %q", test.tool, test.args, res.Text, err, test.want)
		}
	}
	for _, test := range []struct {
		tool, args string
		code       fault.Code
	}{
		{"skill_load", `{"skill":"nope"}`, fault.NotFound},
		{"skill_load", `{"skill":"pdf","docs":["../../../etc/passwd"]}`, fault.SandboxViolation},
		{"skill_run", `{"skill":"pdf","command":"true","inputs":[{"from":"host:///etc/passwd"}]}`, fault.PermissionDenied},
		{"skill_run", `{"skill":"pdf","command":"true","cwd":"../.."}`, fault.SandboxViolation},
		{"skill_run", `{"skill":"pdf","command":""}`, fault.InvalidArgument},
		{"skill_run", `{"skill":"pdf","command":"true","timeout":-1}`, fault.InvalidArgument},
		{"skill_run", `{"skill":"pdf","command":"true","inputs":[{"from":"skill://nope/x"}]}`, fault.NotFound},
		{"workspace_save_artifact", `{"path":"skills/pdf/SKILL.md"}`, fault.InvalidArgument},
		{"workspace_save_artifact", `{"path":"../x"}`, fault.SandboxViolation},
		{"workspace_save_artifact", `{"path":"out/nothing"}`, fault.NotFound},
	} {
		if _, err := call(test.tool, test.args); fault.Of(err) != test.code {
			t.Errorf("%s %s: %v, want %s", test.tool, test.args, err, test.code)
		}
	}
}

func newEnv(t *testing.T, opts skill.Options) *tool.Env {
	t.Helper()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: local.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: skill.Tools(opts), Workspaces: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := env.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := ws.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	return env
}
