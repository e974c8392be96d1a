package backup

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/croft-run/croft/fault"
)

func write(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := newWriter(&out, Header{Format: format, Layout: 2, Croft: "v1", Created: time.Unix(1, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := w.Add(name, int64(len(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(Contents{Snapshots: 3}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func accept(Header) error { return nil }

func isKnown(name string) bool { return strings.HasPrefix(name, "store/") || name == "croft.db" }

func extract(t testing.TB, data []byte, dir string) (*Header, *Contents, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return extractFiles(bytes.NewReader(data), root, accept, isKnown)
}

func TestWhatIsWrittenIsExtracted(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("x", 3<<20)
	head, c, err := extract(t, write(t, map[string]string{"croft.db": "records", "store/packs/a": big}), dir)
	if err != nil {
		t.Fatal(err)
	}
	if head.Croft != "v1" || head.Layout != 2 || c.Snapshots != 3 {
		t.Errorf("header %+v, contents %+v", head, c)
	}
	for name, want := range map[string]string{"croft.db": "records", "store/packs/a": big} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %d bytes, %v", name, len(got), err)
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	data := write(t, map[string]string{"croft.db": "records", "store/packs/a": strings.Repeat("pack", 100)})
	for n := range len(data) {
		if _, _, err := extract(t, data[:n], t.TempDir()); fault.Of(err) != fault.InvalidArgument {
			t.Fatalf("cut to %d of %d bytes: %v, want InvalidArgument", n, len(data), err)
		}
	}
}

func TestChangedBytesAreRefused(t *testing.T) {
	data := write(t, map[string]string{"croft.db": "records"})
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x55
		if _, _, err := extract(t, bad, t.TempDir()); err == nil {
			t.Errorf("byte %d of %d changed: no error", i, len(data))
		}
	}
}

// pack compresses an archive of entries, as another program might.
func pack(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	zip, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zip)
	for _, e := range entries {
		body := e.PAXRecords["body"]
		e.PAXRecords = nil
		e.Mode, e.Size = 0o600, int64(len(body))
		if err := w.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func entry(name, body string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"body": body}}
}

func TestHostileEntriesAreRefused(t *testing.T) {
	const head, end = `{"format":1,"layout":2}`, `{"files":{}}`
	for name, entries := range map[string][]tar.Header{
		"parent":         {entry("data/../../up", "x")},
		"absolute":       {entry("data//etc/passwd", "x")},
		"no data":        {entry("store/a", "x")},
		"unknown":        {entry("data/ws/x", "x")},
		"not clean":      {entry("data/store/./a", "x")},
		"symlink":        {{Name: "data/store/link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
		"hard link":      {{Name: "data/store/link", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"device":         {{Name: "data/store/dev", Typeflag: tar.TypeChar}},
		"twice":          {entry("data/store/a", "x"), entry("data/store/a", "y")},
		"not listed":     {entry("data/store/a", "x")},
		"file over file": {entry("data/store/a", "x"), entry("data/store/a/b", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "in", "here")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			all := append(append([]tar.Header{entry(headerName, head)}, entries...), entry(manifestName, end))
			if _, _, err := extract(t, pack(t, all...), dir); err == nil {
				t.Error("no error")
			}
			if list, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(list) != 1 {
				t.Errorf("beside the directory: %v, %v", list, err)
			}
		})
	}
}

func TestOtherFormatsAreRefused(t *testing.T) {
	_, _, err := extract(t, pack(t, entry(headerName, `{"format":2,"croft":"v9"}`)), t.TempDir())
	if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), `format 2, of croft "v9"`) {
		t.Errorf("a later format: %v", err)
	}
	_, _, err = extract(t, pack(t, entry("readme", "x")), t.TempDir())
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "no backup") {
		t.Errorf("another archive: %v", err)
	}
	_, _, err = extract(t, []byte("PK\x03\x04 not zstd"), t.TempDir())
	if fault.Of(err) != fault.InvalidArgument {
		t.Errorf("another file: %v", err)
	}
}

// FuzzExtract checks that no input panics, or writes beside its directory or anything but
// files there.
func FuzzExtract(f *testing.F) {
	unpacked := func(data []byte) []byte {
		zip, err := zstd.NewReader(nil)
		if err != nil {
			f.Fatal(err)
		}
		defer zip.Close()
		plain, err := zip.DecodeAll(data, nil)
		if err != nil {
			f.Fatal(err)
		}
		return plain
	}
	f.Add(unpacked(write(f, map[string]string{"croft.db": "records", "store/packs/a": "pack"})))
	f.Add(unpacked(pack(f, entry(headerName, `{"format":1}`), tar.Header{Name: "data/store/x", Typeflag: tar.TypeSymlink, Linkname: ".."}, entry("data/store/x/y", "z"))))
	zip, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		if len(plain) > 1<<20 {
			t.Skip("too long")
		}
		dir := filepath.Join(t.TempDir(), "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{zip.EncodeAll(plain, nil), plain} {
			extract(t, data, dir) // most inputs are refused
		}
		if list, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(list) != 1 {
			t.Errorf("beside the directory: %v, %v", list, err)
		}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !d.Type().IsRegular() {
				t.Errorf("%s has type %s", path, d.Type())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
