package workspacetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

var nameChecks = []Check{
	{"Names/that-look-odd-are-fine", needFS, namesOdd},
	{"Names/of-255-bytes-are-fine", needFS, namesLong},
	{"Names/too-long-are-refused", needFS, namesTooLong},
	{"Names/may-be-deep", needFS, namesDeep},
	{"Names/that-differ-in-case-are-distinct", allNeeds(needFS, needNames("case-sensitive names", "case", "CASE")), namesCase},
	{"Names/that-differ-in-normal-form-are-distinct", allNeeds(needFS, needNames("names of any normal form", nfc, nfd)), namesForms},
	{"Names/need-not-be-UTF-8", allNeeds(needFS, needNames("names that are not UTF-8", notUTF8)), namesNotUTF8},
	{"Names/are-cleaned-as-people-write-them", needFS, namesCleaned},
	{"Names/that-leave-are-a-SandboxViolation", needFS, namesLeave},
	{"Names/with-NUL-are-refused", needFS, namesNUL},
}

const (
	nfc     = "caf\u00e9"
	nfd     = "cafe\u0301"
	notUTF8 = "latin-\xe9-\xff\xfe"
)

// wantNamesKept writes a file of each name, reads it back, and finds it again by every
// listing and search.
func (p *testWorkspace) wantNamesKept(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := p.WriteFile(t.Context(), name, []byte("in "+name), nil); err != nil {
			t.Errorf("Write of %q: %v", name, err)
		}
	}
	for _, name := range names {
		p.wantContent(t, name, "in "+name)
		info, err := p.Stat(t.Context(), name, nil)
		if wantNil(t, "Stat", err) && info.Path != name {
			t.Errorf("Stat of %q says that it is %q", name, info.Path)
		}
	}
	want := slices.Sorted(slices.Values(names))
	p.wantNames(t, ".", want...)
	if got := pathsOf(p.listTree(t)); !slices.Equal(got, want) {
		t.Errorf("List gives %q, want %q", got, want)
	}
	res, err := p.Glob(t.Context(), "**", &workspace.GlobOptions{Hidden: true})
	if got := pathsOf(res.Entries); wantNil(t, "Glob", err) && !slices.Equal(got, want) {
		t.Errorf("Glob gives %q, want %q", got, want)
	}
	for _, name := range names {
		wantNil(t, "Rename", p.Rename(t.Context(), name, "moved", nil))
		p.wantContent(t, "moved", "in "+name)
		wantNil(t, "Rename back", p.Rename(t.Context(), "moved", name, nil))
		wantNil(t, "Remove", p.Remove(t.Context(), name, nil))
	}
	p.wantNames(t, ".")
}

func namesOdd(t testing.TB, e *Env) {
	e.open(t).wantNamesKept(t, "..foo", "...", "foo..", ".hidden", "-rf", "--", "a b", " lead", "trail ", "new\nline", "tab\t", `back\slash`, `"quoted"`,
		"*", "?", "[a]", "{a,b}", "$HOME", "`id`", "a:b", "|", "%41", "%2e%2e", "~", "#", "con", "nul.txt", "\x01\x7f", "日本語", "🐑", "a.croft-tmp", "meta", "files")
}

func namesLong(t testing.TB, e *Env) {
	e.open(t).wantNamesKept(t, strings.Repeat("n", 255), strings.Repeat("ä", 127), "."+strings.Repeat("h", 254))
}

func namesTooLong(t testing.TB, e *Env) {
	p := e.open(t)
	for _, name := range []string{strings.Repeat("n", 256), "dir/" + strings.Repeat("ä", 128), strings.Repeat("a/", 3000) + "a"} {
		_, err := p.WriteFile(t.Context(), name, []byte("x"), &workspace.WriteOptions{Parents: true})
		wantCode(t, "Write of a name of "+itoa(len(name))+" bytes", err, fault.InvalidArgument)
		_, err = p.Stat(t.Context(), name, nil)
		wantCode(t, "Stat of a name of "+itoa(len(name))+" bytes", err, fault.InvalidArgument)
	}
	p.wantNames(t, ".")
}

func namesDeep(t testing.TB, e *Env) {
	p := e.open(t)
	name := strings.Repeat("dir/", 100) + "file"
	p.write(t, name, "deep")
	p.wantContent(t, name, "deep")
	if got := len(p.listTree(t)); got != 101 {
		t.Errorf("the tree has %d entries, want 101", got)
	}
	wantNil(t, "Remove", p.Remove(t.Context(), "dir", &workspace.RemoveOptions{Recursive: true}))
	p.wantNames(t, ".")
}

func namesCase(t testing.TB, e *Env)  { e.open(t).wantNamesKept(t, "case", "CASE", "Case") }
func namesForms(t testing.TB, e *Env) { e.open(t).wantNamesKept(t, nfc, nfd) }

func namesNotUTF8(t testing.TB, e *Env) {
	e.open(t).wantNamesKept(t, notUTF8, "\xff", "\xfe", "\xc3\x28", "latin-\xef\xbf\xbd-")
}

func namesCleaned(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "content")
	for _, name := range []string{"dir//file", "./dir/file", "dir/./file", "dir/../dir/file", "missing/../dir/file", "dir/file/"} {
		p.wantContent(t, name, "content")
	}
	for _, name := range []string{"", ".", "/", "./", "dir/.."} {
		p.wantNames(t, name, "dir")
	}
}

func namesLeave(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "x")
	for _, name := range []string{"..", "../x", "dir/../../x", "/etc/passwd", "/..", "../../../../../../etc/passwd", e.Dir, "./..", "dir/../.."} {
		_, err := p.ReadFile(t.Context(), name)
		wantCode(t, "Read of "+name, err, fault.SandboxViolation)
		_, err = p.WriteFile(t.Context(), name, []byte("x"), &workspace.WriteOptions{Parents: true})
		wantCode(t, "Write of "+name, err, fault.SandboxViolation)
		_, err = p.Stat(t.Context(), name, nil)
		wantCode(t, "Stat of "+name, err, fault.SandboxViolation)
		_, err = p.List(t.Context(), name, nil)
		wantCode(t, "List of "+name, err, fault.SandboxViolation)
		wantCode(t, "Mkdir of "+name, p.Mkdir(t.Context(), name, &workspace.MkdirOptions{Parents: true}), fault.SandboxViolation)
		wantCode(t, "Remove of "+name, p.Remove(t.Context(), name, &workspace.RemoveOptions{Recursive: true}), fault.SandboxViolation)
		_, err = p.Grep(t.Context(), "x", &workspace.GrepOptions{Path: name})
		wantCode(t, "Grep below "+name, err, fault.SandboxViolation)
		_, err = p.Glob(t.Context(), "*", &workspace.GlobOptions{Path: name})
		wantCode(t, "Glob below "+name, err, fault.SandboxViolation)
	}
	for _, pattern := range []string{"../*", "/etc/*", "dir/../../*"} {
		res, err := p.Glob(t.Context(), pattern, nil)
		wantCode(t, "Glob of "+pattern, err, fault.SandboxViolation, fault.InvalidArgument)
		if len(res.Entries) > 0 {
			t.Errorf("Glob of %s finds %q", pattern, pathsOf(res.Entries))
		}
	}
}

func namesNUL(t testing.TB, e *Env) {
	p := e.open(t)
	for _, name := range []string{"\x00", "a\x00b", "a/\x00"} {
		_, err := p.ReadFile(t.Context(), name)
		wantCode(t, "Read", err, fault.InvalidArgument)
		_, err = p.WriteFile(t.Context(), name, []byte("x"), nil)
		wantCode(t, "Write", err, fault.InvalidArgument)
		wantCode(t, "Rename", p.Rename(t.Context(), "x", name, nil), fault.InvalidArgument)
	}
	if p.d.FS.Symlink != nil {
		wantCode(t, "Symlink to a target with NUL", p.Symlink(t.Context(), "a\x00b", "link"), fault.InvalidArgument)
	}
	p.wantNames(t, ".")
}
