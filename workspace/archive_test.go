package workspace_test

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

// pack is a tar stream of entries; content is the target of a symlink.
func pack(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range entries {
		content := h.Uname
		h.Uname = ""
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func dir(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
func link(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
}
func file(name, text string) tar.Header { return tar.Header{Name: name, Uname: text, Mode: 0o640} }

func openMemory(t testing.TB) *workspace.Workspace {
	t.Helper()
	ws, err := workspace.NewMux(new(memory.Provider)).Open(t.Context(), workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ws
}

func paths(t testing.TB, ws *workspace.Workspace) []string {
	t.Helper()
	page, err := ws.List(t.Context(), ".", &workspace.ListOptions{Depth: -1, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range page.Entries {
		list = append(list, e.Path)
	}
	return list
}

func TestImportArchive(t *testing.T) {
	ws := openMemory(t)
	stream := pack(t, dir("."), file("a\nb", "odd"), dir("d"), file("d/\xff", "odder"), link("d/in", "../a\nb"), link("out", "/etc/passwd"), tar.Header{Name: "fifo", Typeflag: tar.TypeFifo})
	res, err := ws.ImportArchive(t.Context(), bytes.NewReader(stream), "to/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Files != 2 || res.Dirs != 1 || res.Symlinks != 1 || res.Skips != 2 || res.Bytes != 8 {
		t.Errorf("the result is %+v", res)
	}
	want := []string{"to", "to/x", "to/x/a\nb", "to/x/d", "to/x/d/in", "to/x/d/\xff"}
	if got := paths(t, ws); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if info, err := ws.Stat(t.Context(), "to/x/a\nb", nil); err != nil || info.Mode != 0o640 {
		t.Errorf("mode %o, %v", info.Mode, err)
	}
	if _, err := ws.ImportArchive(t.Context(), bytes.NewReader(stream), "to/x", nil); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("over what is there: %v", err)
	}
}

// TestImportArchiveWithoutDirectories: the archive of an SDK has no entries of directories for the
// files that a glob matches. The mode of an entry that comes late counts.
func TestImportArchiveWithoutDirectories(t *testing.T) {
	ws := openMemory(t)
	stream := pack(t, file("d/e/a", "x"), file("d/b", "y"), tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o711}, file("c", "z"))
	if _, err := ws.ImportArchive(t.Context(), bytes.NewReader(stream), "x", nil); err != nil {
		t.Fatal(err)
	}
	if got, want := paths(t, ws), []string{"x", "x/c", "x/d", "x/d/b", "x/d/e", "x/d/e/a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, want := range map[string]fs.FileMode{"x/d": 0o711, "x/d/e": 0o755} {
		if info, err := ws.Stat(t.Context(), name, nil); err != nil || info.Mode.Perm() != want {
			t.Errorf("%s: mode %o, %v, want %o", name, info.Mode, err, want)
		}
	}
}

// Whatever a stream holds, nothing is made but below the path, and of one that is
// refused nothing stays.
func TestImportArchiveRefuses(t *testing.T) {
	whole := pack(t, dir("."), file("a", strings.Repeat("x", 4096)))
	for name, test := range map[string]struct {
		stream []byte
		opts   workspace.ImportOptions
		code   fault.Code
	}{
		"parent":      {pack(t, file("../a", "x")), workspace.ImportOptions{}, fault.InvalidArgument},
		"deep parent": {pack(t, dir("d"), file("d/../../a", "x")), workspace.ImportOptions{}, fault.InvalidArgument},
		"absolute":    {pack(t, file("/a", "x")), workspace.ImportOptions{}, fault.InvalidArgument},
		"through a symlink": {
			pack(t, link("l", "../victim"), file("l/a", "x")), workspace.ImportOptions{}, fault.InvalidArgument,
		},
		"a file for a directory": {pack(t, file("f", "x"), file("f/a", "x")), workspace.ImportOptions{}, fault.InvalidArgument},
		"a file, and in it":      {pack(t, file("f", "x"), file("f/d/a", "x")), workspace.ImportOptions{}, fault.InvalidArgument},
		"too many directories":   {pack(t, file("a/b/c", "x")), workspace.ImportOptions{MaxFiles: 2}, fault.ResourceExhausted},
		"twice":                  {pack(t, file("a", "x"), file("a", "y")), workspace.ImportOptions{}, fault.AlreadyExists},
		"cut":                    {whole[:1500], workspace.ImportOptions{}, ""},
		"noise":                  {bytes.Repeat([]byte("noise"), 1000), workspace.ImportOptions{}, fault.InvalidArgument},
		"too many":               {pack(t, file("a", ""), file("b", "")), workspace.ImportOptions{MaxFiles: 1}, fault.ResourceExhausted},
		"too much":               {whole, workspace.ImportOptions{MaxBytes: 4095}, fault.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			ws := openMemory(t)
			if _, err := ws.WriteFile(t.Context(), "victim/a", []byte("precious"), &workspace.WriteOptions{Parents: true}); err != nil {
				t.Fatal(err)
			}
			_, err := ws.ImportArchive(t.Context(), bytes.NewReader(test.stream), "x", &test.opts)
			if got := fault.Of(err); err == nil || test.code != "" && got != test.code {
				t.Errorf("got %v (%s), want %s", err, got, test.code)
			}
			if got, want := paths(t, ws), []string{"victim", "victim/a"}; !slices.Equal(got, want) {
				t.Errorf("there is %q, want %q", got, want)
			}
		})
	}
}

func FuzzImportArchive(f *testing.F) {
	f.Add(pack(f, dir("."), dir("d"), file("d/a", "x"), link("d/l", "a")))
	f.Add(pack(f, file("../a", "x")))
	f.Add([]byte("noise"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		ws := openMemory(t)
		res, err := ws.ImportArchive(t.Context(), bytes.NewReader(stream), "x", &workspace.ImportOptions{MaxFiles: 100, MaxBytes: 1 << 20})
		for _, p := range paths(t, ws) {
			if p != "x" && !strings.HasPrefix(p, "x/") || err != nil {
				t.Errorf("there is %q, after %+v, %v", p, res, err)
			}
		}
	})
}
