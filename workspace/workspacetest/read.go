package workspacetest

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var readChecks = []Check{
	{"Stat/describes-files-and-directories", needFS, statDescribes},
	{"Stat/gives-the-digest-on-request", needFS, statDigest},
	{"Stat/gives-a-mark-that-changes-with-the-content", needFS, statMark},
	{"Stat/of-what-is-missing-is-NotFound", needFS, statMissing},
	{"Read/returns-what-was-written", needFS, readBack},
	{"Read/of-what-is-missing-is-NotFound", needFS, readMissing},
	{"Read/of-a-directory-is-refused", needFS, readDirectory},
	{"Read/takes-ranges", needFS, readRanges},
	{"Read/of-an-empty-file-is-empty", needFS, readEmpty},
	{"Read/describes-the-very-file", needFS, readInfo},
	{"Read/keeps-the-file-that-it-opened", needFS, readKeeps},
	{"Read/streams-a-big-file", needFS, readBig},
	{"ReadDir/lists-one-level-sorted", needFS, readDirSorted},
	{"ReadDir/of-what-is-no-directory-is-refused", needFS, readDirRefused},
}

func statDescribes(t testing.TB, e *Env) {
	p := e.open(t)
	start := time.Now().Add(-time.Minute) // clocks of engines differ a little
	p.write(t, "dir/file", "12345")
	info, err := p.Stat(t.Context(), "dir/file", nil)
	if wantNil(t, "Stat", err) {
		if info.Path != "dir/file" || info.Name() != "file" || info.Type != driver.TypeFile || info.Size != 5 {
			t.Errorf("Stat of a file gives %+v", info)
		}
		if info.Mode != 0o644 {
			t.Errorf("a new file has mode %o, want 644", info.Mode)
		}
		if info.ModTime.Before(start) || info.ModTime.After(time.Now().Add(time.Minute)) {
			t.Errorf("a new file has the time %v", info.ModTime)
		}
		if info.Digest != "" {
			t.Errorf("Stat gives a digest that nobody asked for: %q", info.Digest)
		}
	}
	info, err = p.Stat(t.Context(), "dir", nil)
	if wantNil(t, "Stat", err) && (info.Path != "dir" || info.Type != driver.TypeDir || info.Mode != 0o755) {
		t.Errorf("Stat of a directory gives %+v, want mode 755", info)
	}
	info, err = p.Stat(t.Context(), ".", nil)
	if wantNil(t, "Stat of the workspace", err) && (info.Type != driver.TypeDir || info.Path != ".") {
		t.Errorf("Stat of the workspace gives %+v", info)
	}
}

func statDigest(t testing.TB, e *Env) {
	p := e.open(t)
	res := p.write(t, "file", "content")
	want := driver.DigestBytes([]byte("content"))
	if res.Digest != want {
		t.Errorf("Write gives the digest %q, want %q", res.Digest, want)
	}
	info, err := p.Stat(t.Context(), "file", &workspace.StatOptions{Digest: true})
	if wantNil(t, "Stat", err) && info.Digest != want {
		t.Errorf("Stat gives the digest %q, want %q", info.Digest, want)
	}
	_, err = p.Stat(t.Context(), ".", &workspace.StatOptions{Digest: true})
	wantNil(t, "Stat of a directory with digest", err)
}

// statMark checks that a change token, if there is one, stays equal without a change,
// and differs after a change that keeps size and time.
func statMark(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "good")
	marked := func() (stat, listed workspace.Info) {
		t.Helper()
		stat, err := p.Stat(t.Context(), "file", &workspace.StatOptions{ChangeToken: true})
		wantNil(t, "Stat", err)
		page, err := p.List(t.Context(), ".", &workspace.ListOptions{ChangeToken: true})
		if !wantNil(t, "List", err) || len(page.Entries) != 1 {
			t.Fatalf("List gives %+v", page.Entries)
		}
		return stat, page.Entries[0]
	}
	before, listed := marked()
	if again, _ := marked(); again.ChangeToken != before.ChangeToken || listed.ChangeToken != before.ChangeToken {
		t.Errorf("the mark is %q, then %q, and %q in a list", before.ChangeToken, again.ChangeToken, listed.ChangeToken)
	}
	p.waitClock(t)
	_, err := p.Write(t.Context(), "file", strings.NewReader("evil"), &workspace.WriteOptions{ModTime: before.ModTime, InPlace: true})
	wantNil(t, "Write", err)
	after, _ := marked()
	if before.ChangeToken != "" && after.ChangeToken == before.ChangeToken {
		t.Errorf("the mark is %q also after the content was changed", after.ChangeToken)
	}
	plain, err := p.Stat(t.Context(), "file", nil)
	if wantNil(t, "Stat", err) && plain.ChangeToken != "" {
		t.Errorf("the mark is %q where it was not asked for", plain.ChangeToken)
	}
}

// waitClock waits until the clock of file times has moved: on a busy machine it may stand
// still for a while.
func (p *testWorkspace) waitClock(t testing.TB) {
	t.Helper()
	const name = "clock"
	first := p.write(t, name, "").Info.ModTime
	for till := time.Now().Add(waitLimit); !p.write(t, name, "").Info.ModTime.After(first); time.Sleep(time.Millisecond) {
		if time.Now().After(till) {
			t.Fatalf("files have had the time %v for %v", first, waitLimit)
		}
	}
	wantNil(t, "Remove", p.Remove(t.Context(), name, nil))
}

func statMissing(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "x")
	for _, name := range []string{"missing", "missing/below"} {
		_, err := p.Stat(t.Context(), name, nil)
		wantCode(t, "Stat of "+name, err, fault.NotFound)
	}
	_, err := p.Stat(t.Context(), "file/below", nil)
	wantCode(t, "Stat below a file", err, fault.NotFound, fault.InvalidArgument)
}

func readBack(t testing.TB, e *Env) {
	p := e.open(t)
	for _, size := range []int{1, 100, 4095, 4096, 4097, 65536, 1<<20 + 3} {
		data := string(patternBytes(byte(size), size))
		p.write(t, "file", data)
		p.wantContent(t, "file", data)
	}
}

func readMissing(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "x")
	for _, name := range []string{"missing", "missing/below"} {
		_, err := p.ReadFile(t.Context(), name)
		wantCode(t, "Read of "+name, err, fault.NotFound)
	}
	_, err := p.ReadFile(t.Context(), "file/below")
	wantCode(t, "Read below a file", err, fault.NotFound, fault.InvalidArgument)
}

func readDirectory(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "x")
	for _, name := range []string{"dir", "."} {
		_, err := p.ReadFile(t.Context(), name)
		wantCode(t, "Read of a directory", err, fault.InvalidArgument)
	}
}

func readRanges(t testing.TB, e *Env) {
	p := e.open(t)
	const content = "0123456789"
	p.write(t, "file", content)
	tests := []struct {
		offset, limit int64
		want          string
	}{
		{0, 0, content}, {0, 4, "0123"}, {3, 0, "3456789"}, {3, 4, "3456"}, {8, 100, "89"},
		{10, 0, ""}, {10, 5, ""}, {1000, 0, ""}, {1 << 40, 10, ""}, {9, 1, "9"},
	}
	for _, tt := range tests {
		body, info, err := p.Read(t.Context(), "file", &workspace.ReadOptions{Offset: tt.offset, Limit: tt.limit})
		if !wantNil(t, "Read", err) {
			continue
		}
		got, err := readAll(body)
		if err != nil || got != tt.want {
			t.Errorf("offset %d, limit %d: got %q, %v; want %q", tt.offset, tt.limit, got, err, tt.want)
		}
		if info.Size != int64(len(content)) {
			t.Errorf("offset %d, limit %d: Info.Size is %d, want that of the file, %d", tt.offset, tt.limit, info.Size, len(content))
		}
	}
	for _, opts := range []workspace.ReadOptions{{Offset: -1}, {Limit: -1}} {
		_, _, err := p.Read(t.Context(), "file", &opts)
		wantCode(t, "Read of a negative range", err, fault.InvalidArgument)
	}
}

func readEmpty(t testing.TB, e *Env) {
	p := e.open(t)
	res := p.write(t, "empty", "")
	if want := driver.DigestBytes(nil); res.Digest != want || res.Info.Size != 0 {
		t.Errorf("Write of nothing gives %+v, want the digest %s", res, want)
	}
	p.wantContent(t, "empty", "")
}

func readInfo(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "12345")
	body, info, err := p.Read(t.Context(), "dir/file", nil)
	if !wantNil(t, "Read", err) {
		return
	}
	wantNil(t, "Close", body.Close())
	stat, err := p.Stat(t.Context(), "dir/file", nil)
	wantNil(t, "Stat", err)
	if info.Path != stat.Path || info.Type != stat.Type || info.Size != stat.Size || info.Mode != stat.Mode || !info.ModTime.Equal(stat.ModTime) {
		t.Errorf("Read gives %+v, but Stat %+v", info, stat)
	}
}

// readKeeps: an open file is readable to its end, whatever happens to its name.
func readKeeps(t testing.TB, e *Env) {
	p := e.open(t)
	old := string(patternBytes(1, 1<<20))
	for what, change := range map[string]func() error{
		"replaced": func() error {
			_, err := p.WriteFile(t.Context(), "file", []byte("new"), nil)
			return err
		},
		"removed": func() error { return p.Remove(t.Context(), "file", nil) },
	} {
		p.write(t, "file", old)
		body, _, err := p.Read(t.Context(), "file", nil)
		if !wantNil(t, "Read", err) {
			return
		}
		head := make([]byte, 10)
		if _, err := io.ReadFull(body, head); err != nil {
			t.Errorf("read: %v", err)
		}
		wantNil(t, "change", change())
		rest, err := readAll(body)
		if err != nil || string(head)+rest != old {
			t.Errorf("a file that was %s while it was read yields %d bytes, %v; want the old %d", what, 10+len(rest), err, len(old))
		}
	}
}

func readBig(t testing.TB, e *Env) {
	p := e.open(t)
	const size = 20 << 20
	chunk := patternBytes(7, 1<<16)
	h := driver.NewDigest()
	body := io.TeeReader(io.LimitReader(&repeatReader{chunk: chunk}, size), h)
	res, err := p.Write(t.Context(), "big", struct{ io.Reader }{body}, nil)
	if !wantNil(t, "Write of 20 MiB", err) {
		return
	}
	want := driver.SumDigest(h)
	if res.Digest != want || res.Info.Size != size {
		t.Errorf("Write gives %d bytes with digest %s, want %d with %s", res.Info.Size, res.Digest, size, want)
	}
	r, info, err := p.Read(t.Context(), "big", nil)
	if !wantNil(t, "Read", err) {
		return
	}
	got, err := driver.DigestReader(r)
	wantNil(t, "Close", r.Close())
	if err != nil || got != want || info.Size != size {
		t.Errorf("Read gives %d bytes with digest %s, %v; want %d with %s", info.Size, got, err, size, want)
	}
	r, _, err = p.Read(t.Context(), "big", &workspace.ReadOptions{Offset: size - 5, Limit: 100})
	if wantNil(t, "Read of the end", err) {
		tail, err := readAll(r)
		if want := string(chunk[len(chunk)-5:]); err != nil || tail != want {
			t.Errorf("the last 5 bytes are %q, %v; want %q", tail, err, want)
		}
	}
}

// repeatReader yields a chunk repeatedly.
type repeatReader struct {
	chunk []byte
	at    int
}

func (r *repeatReader) Read(p []byte) (int, error) {
	n := copy(p, r.chunk[r.at:])
	r.at = (r.at + n) % len(r.chunk)
	return n, nil
}

func readDirSorted(t testing.TB, e *Env) {
	p := e.open(t)
	for _, name := range []string{"b", "a/inner", "c", "a.txt", "a-b", "B", ".hidden", "10", "9"} {
		p.write(t, name, name)
	}
	p.wantNames(t, ".", ".hidden", "10", "9", "B", "a", "a-b", "a.txt", "b", "c")
	entries, err := p.ReadDir(t.Context(), "a")
	if !wantNil(t, "ReadDir", err) {
		return
	}
	if len(entries) != 1 || entries[0].Path != "a/inner" || entries[0].Type != driver.TypeFile || entries[0].Size != int64(len("a/inner")) {
		t.Errorf("ReadDir gives %+v", entries)
	}
	if err := p.Mkdir(t.Context(), "void", nil); err == nil {
		p.wantNames(t, "void")
	}
}

func readDirRefused(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "x")
	_, err := p.ReadDir(t.Context(), "missing")
	wantCode(t, "ReadDir of what is missing", err, fault.NotFound)
	_, err = p.ReadDir(t.Context(), "file")
	wantCode(t, "ReadDir of a file", err, fault.InvalidArgument)
	if err != nil && !strings.Contains(err.Error(), "file") {
		t.Errorf("the error does not name the file: %v", err)
	}
}
