package workspacetest

import (
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var moveChecks = []Check{
	{"Rename/moves-files-and-directories", needFS, renameMoves},
	{"Rename/replaces-a-file", needFS, renameReplaces},
	{"Rename/create-only-refuses-what-exists", needFS, renameCreateOnly},
	{"Rename/create-only-lets-one-win", needFunc("Rename"), renameRace},
	{"Rename/refuses-what-can't-be", needFS, renameRefused},
	{"Rename/keeps-mode-and-time", needFS, renameKeeps},
	{"Copy/copies-a-file", needFS, copyFile},
	{"Copy/recursion-is-opt-in", needFS, copyTree},
	{"Copy/create-only-refuses-what-exists", needFS, copyCreateOnly},
	{"Copy/refuses-what-can't-be", needFS, copyRefused},
	{"Chmod/sets-the-bits", needFunc("Chmod"), chmodSets},
	{"Chmod/refuses-what-can't-be", needFunc("Chmod"), chmodRefused},
	{"Symlink/is-followed-inside", needFunc("Symlink"), symlinkFollowed},
	{"Symlink/is-listed-as-such", needFunc("Symlink"), symlinkListed},
	{"Symlink/may-dangle", needFunc("Symlink"), symlinkDangles},
	{"Symlink/that-loops-is-refused", needFunc("Symlink"), symlinkLoops},
	{"Symlink/refuses-what-exists", needFunc("Symlink"), symlinkExists},
	{"Symlink/that-leaves-is-a-SandboxViolation", needFunc("Symlink"), symlinkLeaves},
	{"Symlink/that-is-moved-out-is-a-SandboxViolation", allNeeds(needFunc("Symlink"), needFunc("Rename")), symlinkMoved},
}

func renameMoves(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "f")
	p.write(t, "dir/a/b", "deep")
	wantNil(t, "Rename of a file", p.Rename(t.Context(), "file", "moved", nil))
	wantNil(t, "Rename of a directory", p.Rename(t.Context(), "dir", "there", nil))
	p.wantNames(t, ".", "moved", "there")
	p.wantContent(t, "moved", "f")
	p.wantContent(t, "there/a/b", "deep")
	wantNil(t, "Rename with parents", p.Rename(t.Context(), "moved", "x/y/z", &workspace.RenameOptions{Parents: true}))
	p.wantContent(t, "x/y/z", "f")
	p.wantMissing(t, "moved")
}

func renameReplaces(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "new", "new")
	p.write(t, "old", "a longer old")
	wantNil(t, "Rename", p.Rename(t.Context(), "new", "old", nil))
	p.wantNames(t, ".", "old")
	p.wantContent(t, "old", "new")
	wantNil(t, "Rename to itself", p.Rename(t.Context(), "old", "old", nil))
	p.wantContent(t, "old", "new")
}

func renameCreateOnly(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "a", "a")
	p.write(t, "b", "b")
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "dir", nil))
	opts := &workspace.RenameOptions{CreateOnly: true}
	wantCode(t, "Rename over a file", p.Rename(t.Context(), "a", "b", opts), fault.AlreadyExists)
	wantCode(t, "Rename over a directory", p.Rename(t.Context(), "a", "dir", opts), fault.AlreadyExists)
	p.wantContent(t, "a", "a")
	p.wantContent(t, "b", "b")
	wantNil(t, "Rename", p.Rename(t.Context(), "a", "c", opts))
	p.wantContent(t, "c", "a")
}

func renameRace(t testing.TB, e *Env) {
	p := e.open(t)
	const callers = 8
	for i := range callers {
		p.write(t, "from-"+itoa(i), itoa(i))
	}
	won := runRace(t, callers, fault.AlreadyExists, func(i int) error {
		return p.Rename(t.Context(), "from-"+itoa(i), "to", &workspace.RenameOptions{CreateOnly: true})
	})
	if won != 1 {
		t.Errorf("%d of %d renamed to one name, want 1", won, callers)
	}
	if got := len(p.listNames(t, ".")); got != callers {
		t.Errorf("%d files are left, want %d", got, callers)
	}
}

func renameRefused(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "f")
	p.write(t, "dir/sub/x", "x")
	p.write(t, "full/y", "y")
	bad := []fault.Code{fault.InvalidArgument, fault.AlreadyExists, fault.Conflict}
	wantCode(t, "Rename of what is missing", p.Rename(t.Context(), "missing", "x", nil), fault.NotFound)
	wantCode(t, "Rename into what is missing", p.Rename(t.Context(), "file", "missing/x", nil), fault.NotFound)
	wantCode(t, "Rename of a directory into itself", p.Rename(t.Context(), "dir", "dir/sub/dir", nil), fault.InvalidArgument)
	wantCode(t, "Rename of a file over a directory", p.Rename(t.Context(), "file", "dir", nil), bad...)
	wantCode(t, "Rename of a directory over a file", p.Rename(t.Context(), "dir", "file", nil), bad...)
	wantCode(t, "Rename of a directory over a full one", p.Rename(t.Context(), "dir", "full", nil), bad...)
	wantCode(t, "Rename of the workspace", p.Rename(t.Context(), ".", "x", nil), fault.InvalidArgument)
	wantCode(t, "Rename over the workspace", p.Rename(t.Context(), "file", ".", nil), fault.InvalidArgument)
	wantCode(t, "Rename to outside", p.Rename(t.Context(), "file", "../x", nil), fault.SandboxViolation)
	p.wantContent(t, "file", "f")
	p.wantContent(t, "dir/sub/x", "x")
	p.wantContent(t, "full/y", "y")
}

func renameKeeps(t testing.TB, e *Env) {
	p := e.open(t)
	_, err := p.WriteFile(t.Context(), "file", []byte("x"), &workspace.WriteOptions{Mode: 0o751})
	wantNil(t, "Write", err)
	before, err := p.Stat(t.Context(), "file", nil)
	wantNil(t, "Stat", err)
	p.write(t, "target", "y")
	wantNil(t, "Rename", p.Rename(t.Context(), "file", "target", nil))
	after, err := p.Stat(t.Context(), "target", nil)
	if wantNil(t, "Stat", err) && (after.Mode != before.Mode || !after.ModTime.Equal(before.ModTime)) {
		t.Errorf("Rename turns mode %o of %v into %o of %v", before.Mode, before.ModTime, after.Mode, after.ModTime)
	}
}

func copyFile(t testing.TB, e *Env) {
	p := e.open(t)
	_, err := p.WriteFile(t.Context(), "file", []byte("content"), &workspace.WriteOptions{Mode: 0o755})
	wantNil(t, "Write", err)
	wantNil(t, "Copy", p.Copy(t.Context(), "file", "copy", nil))
	p.wantContent(t, "copy", "content")
	p.wantContent(t, "file", "content")
	info, err := p.Stat(t.Context(), "copy", nil)
	if wantNil(t, "Stat", err) && info.Mode != 0o755 {
		t.Errorf("the copy has mode %o, want 755", info.Mode)
	}
	p.write(t, "copy", "changed")
	p.wantContent(t, "file", "content")
	wantNil(t, "Copy over a file", p.Copy(t.Context(), "file", "copy", nil))
	p.wantContent(t, "copy", "content")
	wantNil(t, "Copy with parents", p.Copy(t.Context(), "file", "a/b/c", &workspace.CopyOptions{Parents: true}))
	p.wantContent(t, "a/b/c", "content")
}

func copyTree(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/a/b", "deep")
	p.write(t, "dir/c", "flat")
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "dir/void", &workspace.MkdirOptions{Mode: 0o700}))
	wantCode(t, "Copy of a directory", p.Copy(t.Context(), "dir", "copy", nil), fault.InvalidArgument)
	p.wantMissing(t, "copy")
	if p.d.FS.Symlink != nil {
		wantNil(t, "Symlink", p.Symlink(t.Context(), "a/b", "dir/link"))
	}
	wantNil(t, "recursive Copy", p.Copy(t.Context(), "dir", "copy", &workspace.CopyOptions{Recursive: true}))
	p.wantContent(t, "copy/a/b", "deep")
	p.wantContent(t, "copy/c", "flat")
	info, err := p.Stat(t.Context(), "copy/void", nil)
	if wantNil(t, "Stat", err) && info.Mode != 0o700 {
		t.Errorf("the copy of a directory has mode %o, want 700", info.Mode)
	}
	if p.d.FS.Symlink != nil {
		info, err := p.Stat(t.Context(), "copy/link", &workspace.StatOptions{NoFollow: true})
		if wantNil(t, "Stat", err) && (info.Type != driver.TypeSymlink || info.Target != "a/b") {
			t.Errorf("a symlink is copied as %+v", info)
		}
	}
}

func copyCreateOnly(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "a", "a")
	p.write(t, "b", "b")
	p.write(t, "dir/x", "x")
	wantCode(t, "Copy over a file", p.Copy(t.Context(), "a", "b", &workspace.CopyOptions{CreateOnly: true}), fault.AlreadyExists)
	err := p.Copy(t.Context(), "dir", "b", &workspace.CopyOptions{CreateOnly: true, Recursive: true})
	wantCode(t, "recursive Copy over a file", err, fault.AlreadyExists)
	p.wantContent(t, "b", "b")
}

func copyRefused(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "f")
	p.write(t, "dir/x", "x")
	recursive := &workspace.CopyOptions{Recursive: true}
	wantCode(t, "Copy of what is missing", p.Copy(t.Context(), "missing", "x", recursive), fault.NotFound)
	wantCode(t, "Copy into what is missing", p.Copy(t.Context(), "file", "missing/x", nil), fault.NotFound)
	wantCode(t, "Copy of a directory into itself", p.Copy(t.Context(), "dir", "dir/y", recursive), fault.InvalidArgument)
	wantCode(t, "Copy of a file over a directory", p.Copy(t.Context(), "file", "dir", nil), fault.InvalidArgument, fault.AlreadyExists)
	wantCode(t, "Copy to outside", p.Copy(t.Context(), "file", "../x", nil), fault.SandboxViolation)
	wantCode(t, "Copy from outside", p.Copy(t.Context(), "../x", "y", nil), fault.SandboxViolation)
	p.wantNames(t, ".", "dir", "file")
	p.wantNames(t, "dir", "x")
}

func chmodSets(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "x")
	for _, tt := range []struct {
		name string
		mode uint32
	}{{"dir/file", 0o755}, {"dir/file", 0o600}, {"dir", 0o700}, {"dir/file", 0o444}} {
		wantNil(t, "Chmod", p.d.FS.Chmod(t.Context(), tt.name, fileMode(tt.mode)))
		info, err := p.Stat(t.Context(), tt.name, nil)
		if wantNil(t, "Stat", err) && uint32(info.Mode) != tt.mode {
			t.Errorf("Chmod of %s to %o makes %o", tt.name, tt.mode, info.Mode)
		}
	}
	// A file that is not writable can be replaced: the directory decides.
	_, err := p.WriteFile(t.Context(), "dir/file", []byte("new"), nil)
	wantNil(t, "Write over a read-only file", err)
}

func chmodRefused(t testing.TB, e *Env) {
	p := e.open(t)
	wantCode(t, "Chmod of what is missing", p.Chmod(t.Context(), "missing", 0o600), fault.NotFound)
	wantCode(t, "Chmod to more than permission bits", p.Chmod(t.Context(), "missing", 0o10000), fault.InvalidArgument)
}

func symlinkFollowed(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "content")
	for _, link := range []struct{ target, name string }{
		{"dir/file", "to-file"}, {"dir", "to-dir"}, {"to-file", "to-link"}, {"../dir/file", "dir/up"}, {"./dir/../dir", "winding"},
	} {
		wantNil(t, "Symlink", p.Symlink(t.Context(), link.target, link.name))
	}
	for _, name := range []string{"to-file", "to-dir/file", "to-link", "dir/up", "winding/file"} {
		p.wantContent(t, name, "content")
	}
	info, err := p.Stat(t.Context(), "to-file", nil)
	if wantNil(t, "Stat", err) && (info.Type != driver.TypeFile || info.Size != 7) {
		t.Errorf("Stat through a symlink gives %+v", info)
	}
	_, err = p.WriteFile(t.Context(), "to-dir/new", []byte("new"), nil)
	wantNil(t, "Write below a symlink", err)
	p.wantContent(t, "dir/new", "new")
}

func symlinkListed(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "content")
	wantNil(t, "Symlink", p.Symlink(t.Context(), "dir", "link"))
	info, err := p.Stat(t.Context(), "link", &workspace.StatOptions{NoFollow: true})
	if wantNil(t, "Stat", err) && (info.Type != driver.TypeSymlink || info.Target != "dir" || info.Path != "link") {
		t.Errorf("Stat of a symlink itself gives %+v", info)
	}
	entries, err := p.ReadDir(t.Context(), ".")
	if wantNil(t, "ReadDir", err) && (len(entries) != 2 || entries[1].Type != driver.TypeSymlink || entries[1].Target != "dir") {
		t.Errorf("ReadDir gives %+v", entries)
	}
	for _, entry := range p.listTree(t) {
		if entry.Path == "link/file" {
			t.Error("List goes through a symlink")
		}
	}
}

func symlinkDangles(t testing.TB, e *Env) {
	p := e.open(t)
	wantNil(t, "Symlink", p.Symlink(t.Context(), "later", "link"))
	_, err := p.ReadFile(t.Context(), "link")
	wantCode(t, "Read through a symlink to nothing", err, fault.NotFound)
	_, err = p.WriteFile(t.Context(), "link", []byte("x"), &workspace.WriteOptions{CreateOnly: true})
	wantCode(t, "create-only Write over a symlink to nothing", err, fault.AlreadyExists)
	p.write(t, "later", "now")
	p.wantContent(t, "link", "now")
}

func symlinkLoops(t testing.TB, e *Env) {
	p := e.open(t)
	wantNil(t, "Symlink", p.Symlink(t.Context(), "b", "a"))
	wantNil(t, "Symlink", p.Symlink(t.Context(), "a", "b"))
	codes := []fault.Code{fault.InvalidArgument, fault.NotFound, fault.SandboxViolation}
	_, err := p.ReadFile(t.Context(), "a")
	wantCode(t, "Read of a loop", err, codes...)
	_, err = p.WriteFile(t.Context(), "a", []byte("x"), nil)
	wantCode(t, "Write of a loop", err, codes...)
	_, err = p.Stat(t.Context(), "a/x", nil)
	wantCode(t, "Stat below a loop", err, codes...)
	p.listTree(t)
}

func symlinkExists(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "x")
	wantCode(t, "Symlink over a file", p.Symlink(t.Context(), "y", "file"), fault.AlreadyExists)
	wantCode(t, "Symlink in what is missing", p.Symlink(t.Context(), "y", "missing/link"), fault.NotFound)
	p.wantContent(t, "file", "x")
}

func symlinkLeaves(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "x")
	for _, link := range []struct{ target, name string }{
		{"..", "a"}, {"../x", "a"}, {"dir/../../x", "a"}, {"../../x", "dir/a"}, {"/etc/passwd", "a"}, {"/", "a"}, {e.Dir, "a"}, {"/proc/self/root", "a"},
	} {
		err := p.d.FS.Symlink(t.Context(), link.target, link.name)
		wantCode(t, "Symlink from "+link.name+" to "+link.target, err, fault.SandboxViolation)
		p.wantMissing(t, link.name)
	}
}

// symlinkMoved creates a symlink that stays inside and moves it to where it leaves
// the workspace. Either the move or following the symlink is refused; nothing outside
// is reached.
func symlinkMoved(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "a/b/file", "x")
	wantNil(t, "Symlink", p.Symlink(t.Context(), "../../out", "a/b/link"))
	for _, to := range []string{"link", "dir"} {
		from := "a/b/link"
		if to == "dir" {
			from = "a/b"
			wantNil(t, "Symlink", p.Symlink(t.Context(), "../../out", "a/b/link"))
		}
		if err := p.Rename(t.Context(), from, to, nil); err != nil {
			wantCode(t, "Rename of a symlink to where it leaves", err, fault.SandboxViolation)
			wantNil(t, "Remove", p.Remove(t.Context(), "a/b/link", nil))
			continue
		}
		at := "link"
		if to == "dir" {
			at = "dir/link"
		}
		attackLink(t, p, at)
	}
}

// attackLink tries everything that could follow a symlink out of the workspace.
func attackLink(t testing.TB, p *testWorkspace, link string) {
	t.Helper()
	for _, name := range []string{link, link + "/x"} {
		_, err := p.ReadFile(t.Context(), name)
		wantCode(t, "Read through a symlink that leaves", err, fault.SandboxViolation)
		_, err = p.Stat(t.Context(), name, nil)
		wantCode(t, "Stat through a symlink that leaves", err, fault.SandboxViolation)
		_, err = p.WriteFile(t.Context(), name, []byte("x"), &workspace.WriteOptions{Parents: true})
		wantCode(t, "Write through a symlink that leaves", err, fault.SandboxViolation)
		_, err = p.ReadDir(t.Context(), name)
		wantCode(t, "ReadDir through a symlink that leaves", err, fault.SandboxViolation)
	}
	wantCode(t, "Mkdir below a symlink that leaves", p.Mkdir(t.Context(), link+"/x", nil), fault.SandboxViolation)
	wantCode(t, "Remove below a symlink that leaves", p.Remove(t.Context(), link+"/x", nil), fault.SandboxViolation)
	if p.d.FS.Chmod != nil {
		wantCode(t, "Chmod of a symlink that leaves", p.Chmod(t.Context(), link, 0o777), fault.SandboxViolation)
	}
	res, err := p.Grep(t.Context(), "root", &workspace.GrepOptions{Hidden: true})
	if wantNil(t, "Grep past a symlink that leaves", err) && len(res.Matches) > 0 {
		t.Errorf("Grep goes through a symlink that leaves: %+v", res.Matches)
	}
	wantNil(t, "Remove of the symlink itself", p.Remove(t.Context(), link, nil))
}
