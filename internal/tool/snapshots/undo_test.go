package snapshots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/tool/snapshots"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// newEnv returns the tools over one workspace whose edits are recorded, as croft mcp --dir has
// them or, with checkpoints, croft mcp --dir --checkpoints.
func newEnv(t *testing.T, ws *workspace.Workspace, inPlace, checkpoints bool) *tool.Env {
	t.Helper()
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{
		Tools: all.Coding(), Workspaces: set,
		Around:  snapshots.Around(func(context.Context, *tool.Call) (history.Limits, bool) { return history.Limits{}, checkpoints }),
		Records: recordsBelow(t.TempDir(), inPlace),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close(context.WithoutCancel(t.Context())) })
	return env
}

// recordsBelow is a tool.Config.Records.
func recordsBelow(dir string, inPlace bool) func(context.Context, string) (tool.Records, error) {
	return func(_ context.Context, id string) (tool.Records, error) {
		return tool.Records{Edits: filepath.Join(dir, id), Opened: inPlace}, nil
	}
}

func call(t *testing.T, env *tool.Env, name string, in args) (string, error) {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	res, err := env.Run(t.Context(), tool.Request{Tool: name, Args: data})
	return res.Text, err
}

func mustCall(t *testing.T, env *tool.Env, name string, in args) string {
	t.Helper()
	text, err := call(t, env, name, in)
	if err != nil {
		t.Fatalf("%s(%v): %v", name, in, err)
	}
	return text
}

// A modelEdit is the files that an edit changed, before and after; a missing one is "".
type modelEdit struct{ before, after map[string]string }

// model is what undo and redo must do: two stacks of edits.
type model struct {
	files        map[string]string // content, never ""
	done, undone []modelEdit
}

func (m *model) record(after map[string]string) {
	e := modelEdit{map[string]string{}, map[string]string{}}
	for name, text := range after {
		if m.files[name] != text {
			e.before[name], e.after[name] = m.files[name], text
		}
	}
	if len(e.after) > 0 {
		m.set(e.after)
		m.done, m.undone = append(m.done, e), nil
	}
}

func (m *model) set(files map[string]string) {
	for name, text := range files {
		if m.files[name] = text; text == "" {
			delete(m.files, name)
		}
	}
}

// move undoes or redoes, and returns the code of the expected error.
func (m *model) move(redo bool) fault.Code {
	from, to := &m.done, &m.undone
	if redo {
		from, to = to, from
	}
	if len(*from) == 0 {
		return fault.NotFound
	}
	e := (*from)[len(*from)-1]
	now, then := e.after, e.before
	if redo {
		now, then = then, now
	}
	var already []string
	for name, text := range now {
		switch m.files[name] {
		case text:
		case then[name]:
			already = append(already, name)
		default:
			return fault.Conflict
		}
	}
	m.set(then)
	*from = (*from)[:len(*from)-1]
	for _, name := range already {
		if !redo { // it can't be redone
			delete(e.before, name)
			delete(e.after, name)
		}
	}
	if len(e.after) > 0 {
		*to = append(*to, e)
	}
	return ""
}

// TestUndoAgainstAModel makes random histories of edits by tools, edits by the user, undo and
// redo, with and without checkpoints, and compares each state with that of a model.
func TestUndoAgainstAModel(t *testing.T) {
	histories := 1000
	if testing.Short() {
		histories = 100
	}
	for n := range histories {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(n), 1))
			p := &memory.Provider{Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)}
			ws := openFork(t, p, workspace.Spec{})
			h := randomHistory{t: t, r: r, ws: ws, env: newEnv(t, ws, n%2 == 0, n%4 == 0), model: model{files: map[string]string{}}}
			for range 3 + r.IntN(15) {
				h.step()
				h.compare()
			}
		})
	}
}

type randomHistory struct {
	t   *testing.T
	r   *rand.Rand
	ws  *workspace.Workspace
	env *tool.Env
	log []string
	model
}

var modelNames = []string{"a", "b", "c", "d/e"}

func (h *randomHistory) text() string { return fmt.Sprintf("%d\n%d\n", h.r.IntN(4), h.r.IntN(4)) }

// existing returns a file that is there, "" if none is.
func (h *randomHistory) existing() string {
	names := slices.Sorted(maps.Keys(h.files))
	if len(names) == 0 {
		return ""
	}
	return names[h.r.IntN(len(names))]
}

func (h *randomHistory) missing() string {
	for _, i := range h.r.Perm(len(modelNames)) {
		if h.files[modelNames[i]] == "" {
			return modelNames[i]
		}
	}
	return ""
}

func (h *randomHistory) tool(name string, in args) {
	h.log = append(h.log, fmt.Sprint(name, " ", in))
	mustCall(h.t, h.env, name, in)
}

func (h *randomHistory) step() {
	there, missing := h.existing(), h.missing()
	switch k := h.r.IntN(20); {
	case k < 5:
		h.move(false)
	case k < 8:
		h.move(true)
	case k < 10:
		h.userEdit(there, missing)
	case k < 13 && missing != "" || there == "":
		text := h.text()
		h.tool("Write", args{"file_path": missing, "content": text})
		h.record(map[string]string{missing: text})
	case k < 15:
		text := h.text()
		h.tool("Read", args{"file_path": there})
		h.tool("Write", args{"file_path": there, "content": text})
		h.record(map[string]string{there: text})
	case k < 16:
		old, text := h.files[there], h.text()
		h.tool("Read", args{"file_path": there})
		h.tool("Edit", args{"file_path": there, "old_string": old, "new_string": text})
		h.record(map[string]string{there: text})
	case k < 17:
		h.tool("delete", args{"path": there})
		h.record(map[string]string{there: ""})
	case k < 18 && missing != "":
		text := h.files[there]
		h.tool("move", args{"from": there, "to": missing})
		h.record(map[string]string{there: "", missing: text})
	case missing != "":
		lines := strings.Split(h.files[there], "\n")
		add := "*** Add File: " + missing + "\n+new\n+file\n"
		update := "*** Update File: " + there + "\n@@\n-" + lines[0] + "\n-" + lines[1] + "\n+patched\n+twice\n"
		h.tool("apply_patch", args{"patch": "*** Begin Patch\n" + add + update + "*** End Patch\n"})
		h.record(map[string]string{missing: "new\nfile\n", there: "patched\ntwice\n"})
	}
}

// userEdit changes a file past the tools.
func (h *randomHistory) userEdit(there, missing string) {
	name := missing
	if there != "" && (missing == "" || h.r.IntN(2) == 0) {
		name = there
	}
	text := h.text()
	if name == there && h.r.IntN(3) == 0 {
		h.log = append(h.log, "the user removes "+name)
		if err := h.ws.Remove(h.t.Context(), name, nil); err != nil {
			h.t.Fatal(err)
		}
		text = ""
	} else {
		h.log = append(h.log, "the user writes "+name+" "+text)
		if _, err := h.ws.WriteFile(h.t.Context(), name, []byte(text), &driver.WriteOptions{Parents: true}); err != nil {
			h.t.Fatal(err)
		}
	}
	h.set(map[string]string{name: text})
}

func (h *randomHistory) move(redo bool) {
	in := args{}
	if redo {
		in["redo"] = true
	}
	_, err := call(h.t, h.env, "undo", in)
	h.log = append(h.log, fmt.Sprint("undo ", in, " ", err))
	if want := h.model.move(redo); fault.Of(err) != want {
		h.t.Fatalf("undo(%v) is %v, want %q, after\n%s", in, err, want, strings.Join(h.log, "\n"))
	}
	if !redo && fault.Of(err) == fault.NotFound && !strings.Contains(err.Error(), "snapshot_restore") {
		h.t.Errorf("nothing left to undo: %v, want an error that names snapshot_restore", err)
	}
}

func (h *randomHistory) compare() {
	for _, name := range modelNames {
		data, err := h.ws.ReadFile(h.t.Context(), name)
		if err != nil && fault.Of(err) != fault.NotFound {
			h.t.Fatal(err)
		}
		if got := string(data); got != h.files[name] {
			h.t.Fatalf("%s is %q, want %q, after\n%s", name, got, h.files[name], strings.Join(h.log, "\n"))
		}
	}
}

func inDirectory(t *testing.T, files map[string]string) (dir string, ws *workspace.Workspace) {
	t.Helper()
	dir = t.TempDir()
	writeAll(t, dir, files)
	p, err := local.New(&local.Config{Root: t.TempDir(), Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)})
	if err != nil {
		t.Fatal(err)
	}
	return dir, openFork(t, p, workspace.Spec{Dir: dir})
}

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if data, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
			got[e.Name()] = string(data)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the directory has %q, want %q", got, want)
	}
}

// TestUndoKeepsTheUsersWork: if no edit is left, undo changes nothing, and a restore first names
// what the user wrote.
func TestUndoKeepsTheUsersWork(t *testing.T) {
	for _, checkpoints := range []bool{false, true} {
		t.Run(fmt.Sprint("checkpoints ", checkpoints), func(t *testing.T) {
			dir, ws := inDirectory(t, map[string]string{"a.txt": "one\n", "b.txt": "b\n", "g.txt": "g\n"})
			env := newEnv(t, ws, true, checkpoints)
			mustCall(t, env, "Read", args{"file_path": "a.txt"})
			mustCall(t, env, "Edit", args{"file_path": "a.txt", "old_string": "one", "new_string": "two"})
			mustCall(t, env, "Read", args{"file_path": "b.txt"})
			mustCall(t, env, "Edit", args{"file_path": "b.txt", "old_string": "b", "new_string": "c"})
			users := map[string]string{"g.txt": "mine\n", "new.txt": "new\n"}
			writeAll(t, dir, users)
			mustCall(t, env, "undo", args{})
			mustCall(t, env, "undo", args{})
			want := map[string]string{"a.txt": "one\n", "b.txt": "b\n", "g.txt": "mine\n", "new.txt": "new\n"}
			wantFiles(t, dir, want)
			if text, err := call(t, env, "undo", args{}); fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "snapshot_restore") {
				t.Errorf("without an edit: %s, %v", text, err)
			}
			wantFiles(t, dir, want)

			list, err := ws.Snapshots(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			opened := list[len(list)-1].ID
			mustCall(t, env, "Edit", args{"file_path": "a.txt", "old_string": "one", "new_string": "three"})
			_, err = call(t, env, "snapshot_restore", args{"name": opened})
			text := fmt.Sprint(err)
			if fault.Of(err) != fault.Conflict || !strings.Contains(text, "change g.txt\nremove new.txt\n") || strings.Contains(text, "a.txt") {
				t.Errorf("a restore that changes the user's files: %v", err)
			}
			want["a.txt"] = "three\n"
			wantFiles(t, dir, want)
			mustCall(t, env, "snapshot_restore", args{"name": opened, "paths": []string{"a.txt"}})
			want["a.txt"] = "one\n"
			wantFiles(t, dir, want)
			mustCall(t, env, "snapshot_restore", args{"name": opened, "force": true})
			wantFiles(t, dir, map[string]string{"a.txt": "one\n", "b.txt": "b\n", "g.txt": "g\n"})
			mustCall(t, env, "undo", args{})
			wantFiles(t, dir, want)
			mustCall(t, env, "undo", args{"redo": true})
			wantFiles(t, dir, map[string]string{"a.txt": "one\n", "b.txt": "b\n", "g.txt": "g\n"})
		})
	}
}

// TestRestoreOfEditsAlone needs no force: tools made the files what they are.
func TestRestoreOfEditsAlone(t *testing.T) {
	dir, ws := inDirectory(t, map[string]string{"a.txt": "one\n", "b.txt": "b\n"})
	env := newEnv(t, ws, true, false)
	mustCall(t, env, "snapshot", args{"name": "first"})
	mustCall(t, env, "Read", args{"file_path": "a.txt"})
	for _, text := range []string{"two\n", "three\n"} {
		mustCall(t, env, "Write", args{"file_path": "a.txt", "content": text})
	}
	mustCall(t, env, "Write", args{"file_path": "new.txt", "content": "new\n"})
	mustCall(t, env, "delete", args{"path": "b.txt"})
	mustCall(t, env, "snapshot_restore", args{"name": "first"})
	wantFiles(t, dir, map[string]string{"a.txt": "one\n", "b.txt": "b\n"})
}

// TestUndoByChoice undoes one edit by its id and files by their paths; redo takes back each of
// these steps, the last one first.
func TestUndoByChoice(t *testing.T) {
	dir, ws := inDirectory(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"})
	env := newEnv(t, ws, true, false)
	patch := "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** Update File: b.txt\n@@\n-b\n+B\n*** End Patch\n"
	mustCall(t, env, "apply_patch", args{"patch": patch})
	mustCall(t, env, "Read", args{"file_path": "c.txt"})
	mustCall(t, env, "Edit", args{"file_path": "c.txt", "old_string": "c", "new_string": "C"})
	state := func(a, b, c string) {
		t.Helper()
		wantFiles(t, dir, map[string]string{"a.txt": a + "\n", "b.txt": b + "\n", "c.txt": c + "\n"})
	}
	mustCall(t, env, "undo", args{"paths": []string{"b.txt"}})
	state("A", "b", "C")
	mustCall(t, env, "undo", args{"paths": []string{"a.txt"}})
	state("a", "b", "C")
	mustCall(t, env, "undo", args{"redo": true})
	state("A", "b", "C")
	mustCall(t, env, "undo", args{"redo": true})
	state("A", "B", "C")
	mustCall(t, env, "undo", args{})
	state("A", "b", "C")
	mustCall(t, env, "undo", args{"redo": true})
	writeAll(t, dir, map[string]string{"c.txt": "user\n"})
	_, err := call(t, env, "undo", args{"paths": []string{"c.txt"}})
	_, id, _ := strings.Cut(fmt.Sprint(err), "others, for the argument edit:\n")
	if fault.Of(err) != fault.Conflict || !strings.HasSuffix(id, " apply_patch\n") {
		t.Fatalf("of a changed file: %v, want a conflict that names the other edit", err)
	}
	mustCall(t, env, "undo", args{"edit": id[:20]})
	state("a", "b", "user")
	mustCall(t, env, "undo", args{"edit": id[:20], "redo": true})
	state("A", "B", "user")
}

// TestUndoKeepsAChangedMode keeps the mode that the user gave a file since the edit.
func TestUndoKeepsAChangedMode(t *testing.T) {
	dir, ws := inDirectory(t, map[string]string{"run.sh": "one\n"})
	env := newEnv(t, ws, true, false)
	mustCall(t, env, "Read", args{"file_path": "run.sh"})
	mustCall(t, env, "Edit", args{"file_path": "run.sh", "old_string": "one", "new_string": "two"})
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, redo := range []bool{false, true} {
		mustCall(t, env, "undo", args{"redo": redo})
		if info, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("with redo %v the mode is %v, %v, want 0755", redo, info.Mode(), err)
		}
	}
}

// TestUndoOfWhatIsUndone: an edit whose files have the state before it again is undone, whatever
// did that, and does not hide the edit before.
func TestUndoOfWhatIsUndone(t *testing.T) {
	dir, ws := inDirectory(t, map[string]string{"a.txt": "a\n"})
	env := newEnv(t, ws, true, false)
	mustCall(t, env, "delete", args{"path": "a.txt"})
	for _, instead := range []string{"", "a file"} {
		mustCall(t, env, "Write", args{"file_path": "d/e.txt", "content": "x"})
		if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
			t.Fatal(err)
		}
		if instead != "" {
			writeAll(t, dir, map[string]string{"d": instead})
		}
		got := mustCall(t, env, "undo", args{})
		if !strings.Contains(got, "undone already: Write d/e.txt") || !strings.HasSuffix(got, "\nd/e.txt had that state already\n") {
			t.Errorf("undo says %q", got)
		}
	}
	mustCall(t, env, "undo", args{})
	wantFiles(t, dir, map[string]string{"a.txt": "a\n", "d": "a file"})
	mustCall(t, env, "undo", args{"redo": true})
	wantFiles(t, dir, map[string]string{"d": "a file"})
	if text, err := call(t, env, "undo", args{"redo": true}); fault.Of(err) != fault.NotFound {
		t.Errorf("redo of what can't be redone: %s, %v", text, err)
	}
}

// TestUndoSymlinks undoes and redoes edits of symlinks, never of what they point to.
func TestUndoSymlinks(t *testing.T) {
	dir, ws := inDirectory(t, map[string]string{"a.txt": "a\n"})
	env := newEnv(t, ws, true, false)
	link := func(name string) string {
		target, err := os.Readlink(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return target
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "ln")); err != nil {
		t.Fatal(err)
	}
	mustCall(t, env, "snapshot", args{"name": "first"})
	mustCall(t, env, "move", args{"from": "ln", "to": "d/ln2"})
	for _, in := range []args{{}, {"redo": true}, {}} {
		mustCall(t, env, "undo", in)
		if isRedo := len(in) > 0; (link("d/ln2") == "a.txt") != isRedo || (link("ln") == "a.txt") == isRedo {
			t.Errorf("after undo %v: %q, %q", in, link("ln"), link("d/ln2"))
		}
	}
	mustCall(t, env, "delete", args{"path": "ln"})
	mustCall(t, env, "snapshot_restore", args{"name": "first", "force": true})
	for range 2 {
		mustCall(t, env, "undo", args{}) // of the restore, and of delete
		mustCall(t, env, "undo", args{"redo": true})
		mustCall(t, env, "undo", args{})
	}
	if link("ln") != "a.txt" {
		t.Errorf("after undo of all: %q", link("ln"))
	}
	wantFiles(t, dir, map[string]string{"a.txt": "a\n", "ln": "a\n"})
}

// TestRefusedCallsAreNoEdits: a call that names what is outside of the workspace, or below a file,
// changes nothing, so that the next undo is of the edit before.
func TestRefusedCallsAreNoEdits(t *testing.T) {
	dir, ws := inDirectory(t, map[string]string{"a.txt": "a\n"})
	env := newEnv(t, ws, true, false)
	for _, to := range []string{"../q", "/etc/q", "a.txt/q"} {
		mustCall(t, env, "Write", args{"file_path": "b.txt", "content": "b"})
		for name, in := range map[string]args{
			"apply_patch": {"patch": "*** Begin Patch\n*** Add File: " + to + "\n+z\n*** End Patch"},
			"move":        {"from": "a.txt", "to": to},
			"delete":      {"path": to},
		} {
			if text, err := call(t, env, name, in); err == nil {
				t.Errorf("%s of %s: %s", name, to, text)
			}
		}
		mustCall(t, env, "undo", args{})
		wantFiles(t, dir, map[string]string{"a.txt": "a\n"})
	}
}

// TestUndoNamesTheRest: an edit that can't be undone as a whole names its other files, and the
// edits before it.
func TestUndoNamesTheRest(t *testing.T) {
	dir, ws := inDirectory(t, map[string]string{"a.txt": "a\n"})
	env := newEnv(t, ws, true, false)
	mustCall(t, env, "Write", args{"file_path": "b.txt", "content": "b"})
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	mustCall(t, env, "delete", args{"path": "d"})
	_, err := call(t, env, "undo", args{})
	_, id, ok := strings.Cut(fmt.Sprint(err), "d: it was no file and no symlink\nothers, for the argument edit:\n")
	if !ok || fault.Of(err) != fault.Unsupported {
		t.Fatalf("undo of a directory: %v", err)
	}
	mustCall(t, env, "undo", args{"edit": id[:20]})
	wantFiles(t, dir, map[string]string{"a.txt": "a\n"})
	if _, err = call(t, env, "undo", args{}); !strings.Contains(fmt.Sprint(err), "\nno other edit is left to undo; snapshot_restore") {
		t.Errorf("undo of a directory alone: %v", err)
	}
	patch := "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n*** Add File: c.txt\n+c\n*** End Patch"
	mustCall(t, env, "apply_patch", args{"patch": patch})
	if err := errors.Join(os.Remove(filepath.Join(dir, "a.txt")), os.Mkdir(filepath.Join(dir, "a.txt"), 0o755)); err != nil {
		t.Fatal(err)
	}
	_, err = call(t, env, "undo", args{})
	if !strings.Contains(fmt.Sprint(err), "\nfiles of this edit, for the argument paths:\na.txt\nc.txt\n") {
		t.Errorf("undo of an edit of which a part can't be undone: %v", err)
	}
	mustCall(t, env, "undo", args{"paths": []string{"c.txt"}})
	wantFiles(t, dir, map[string]string{})
}

// TestUndoMakesDirectoriesAgain: files whose directory a command removed meanwhile come back with it, and so does a
// directory that was deleted with its files. One with an empty directory or another mode is not made again in part.
func TestUndoMakesDirectoriesAgain(t *testing.T) {
	dir, ws := inDirectory(t, nil)
	env := newEnv(t, ws, true, false)
	for name, text := range map[string]string{"d/e/a.txt": "a\n", "d/b.txt": "b\n"} {
		mustCall(t, env, "Write", args{"file_path": name, "content": text})
	}
	whole := func() {
		t.Helper()
		a, aerr := os.ReadFile(filepath.Join(dir, "d/e/a.txt"))
		b, berr := os.ReadFile(filepath.Join(dir, "d/b.txt"))
		info, ierr := os.Stat(filepath.Join(dir, "d/e"))
		if err := errors.Join(aerr, berr, ierr); err != nil || string(a)+string(b) != "a\nb\n" || info.Mode().Perm() != 0o755 {
			t.Fatalf("the files are %q, %q, %v", a, b, err)
		}
	}
	whole()
	mustCall(t, env, "delete", args{"path": "d/e/a.txt"})
	if err := os.Remove(filepath.Join(dir, "d/e")); err != nil {
		t.Fatal(err)
	}
	mustCall(t, env, "undo", args{})
	whole()
	mustCall(t, env, "delete", args{"path": "d", "recursive": true})
	mustCall(t, env, "undo", args{})
	whole()
	mustCall(t, env, "undo", args{"redo": true})
	mustCall(t, env, "undo", args{})
	whole()
	for _, mode := range []os.FileMode{0o755, 0o700} {
		odd := filepath.Join(dir, "odd")
		if err := errors.Join(os.Mkdir(odd, 0o755), os.Chmod(odd, mode)); err != nil {
			t.Fatal(err)
		}
		if mode == 0o700 {
			mustCall(t, env, "Write", args{"file_path": "odd/f", "content": "f\n"})
		}
		mustCall(t, env, "delete", args{"path": "odd", "recursive": true})
		if text, err := call(t, env, "undo", args{}); fault.Of(err) != fault.Unsupported {
			t.Errorf("undo of a directory of mode %o, empty or not: %s, %v", mode, text, err)
		}
	}
}
