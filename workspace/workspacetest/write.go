package workspacetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var writeChecks = []Check{
	{"Write/tells-what-it-did", needFS, writeTells},
	{"Write/needs-the-directory-unless-asked", needFS, writeParents},
	{"Write/over-a-directory-is-refused", needFS, writeDirectory},
	{"Write/create-only-refuses-what-exists", needFS, writeCreateOnly},
	{"Write/create-only-lets-one-win", needFS, writeCreateRace},
	{"Write/if-match-refuses-what-changed", needFS, writeIfMatch},
	{"Write/if-match-lets-one-win", needFS, writeIfMatchRace},
	{"Write/keeps-the-mode", needFS, writeMode},
	{"Write/more-than-permission-bits-is-refused", needFS, writeModeRefused},
	{"Write/sets-the-time", needFS, writeTime},
	{"Write/beyond-MaxSize-changes-nothing", needFS, writeMaxSize},
	{"Write/with-a-body-that-fails-changes-nothing", needFS, writeBodyFails},
	{"Write/cancelled-changes-nothing", needFS, writeCancelled},
	{"Write/is-never-seen-half-done", needFS, writeAtomic},
	{"Write/in-place-and-synced-work", needFS, writeVariants},
	{"Write/follows-a-symlink-inside", needFunc("Symlink"), writeSymlink},
	{"Write/beyond-the-disk-limit-is-ResourceExhausted", allNeeds(needFS, needDiskLimit), writeDiskFull},
	{"Edit/replaces-all-or-nothing", needFS, editAll},
	{"Edit/refuses-what-can't-be-applied", needFS, editRefused},
	{"Edit/concurrently-loses-none", needFS, editConcurrently},
}

func writeTells(t testing.TB, e *Env) {
	p := e.open(t)
	res := p.write(t, "file", "one")
	if !res.Created || res.BrokeLinks || res.Info.Path != "file" || res.Info.Size != 3 || res.Info.Type != driver.TypeFile {
		t.Errorf("Write of a new file gives %+v", res)
	}
	res = p.write(t, "file", "four")
	if res.Created || res.Info.Size != 4 || res.Digest != driver.DigestBytes([]byte("four")) {
		t.Errorf("Write over a file gives %+v", res)
	}
}

func writeParents(t testing.TB, e *Env) {
	p := e.open(t)
	_, err := p.WriteFile(t.Context(), "a/b/c", []byte("x"), nil)
	wantCode(t, "Write into a missing directory", err, fault.NotFound)
	p.wantMissing(t, "a")
	_, err = p.WriteFile(t.Context(), "a/b/c", []byte("x"), &workspace.WriteOptions{Parents: true})
	wantNil(t, "Write with parents", err)
	p.wantContent(t, "a/b/c", "x")
	_, err = p.WriteFile(t.Context(), "a/b/c/d", []byte("x"), &workspace.WriteOptions{Parents: true})
	wantCode(t, "Write below a file", err, fault.InvalidArgument, fault.AlreadyExists, fault.NotFound)
	p.wantContent(t, "a/b/c", "x")
}

func writeDirectory(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "x")
	_, err := p.WriteFile(t.Context(), "dir", []byte("x"), nil)
	wantCode(t, "Write over a directory", err, fault.InvalidArgument, fault.AlreadyExists)
	_, err = p.WriteFile(t.Context(), ".", []byte("x"), nil)
	wantCode(t, "Write over the workspace", err, fault.InvalidArgument)
	p.wantContent(t, "dir/file", "x")
}

func writeCreateOnly(t testing.TB, e *Env) {
	p := e.open(t)
	opts := &workspace.WriteOptions{CreateOnly: true}
	_, err := p.WriteFile(t.Context(), "file", []byte("first"), opts)
	wantNil(t, "create", err)
	_, err = p.WriteFile(t.Context(), "file", []byte("second"), opts)
	wantCode(t, "create what exists", err, fault.AlreadyExists)
	p.wantContent(t, "file", "first")
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "dir", nil))
	_, err = p.WriteFile(t.Context(), "dir", []byte("x"), opts)
	wantCode(t, "create over a directory", err, fault.AlreadyExists, fault.InvalidArgument)
}

// runRace runs the same call in many goroutines and counts the successful ones; the rest
// must fail with one code.
func runRace(t testing.TB, callers int, code fault.Code, call func(i int) error) int {
	t.Helper()
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { errs[i] = call(i) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantCode(t, "a caller that lost", err, code)
	}
	return won
}

func writeCreateRace(t testing.TB, e *Env) {
	p := e.open(t)
	for round := range 5 {
		name := "file-" + itoa(round)
		won := runRace(t, 16, fault.AlreadyExists, func(i int) error {
			_, err := p.WriteFile(t.Context(), name, patternBytes(byte(i), 4096), &workspace.WriteOptions{CreateOnly: true})
			return err
		})
		if won != 1 {
			t.Errorf("%d of 16 created the file, want 1", won)
		}
	}
}

func writeIfMatch(t testing.TB, e *Env) {
	p := e.open(t)
	first := p.write(t, "file", "first")
	_, err := p.WriteFile(t.Context(), "file", []byte("second"), &workspace.WriteOptions{IfMatch: first.Digest})
	wantNil(t, "Write that matches", err)
	_, err = p.WriteFile(t.Context(), "file", []byte("third"), &workspace.WriteOptions{IfMatch: first.Digest})
	wantCode(t, "Write that does not match", err, fault.Conflict)
	p.wantContent(t, "file", "second")
	_, err = p.WriteFile(t.Context(), "missing", []byte("x"), &workspace.WriteOptions{IfMatch: first.Digest})
	wantCode(t, "Write that matches against nothing", err, fault.Conflict, fault.NotFound)
	p.wantMissing(t, "missing")
	_, err = p.WriteFile(t.Context(), "file", []byte("x"), &workspace.WriteOptions{IfMatch: "no-digest"})
	wantCode(t, "Write with a malformed digest", err, fault.InvalidArgument)
	p.wantContent(t, "file", "second")
}

func writeIfMatchRace(t testing.TB, e *Env) {
	p := e.open(t)
	for round := range 5 {
		name := "file-" + itoa(round)
		old := p.write(t, name, "old")
		won := runRace(t, 16, fault.Conflict, func(i int) error {
			_, err := p.WriteFile(t.Context(), name, []byte("by "+itoa(i)), &workspace.WriteOptions{IfMatch: old.Digest})
			return err
		})
		if won != 1 {
			t.Errorf("%d of 16 replaced the content that all had read, want 1", won)
		}
	}
}

func writeMode(t testing.TB, e *Env) {
	p := e.open(t)
	write := func(opts *workspace.WriteOptions) {
		t.Helper()
		_, err := p.WriteFile(t.Context(), "file", []byte("x"), opts)
		wantNil(t, "Write", err)
	}
	want := func(mode uint32) {
		t.Helper()
		info, err := p.Stat(t.Context(), "file", nil)
		if wantNil(t, "Stat", err) && uint32(info.Mode) != mode {
			t.Errorf("the mode is %o, want %o", info.Mode, mode)
		}
	}
	write(&workspace.WriteOptions{Mode: 0o750})
	want(0o750)
	write(nil)
	want(0o750)
	write(&workspace.WriteOptions{Mode: 0o600})
	want(0o750) // the mode of a replaced file is kept, unless SetMode
	write(&workspace.WriteOptions{Mode: 0o600, SetMode: true})
	want(0o600)
}

func writeModeRefused(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "old")
	for _, mode := range []fs.FileMode{0o1777, 0o2755, 0o4755, 0o10644, fs.ModeDir | 0o755, fs.ModeSetuid | 0o755} {
		what := fmt.Sprintf("mode %#o", uint32(mode))
		_, err := p.Write(t.Context(), "new", plainReader("x"), &workspace.WriteOptions{Mode: mode})
		wantCode(t, "Write with "+what, err, fault.InvalidArgument)
		_, err = p.Write(t.Context(), "file", plainReader("x"), &workspace.WriteOptions{Mode: mode, SetMode: true})
		wantCode(t, "Write over a file with "+what, err, fault.InvalidArgument)
		wantCode(t, "Mkdir with "+what, p.Mkdir(t.Context(), "dir", &workspace.MkdirOptions{Mode: mode}), fault.InvalidArgument)
		if p.d.FS.Chmod != nil {
			wantCode(t, "Chmod to "+what, p.Chmod(t.Context(), "file", mode), fault.InvalidArgument)
		}
	}
	p.wantContent(t, "file", "old")
	p.wantNames(t, ".", "file")
}

func writeTime(t testing.TB, e *Env) {
	p := e.open(t)
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	_, err := p.WriteFile(t.Context(), "file", []byte("x"), &workspace.WriteOptions{ModTime: at})
	wantNil(t, "Write", err)
	info, err := p.Stat(t.Context(), "file", nil)
	if wantNil(t, "Stat", err) && !info.ModTime.Equal(at) {
		t.Errorf("the time is %v, want %v", info.ModTime, at)
	}
}

func writeMaxSize(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "old")
	opts := &workspace.WriteOptions{MaxSize: 10}
	_, err := p.Write(t.Context(), "file", plainReader("12345678901"), opts)
	wantCode(t, "Write beyond MaxSize", err, fault.ResourceExhausted)
	_, err = p.Write(t.Context(), "new", plainReader("12345678901"), opts)
	wantCode(t, "Write beyond MaxSize", err, fault.ResourceExhausted)
	p.wantContent(t, "file", "old")
	p.wantNames(t, ".", "file")
	_, err = p.Write(t.Context(), "file", plainReader("1234567890"), opts)
	wantNil(t, "Write of exactly MaxSize", err)
	p.wantContent(t, "file", "1234567890")
}

func writeBodyFails(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "old")
	broken := errors.New("the body broke")
	for _, size := range []int{0, 10, 1 << 20} {
		for _, name := range []string{"file", "new"} {
			_, err := p.Write(t.Context(), name, failingReader(patternBytes(1, size), broken), nil)
			if err == nil {
				t.Errorf("Write of a body that fails after %d bytes succeeds", size)
			}
		}
		p.wantContent(t, "file", "old")
		p.wantNames(t, ".", "file")
	}
}

func writeCancelled(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "old")
	for _, name := range []string{"file", "new"} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.Write(ctx, name, cancellingReader(patternBytes(1, 4<<20), cancel), nil)
		cancel()
		wantCode(t, "Write with a context that ends under way", err, fault.Canceled)
	}
	p.wantContent(t, "file", "old")
	p.wantNames(t, ".", "file")
}

// writeAtomic replaces a file by another length and content while it is read
// concurrently. A reader may see only one of the two.
func writeAtomic(t testing.TB, e *Env) {
	p := e.open(t)
	contents := [][]byte{bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("b"), 200_001)}
	p.write(t, "file", string(contents[0]))
	ctx, stop := context.WithCancel(t.Context())
	var readers, writer sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				got, err := p.ReadFile(t.Context(), "file")
				if err != nil {
					t.Errorf("read during a write: %v", err)
					return
				}
				if !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
					t.Errorf("a reader sees %d bytes that are neither the old content nor the new", len(got))
					return
				}
			}
		})
	}
	writer.Go(func() {
		for i := range 60 {
			// In small pieces, to detect a write that is not atomic.
			body := struct{ io.Reader }{bytes.NewReader(contents[(i+1)%2])}
			if _, err := p.Write(t.Context(), "file", body, nil); err != nil {
				t.Errorf("write: %v", err)
				return
			}
		}
	})
	writer.Wait()
	stop()
	readers.Wait()
	p.wantNames(t, ".", "file")
}

func writeVariants(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "a long old content")
	for what, opts := range map[string]workspace.WriteOptions{"in place": {InPlace: true}, "synced": {Sync: true}} {
		for _, name := range []string{"file", "new " + what} {
			res, err := p.WriteFile(t.Context(), name, []byte(what), &opts)
			if wantNil(t, "Write "+what, err) && res.Digest != driver.DigestBytes([]byte(what)) {
				t.Errorf("Write %s gives the digest %s", what, res.Digest)
			}
			p.wantContent(t, name, what)
		}
	}
}

func writeSymlink(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/real", "old")
	if err := p.Symlink(t.Context(), "dir/real", "link"); err != nil {
		t.Fatalf("Symlink: %v", err)
	}
	_, err := p.WriteFile(t.Context(), "link", []byte("new"), nil)
	wantNil(t, "Write through a symlink", err)
	p.wantContent(t, "dir/real", "new")
	info, err := p.Stat(t.Context(), "link", &workspace.StatOptions{NoFollow: true})
	if wantNil(t, "Stat", err) && info.Type != driver.TypeSymlink {
		t.Errorf("the write turned the symlink into a %s", info.Type)
	}
}

func writeDiskFull(t testing.TB, e *Env) {
	const limit = 4 << 20
	p := e.open(t, func(s *driver.Spec) { s.Policy.Limits = driver.Limits{driver.ResourceDisk: {Max: limit}} })
	p.write(t, "small", "kept")
	_, err := p.Write(t.Context(), "big", bytes.NewReader(patternBytes(1, 2*limit)), nil)
	wantCode(t, "Write beyond the disk limit", err, fault.ResourceExhausted)
	p.wantMissing(t, "big")
	p.wantContent(t, "small", "kept")
	p.wantUsable(t)
}

func editAll(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "one two two three")
	res, err := p.Edit(t.Context(), "file", []workspace.Edit{
		{Old: "one", New: "ONE"}, {Old: "two", New: "TWO", All: true}, {Old: "ONE TWO", New: "1 2"},
	}, nil)
	if !wantNil(t, "Edit", err) {
		return
	}
	p.wantContent(t, "file", "1 2 TWO three")
	if len(res.Replaced) != 3 || res.Replaced[0] != 1 || res.Replaced[1] != 2 || res.Replaced[2] != 1 {
		t.Errorf("Edit says that it replaced %v, want [1 2 1]", res.Replaced)
	}
	if want := driver.DigestBytes([]byte("1 2 TWO three")); res.Write.Digest != want {
		t.Errorf("Edit gives the digest %q, want %q", res.Write.Digest, want)
	}
}

func editRefused(t testing.TB, e *Env) {
	p := e.open(t)
	const content = "one two two three"
	was := p.write(t, "file", content)
	one := workspace.Edit{Old: "one", New: "ONE"}
	tests := []struct {
		what  string
		edits []workspace.Edit
		opts  *workspace.EditOptions
		code  fault.Code
	}{
		{"a text that does not occur", []workspace.Edit{one, {Old: "four", New: "x"}}, nil, fault.NotFound},
		{"a text that occurs twice", []workspace.Edit{one, {Old: "two", New: "x"}}, nil, fault.Conflict},
		{"no text", []workspace.Edit{one, {Old: "", New: "x"}}, nil, fault.InvalidArgument},
		{"no edit", nil, nil, fault.InvalidArgument},
		{"no change", []workspace.Edit{{Old: "one", New: "one"}}, nil, fault.InvalidArgument},
		{"another digest", []workspace.Edit{one}, &workspace.EditOptions{IfMatch: driver.DigestBytes(nil)}, fault.Conflict},
	}
	for _, tt := range tests {
		_, err := p.Edit(t.Context(), "file", tt.edits, tt.opts)
		wantCode(t, "Edit with "+tt.what, err, tt.code)
		p.wantContent(t, "file", content)
	}
	_, err := p.Edit(t.Context(), "missing", []workspace.Edit{one}, nil)
	wantCode(t, "Edit of what is missing", err, fault.NotFound)
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "dir", nil))
	_, err = p.Edit(t.Context(), "dir", []workspace.Edit{one}, nil)
	wantCode(t, "Edit of a directory", err, fault.InvalidArgument)
	_, err = p.Edit(t.Context(), "file", []workspace.Edit{one}, &workspace.EditOptions{IfMatch: was.Digest})
	wantNil(t, "Edit with the digest", err)
	p.wantContent(t, "file", "ONE two two three")
}

// editConcurrently: each caller replaces its own text, through two handles. An edit
// that returned Conflict changed nothing; an acknowledged edit is there.
func editConcurrently(t testing.TB, e *Env) {
	const callers = 8
	p := e.open(t)
	handles := []*testWorkspace{p, e.resolve(t, p.spec, p.Ref())}
	content := ""
	for i := range callers {
		content += "[" + itoa(i) + "]\n"
	}
	for range 10 {
		p.write(t, "file", content)
		done := make([]bool, callers)
		runRace(t, callers, fault.Conflict, func(i int) error {
			mark := "[" + itoa(i) + "]"
			_, err := handles[i%2].Edit(t.Context(), "file", []workspace.Edit{{Old: mark, New: "done" + mark}}, nil)
			done[i] = err == nil
			return err
		})
		want := ""
		for i := range callers {
			if done[i] {
				want += "done"
			}
			want += "[" + itoa(i) + "]\n"
		}
		p.wantContent(t, "file", want)
	}
}
