package tool_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// files returns the files of a directory, but for the filler.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != "filler" {
			all[e.Name()] = string(data)
		}
	}
	return all
}

// fill leaves a disk without a free byte but for some.
func fill(t *testing.T, dir string, spare int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for block := make([]byte, 4096); err == nil; {
		var n int
		n, err = f.Write(block)
		size += int64(n)
	}
	if err := f.Truncate(size - spare); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull: what can't be written is an error with a code that says why, and
// nothing of what was there is lost.
func TestDiskFull(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 512<<10)
	before := map[string]string{"a": strings.Repeat("a line of text\n", 6000), "b": "one\ntwo\n", "c": "three\nfour\n"}
	for name, text := range before {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	ws, err := workspace.NewMux(newLocal(t)).Open(t.Context(), workspace.Spec{Kind: "local", ID: workspace.NewID(), Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: set, MaxText: 1 << 20})
	for name := range before {
		ok(t, env, "Read", `{"file_path":"`+name+`","limit":10000}`)
	}
	large := strings.Repeat("z", 64<<10)
	for _, spare := range []int64{0, 16 << 10} {
		fill(t, dir, spare)
		for _, call := range [][2]string{
			{"Edit", `{"file_path":"a","old_string":"a line","new_string":"the line","replace_all":true}`},
			{"MultiEdit", `{"file_path":"a","edits":[{"old_string":"a line","new_string":"x","replace_all":true},{"old_string":"x","new_string":"the line","replace_all":true}]}`},
			{"Write", `{"file_path":"b","content":"` + large + `"}`},
			{"Write", `{"file_path":"new","content":"` + large + `"}`},
			{"apply_patch", `{"patch":"*** Begin Patch\n*** Update File: b\n@@\n-one\n+1\n*** Update File: c\n@@\n-three\n+3\n*** Add File: new\n+` + large + `\n*** End Patch\n"}`},
		} {
			text := refused(t, env, call[0], call[1], fault.ResourceExhausted)
			if diff := cmp.Diff(before, files(t, dir)); diff != "" {
				t.Fatalf("%s with %d bytes free left (-want +got):\n%s", call[0], spare, diff)
			}
			if _, err := env.Run(t.Context(), tool.Request{Tool: call[0], Args: []byte(call[1])}); !strings.Contains(tool.ErrorText(err), "no space left on device") {
				t.Errorf("%s says %q, %v", call[0], text, err)
			}
		}
		if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("the mode is %v, %v", info.Mode(), err)
		}
	}
	// What was read still counts, and with room again the same edit is done.
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	ok(t, env, "Edit", `{"file_path":"a","old_string":"a line","new_string":"the line","replace_all":true}`)
	ok(t, env, "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: b\n@@\n-one\n+1\n*** End Patch\n"}`)
}
