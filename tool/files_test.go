package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// get returns the content of a file.
func get(t testing.TB, env *tool.Env, ws, name string) string {
	t.Helper()
	w, err := env.Workspaces.Get(t.Context(), ws)
	if err != nil {
		t.Fatal(err)
	}
	data, err := w.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// args makes arguments of pairs.
func args(t testing.TB, pairs ...any) string {
	t.Helper()
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestWriteTellsOfLineEnds: a file keeps its CRLF line ends, which Read does not show; other changes of them are named.
func TestWriteTellsOfLineEnds(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: slices.Concat(tool.Coding(), tool.Workspace()), Workspaces: newSet(t, "w")})
	const kept = "note: the line ends of the file, CRLF, were kept"
	for before, list := range map[string][][3]string{
		"a\r\nb\r\n": {{"a\nc\n", "a\r\nc\r\n", kept}, {"a\r\nc\r\n", "a\r\nc\r\n", ""}, {"a", "a", ""}, {"a\r\nb\n", "a\r\nb\n", "were CRLF and are mixed now"}},
		"a\nb\n":     {{"a\nc\n", "a\nc\n", ""}, {"a\r\nc\r\n", "a\r\nc\r\n", "were LF and are CRLF now"}},
		"a\r\nb\n":   {{"a\nc\n", "a\nc\n", "were mixed and are LF now"}},
		"a":          {{"a\r\n", "a\r\n", ""}},
	} {
		for _, one := range list {
			for name, path := range map[string]string{"Write": "file_path", "workspace_write_file": "path"} {
				put(t, env, "w", "f", before)
				ok(t, env, "Read", `{"file_path":"f"}`)
				text := ok(t, env, name, args(t, path, "f", "content", one[0]))
				if got := get(t, env, "w", "f"); got != one[1] || !strings.Contains(text, one[2]) || strings.Contains(text, "note:") != (one[2] != "") {
					t.Errorf("%s of %q over %q makes %q and says %q", name, one[0], before, got, text)
				}
			}
		}
	}
	if text := ok(t, env, "apply_patch", args(t, "patch", "*** Begin Patch\r\n*** Add File: new\r\n+x\r\n*** End Patch\r\n")); !strings.Contains(text, "the added files have LF") {
		t.Errorf("a patch with CRLF: %q", text)
	}
}

func TestWriteWantsWhatWasRead(t *testing.T) {
	env := coding(t, "w")
	if got, want := ok(t, env, "Write", `{"file_path":"d/new","content":"a\nb\n"}`), "wrote 4 bytes to d/new"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// What an agent wrote it knows.
	ok(t, env, "Write", `{"file_path":"d/new","content":""}`)
	put(t, env, "w", "old", "one\ntwo\nthree\n")
	if got, want := refused(t, env, "Write", `{"file_path":"old","content":"x"}`, fault.PermissionDenied), "refusing to overwrite old: Read it first"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ok(t, env, "Read", `{"file_path":"old","limit":1}`)
	if got, want := refused(t, env, "Write", `{"file_path":"old","content":"x"}`, fault.PermissionDenied), "refusing to overwrite old: lines 2-3 were not read; Read them first"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ok(t, env, "Read", `{"file_path":"old","offset":2}`)
	put(t, env, "w", "old", "one\nTWO\nthree\n")
	got := refused(t, env, "Write", `{"file_path":"old","content":"x"}`, fault.Conflict)
	if want := "refusing to overwrite old: it changed since it was read; Read it again\n--- lines 2-2 now ---\n2\tTWO\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := get(t, env, "w", "old"); got != "one\nTWO\nthree\n" {
		t.Errorf("the file is %q", got)
	}
	ok(t, env, "Read", `{"file_path":"old"}`)
	ok(t, env, "Write", `{"file_path":"old","content":"x"}`)
	if got := get(t, env, "w", "old"); got != "x" {
		t.Errorf("the file is %q", got)
	}
	if got := refused(t, env, "Write", `{"file_path":"old"}`, fault.InvalidArgument); got != "content is required" {
		t.Errorf("got %q", got)
	}
	if got := refused(t, env, "Write", `{"file_path":"../x","content":""}`, fault.SandboxViolation); got != "resolve path: path is outside workspace root" {
		t.Errorf("got %q", got)
	}
}

func TestReadingUnlocksOnlyThatWorkspace(t *testing.T) {
	env := coding(t, "primary", "extension")
	put(t, env, "primary", "foo.go", "a\n")
	put(t, env, "extension", "foo.go", "a\n")
	ok(t, env, "Read", `{"file_path":"foo.go","workspace":"primary"}`)
	got := refused(t, env, "Edit", `{"file_path":"foo.go","old_string":"a","new_string":"b","workspace":"extension"}`, fault.PermissionDenied)
	if want := "refusing to edit foo.go: Read it first"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	refused(t, env, "Read", `{"file_path":"../extension/foo.go","workspace":"primary"}`, fault.SandboxViolation)
	ok(t, env, "Edit", `{"file_path":"foo.go","old_string":"a","new_string":"b","workspace":"primary"}`)
}

func TestReadScope(t *testing.T) {
	for _, tt := range []struct {
		scope tool.ReadScope
		want  fault.Code
	}{{tool.ReadProcess, ""}, {tool.ReadSession, fault.PermissionDenied}} {
		env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Readers: tt.scope})
		put(t, env, "w", "f", "a\n")
		if _, err := env.Run(t.Context(), tool.Request{Tool: "Read", Args: json.RawMessage(`{"file_path":"f"}`), Session: "one"}); err != nil {
			t.Fatal(err)
		}
		edit := tool.Request{Tool: "Edit", Args: json.RawMessage(`{"file_path":"f","old_string":"a","new_string":"b"}`), Session: "two"}
		if _, err := env.Run(t.Context(), edit); fault.Of(err) != tt.want {
			t.Errorf("with scope %s another session's edit is %v, want code %q", tt.scope, err, tt.want)
		}
	}
}

func TestEdit(t *testing.T) {
	tests := []struct {
		name, content string
		args          string
		want          string // of the answer
		after         string // the content
	}{
		{"once", "a b\nc\n", `{"file_path":"f","old_string":"b","new_string":"B"}`, "replaced 1 occurrence(s) in f", "a B\nc\n"},
		{"all", "a a\na\n", `{"file_path":"f","old_string":"a","new_string":"b","replace_all":true}`, "replaced 3 occurrence(s) in f", "b b\nb\n"},
		{"missing", "a\n", `{"file_path":"f","old_string":"x","new_string":"b"}`, "old_string not found in f", "a\n"},
		{"ambiguous", "a a\n", `{"file_path":"f","old_string":"a","new_string":"b"}`, "old_string matched 2 times in f; add context to make it unique or set replace_all=true", "a a\n"},
		{"empty", "a\n", `{"file_path":"f","old_string":"","new_string":"b"}`, "old_string must be non-empty", "a\n"},
		{"absent", "a\n", `{"file_path":"f","new_string":"b"}`, "old_string is required", "a\n"},
		{"crlf", "a\r\nb\r\nc\r\n", `{"file_path":"f","old_string":"a\nb","new_string":"x\ny\nz"}`, "replaced 1 occurrence(s) in f", "x\r\ny\r\nz\r\nc\r\n"},
		{"remove", "a\nb\n", `{"file_path":"f","old_string":"a\n","new_string":""}`, "replaced 1 occurrence(s) in f", "b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := coding(t, "w")
			put(t, env, "w", "f", tt.content)
			ok(t, env, "Read", `{"file_path":"f"}`)
			if got, _ := call(t, env, "Edit", tt.args); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := get(t, env, "w", "f"); got != tt.after {
				t.Errorf("the file is %q, want %q", got, tt.after)
			}
		})
	}
}

func TestEditWantsTheLinesRead(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "f", "1\n2\n3\n4\n5\n6\n")
	ok(t, env, "Read", `{"file_path":"f","offset":2,"limit":2}`)
	got := refused(t, env, "Edit", `{"file_path":"f","old_string":"5","new_string":"five"}`, fault.PermissionDenied)
	if want := "refusing to edit f: lines 5-5 were not read; Read them first"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ok(t, env, "Edit", `{"file_path":"f","old_string":"2\n","new_string":"2a\n2b\n"}`)
	// The lines that were seen moved along: 3 is line 4 now.
	ok(t, env, "Edit", `{"file_path":"f","old_string":"3","new_string":"three"}`)
	refused(t, env, "Edit", `{"file_path":"f","old_string":"4","new_string":"four"}`, fault.PermissionDenied)
	refused(t, env, "Edit", `{"file_path":"f","old_string":"1","new_string":"one"}`, fault.PermissionDenied)
	if got, want := get(t, env, "w", "f"), "1\n2a\n2b\nthree\n4\n5\n6\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
}

func TestEditKeepsTheMode(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "run.sh", "#!/bin/sh\n")
	w, _ := env.Workspaces.Get(t.Context(), "w")
	if err := w.Chmod(t.Context(), "run.sh", 0o750); err != nil {
		t.Fatal(err)
	}
	ok(t, env, "Read", `{"file_path":"run.sh"}`)
	ok(t, env, "Edit", `{"file_path":"run.sh","old_string":"sh\n","new_string":"sh\ntrue\n"}`)
	ok(t, env, "Write", `{"file_path":"run.sh","content":"#!/bin/sh\nexit\n"}`)
	info, err := w.Stat(t.Context(), "run.sh", nil)
	if err != nil || info.Mode != 0o750 {
		t.Errorf("mode = %o, %v; want 750", info.Mode, err)
	}
}

// TestEditKeepsTheOwner: a file of another user keeps its owner. An edit of a file
// with several hard links leaves the other names alone, and says so.
func TestEditKeepsTheOwner(t *testing.T) {
	dir := t.TempDir()
	set, mux := new(tool.Set), workspace.NewMux(newLocal(t))
	ws, err := mux.Open(t.Context(), workspace.Spec{Kind: "local", ID: workspace.NewID(), Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: set})
	name, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
	if err := os.WriteFile(name, []byte("one\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	uid := os.Geteuid()
	if uid == 0 {
		uid = 12345 // only root can give a file away
		if err := os.Chown(name, uid, 54321); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, env, "Read", `{"file_path":"f"}`)
	if got := ok(t, env, "Edit", `{"file_path":"f","old_string":"one","new_string":"two"}`); got != "replaced 1 occurrence(s) in f" {
		t.Errorf("Edit = %q", got)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t); int(got.Uid) != uid || info.Mode().Perm() != 0o640 {
		t.Errorf("the file belongs to %d with mode %v; want %d and 0640", got.Uid, info.Mode(), uid)
	}
	if err := os.Link(name, other); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, env, "Edit", `{"file_path":"f","old_string":"two","new_string":"three"}`); !strings.Contains(got, "other hard links, which keep the old content") {
		t.Errorf("Edit = %q, which tells nothing of the other name", got)
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != "two\n" {
		t.Errorf("the other name has %q, %v; want what it had", data, err)
	}
}

// TestEditsAtTheSameTime: an agent that edits several places of a file at once has
// them all.
func TestEditsAtTheSameTime(t *testing.T) {
	env := coding(t, "w")
	var content, want strings.Builder
	for i := range 50 {
		fmt.Fprintf(&content, "line %d.\n", i)
		fmt.Fprintf(&want, "changed %d.\n", i)
	}
	put(t, env, "w", "f", content.String())
	ok(t, env, "Read", `{"file_path":"f"}`)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if text, err := call(t, env, "Edit", fmt.Sprintf(`{"file_path":"./f","old_string":"line %d.","new_string":"changed %d."}`, i, i)); err != nil {
				t.Errorf("edit %d: %s", i, text)
			}
		})
	}
	wg.Wait()
	if got := get(t, env, "w", "f"); got != want.String() {
		t.Errorf("the file is %q", got)
	}
}

func TestMultiEditIsAllOrNothing(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "f", "a\nb\n")
	ok(t, env, "Read", `{"file_path":"f"}`)
	got := refused(t, env, "MultiEdit", `{"file_path":"f","edits":[{"old_string":"a","new_string":"x"},{"old_string":"zz","new_string":"y"}]}`, fault.NotFound)
	if want := "edit 2 of 2: old_string not found in f"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := get(t, env, "w", "f"); got != "a\nb\n" {
		t.Errorf("the file is %q", got)
	}
	ok(t, env, "MultiEdit", `{"file_path":"f","edits":[{"old_string":"a","new_string":"x\nx"},{"old_string":"x\nb","new_string":"y"}]}`)
	if got := get(t, env, "w", "f"); got != "x\ny\n" {
		t.Errorf("the file is %q", got)
	}
	got = refused(t, env, "MultiEdit", `{"file_path":"f","edits":[{"old_string":1}]}`, fault.InvalidArgument)
	if !strings.HasPrefix(got, "edits[0].old_string must be a string") {
		t.Errorf("got %q", got)
	}
	refused(t, env, "MultiEdit", `{"file_path":"f","edits":[{"old_string":"a","new_string":"b","al":true}]}`, fault.InvalidArgument)
}

func TestListMoveDelete(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "a/b/c.txt", "1")
	put(t, env, "w", "d.txt", "2")
	if got, want := ok(t, env, "list", `{}`), "a/\nd.txt\n"; got != want {
		t.Errorf("list = %q, want %q", got, want)
	}
	if got, want := ok(t, env, "list", `{"depth":3}`), "a/\na/b/\na/b/c.txt\nd.txt\n"; got != want {
		t.Errorf("list = %q, want %q", got, want)
	}
	if got, want := ok(t, env, "list", `{"depth":3,"limit":2}`), "a/\na/b/\n... (there are more entries; raise limit or list a directory below)\n"; got != want {
		t.Errorf("list = %q, want %q", got, want)
	}
	ok(t, env, "Read", `{"file_path":"d.txt"}`)
	refused(t, env, "move", `{"from":"d.txt","to":"a/b/c.txt"}`, fault.AlreadyExists)
	ok(t, env, "move", `{"from":"d.txt","to":"x/y.txt"}`)
	ok(t, env, "Edit", `{"file_path":"x/y.txt","old_string":"2","new_string":"3"}`) // it was read under its old name
	if _, err := call(t, env, "delete", `{"path":"a"}`); err == nil {
		t.Error("a directory that is not empty was removed")
	}
	ok(t, env, "delete", `{"path":"a","recursive":true}`)
	if got, want := ok(t, env, "list", `{"depth":2}`), "x/\nx/y.txt\n"; got != want {
		t.Errorf("list = %q, want %q", got, want)
	}
	refused(t, env, "delete", `{"path":"../x"}`, fault.SandboxViolation)
}

func TestApplyPatch(t *testing.T) {
	start := map[string]string{"m": "one\ntwo\nthree\nfour\n", "d": "gone\n", "crlf": "a\r\nb\r\n"}
	tests := []struct {
		name, patch string
		code        fault.Code
		want        map[string]string
	}{
		{"marked", "*** Begin Patch\n*** Update File: m\n@@ one\n-two\n+TWO\n three\n*** Add File: n/new\n+x\n+y\n*** Delete File: d\n*** End Patch\n", "",
			map[string]string{"m": "one\nTWO\nthree\nfour\n", "n/new": "x\ny\n", "crlf": "a\r\nb\r\n"}},
		{"unified", "--- a/m\n+++ b/m\n@@ -1,2 +1,3 @@\n one\n+half\n two\n@@ -4 +5 @@\n-four\n+4\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hi\n\\ No newline at end of file\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n", "",
			map[string]string{"m": "one\nhalf\ntwo\nthree\n4\n", "new": "hi", "crlf": "a\r\nb\r\n"}},
		{"moved", "*** Begin Patch\n*** Update File: m\n*** Move to: sub/m2\n@@\n-four\n+4\n*** End Patch", "",
			map[string]string{"sub/m2": "one\ntwo\nthree\n4\n", "d": "gone\n", "crlf": "a\r\nb\r\n"}},
		{"crlf", "--- crlf\n+++ crlf\n@@ -2 +2 @@\n-b\n+c\n", "", map[string]string{"m": start["m"], "d": "gone\n", "crlf": "a\r\nc\r\n"}},
		{"does not fit", "*** Begin Patch\n*** Delete File: d\n*** Update File: m\n@@\n-five\n+5\n*** End Patch", fault.Conflict, start},
		{"outside", "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+hi\n", fault.SandboxViolation, start},
		{"there already", "*** Begin Patch\n*** Delete File: d\n*** Add File: m\n+x\n*** End Patch", fault.AlreadyExists, start},
		{"no patch", "hello", fault.InvalidArgument, start},
		{"no end", "*** Begin Patch\n*** Delete File: d\n", fault.InvalidArgument, start},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := coding(t, "w")
			for name, content := range start {
				put(t, env, "w", name, content)
			}
			if text, err := call(t, env, "apply_patch", args(t, "patch", tt.patch)); fault.Of(err) != tt.code {
				t.Fatalf("got %q, %v; want code %q", text, err, tt.code)
			}
			got := map[string]string{}
			for _, name := range strings.Fields(ok(t, env, "Glob", `{"pattern":"**"}`)) {
				got[name] = get(t, env, "w", name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestApplyPatchTakesBack has a patch fail in the middle, when some of it is done:
// everything is as it was, with modes, and so is what the agent may change.
func TestApplyPatchTakesBack(t *testing.T) {
	env := coding(t, "w")
	w, _ := env.Workspaces.Get(t.Context(), "w")
	for name, mode := range map[string]os.FileMode{"m": 0o750, "d1": 0o700, "d2": 0o755, "sub/keep": 0o644} {
		put(t, env, "w", name, name+"\nsecond\n")
		if err := w.Chmod(t.Context(), name, mode); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, env, "Read", `{"file_path":"m","limit":1}`)
	for _, patch := range []string{
		// Nothing can be below a file, which shows when it is tried.
		"*** Begin Patch\n*** Delete File: d1\n*** Update File: m\n@@\n-m\n+M\n*** Update File: d2\n*** Move to: moved\n@@\n-d2\n+D2\n*** Add File: n\n+x\n*** Add File: n/x\n+x\n*** End Patch",
		// What is deleted can't be deleted again.
		"*** Begin Patch\n*** Update File: m\n@@\n-m\n+M\n*** Delete File: d1\n*** Delete File: d1\n*** End Patch",
	} {
		if text, err := call(t, env, "apply_patch", args(t, "patch", patch)); err == nil {
			t.Fatalf("it worked: %q", text)
		}
	}
	if got := ok(t, env, "Glob", `{"pattern":"**"}`); slices.ContainsFunc(strings.Fields(got), func(s string) bool { return s == "moved" || s == "n" }) {
		t.Errorf("there is %q", got)
	}
	for name, mode := range map[string]os.FileMode{"m": 0o750, "d1": 0o700, "d2": 0o755, "sub/keep": 0o644} {
		info, err := w.Stat(t.Context(), name, nil)
		if err != nil || info.Mode != mode {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode, err, mode)
		}
		if got := get(t, env, "w", name); got != name+"\nsecond\n" {
			t.Errorf("%s is %q", name, got)
		}
	}
	// Of m only the first line was read.
	refused(t, env, "Edit", `{"file_path":"m","old_string":"second","new_string":"x"}`, fault.PermissionDenied)
	ok(t, env, "Edit", `{"file_path":"m","old_string":"m\n","new_string":"x\n"}`)
}

func FuzzParsePatch(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: m\n@@ x\n-a\n+b\n*** End Patch", "a\nx\na\n")
	f.Add("--- a/m\n+++ b/m\n@@ -1,2 +1,3 @@\n one\n+half\n two\n", "one\ntwo\n")
	f.Fuzz(func(t *testing.T, patch, content string) { tool.TryPatch(t.Context(), patch, content) })
}

// A symlink that leaves is refused by every tool, also while it is swapped in and
// out: the kernel resolves each path below the root.
func TestSymlinkRace(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := coding(t, "w")
	put(t, env, "w", "in/f", "mine\n")
	w, _ := env.Workspaces.Get(t.Context(), "w")
	root := w.Traits().Root
	if err := os.Symlink(outside, filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			a, b, tmp := filepath.Join(root, "in"), filepath.Join(root, "out"), filepath.Join(root, "tmp")
			os.Rename(a, tmp)
			os.Rename(b, a)
			os.Rename(tmp, b)
		}
	}()
	for range 300 {
		if text, err := call(t, env, "Read", `{"file_path":"in/f"}`); err == nil && strings.Contains(text, "secret") {
			t.Fatal("Read left the workspace")
		}
		_, _ = call(t, env, "Write", `{"file_path":"in/g","content":"x"}`)
	}
	close(done)
	<-stopped
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside there is %v, %v; want f alone", entries, err)
	}
}

func TestReadOfAFIFODoesNotWait(t *testing.T) {
	env := coding(t, "w")
	ok(t, env, "Bash", `{"command":"mkfifo pipe"}`)
	if _, err := call(t, env, "Read", `{"file_path":"pipe"}`); err == nil {
		t.Error("a FIFO was read")
	}
}

// TestWholeNumbersAreIntegers: 1.0 is an integer in JSON Schema.
func TestWholeNumbersAreIntegers(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "f", "one\ntwo\n")
	if got := ok(t, env, "Read", `{"file_path":"f","limit":1.0,"offset":2e0}`); got != "2\ttwo\n" {
		t.Errorf("Read = %q", got)
	}
	refused(t, env, "Read", `{"file_path":"f","limit":1.5}`, fault.InvalidArgument)
}

// TestRenderKeepsUnreadFiles: as for Write, a file that was not read is not overwritten.
func TestRenderKeepsUnreadFiles(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "a.svg", "<svg/>\n")
	const call = `{"source":"digraph { a -> b }","output_path":"a.svg"}`
	if got := refused(t, env, "render_dot", call, fault.PermissionDenied); got != "refusing to overwrite a.svg: Read it first" {
		t.Errorf("render_dot = %q", got)
	}
}
