package guestbin

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/version"
	"github.com/klauspost/compress/zstd"
)

func program(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, Name)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfiguredOneWins(t *testing.T) {
	path := program(t, t.TempDir(), "#!/bin/sh\n")
	b, err := Find(path)
	if err != nil || b.Path != path || b.Version == "" {
		t.Errorf("got %+v, %v", b, err)
	}
	other, err := Find(program(t, t.TempDir(), "#!/bin/sh\nexit\n"))
	if err != nil || other.Version == b.Version {
		t.Errorf("another program has the version %+v, %v", other, err)
	}
	if _, err := Find(filepath.Join(t.TempDir(), "none")); fault.Of(err) != fault.NotFound {
		t.Errorf("one that is missing gives %v", err)
	}
	if _, err := Find(t.TempDir()); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a directory gives %v", err)
	}
}

func TestOtherArchitecture(t *testing.T) {
	path := program(t, t.TempDir(), "#!/bin/sh\n")
	if b, err := FindFor(runtime.GOARCH, path); err != nil || b.Path != path {
		t.Errorf("for this architecture: %+v, %v", b, err)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	b, err := FindFor(other, path)
	if !Embedded(other) {
		if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), other) {
			t.Errorf("for %s: %+v, %v, want %v", other, b, err, fault.Unsupported)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[other]; f.Machine != want {
		t.Errorf("for %s the program is for %v", other, f.Machine)
	}
	if b, err := FindFor("riscv64", path); fault.Of(err) != fault.Unsupported {
		t.Errorf("for riscv64: %+v, %v, want %v", b, err, fault.Unsupported)
	}
}

func TestWithoutAnyItSaysWhereItLooked(t *testing.T) {
	if Embedded(runtime.GOARCH) {
		t.Skip("skipped: this build carries the program")
	}
	t.Setenv("PATH", t.TempDir())
	_, err := Find("")
	if fault.Of(err) != fault.Unsupported {
		t.Fatalf("got %v", err)
	}
	for _, word := range []string{"built without", "configured", "beside", "PATH", "make guests"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %q", word, err)
		}
	}
	path := program(t, os.Getenv("PATH"), "#!/bin/sh\n")
	if b, err := Find(""); err != nil || b.Path != path {
		t.Errorf("one on PATH gives %+v, %v", b, err)
	}
}

func TestRemedyIsACommand(t *testing.T) {
	for _, tt := range []struct {
		build version.Info
		want  string
	}{
		{version.Info{Version: version.Devel}, "make guests"},
		{version.Info{Version: "v0.0.0-2026+dirty", Commit: "abc"}, "make guests"},
		{version.Info{Version: "v0.1.1-0.2026"}, "go install github.com/croft-run/croft/cmd/croft-guest@v0.1.1-0.2026"},
	} {
		if got := remedy(tt.build); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: got %q, want %q in it", tt.build, got, tt.want)
		}
	}
}

// TestUnpackedProgramRunsAndCantBeChanged unpacks a program of the host.
func TestUnpackedProgramRunsAndCantBeChanged(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the guest runs on Linux alone")
	}
	data, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skip("skipped: host: it has no /bin/true")
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := unpack(bytes.NewReader(enc.EncodeAll(data, nil)))
	if err != nil {
		t.Fatal(err)
	}
	path := b.Path
	if err := os.WriteFile(path, []byte("x"), 0o600); err == nil {
		t.Error("it can be written")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("it has %d bytes, %v; want the %d that were compressed", len(got), err, len(data))
	}
	cmd := exec.Cmd{Path: "/proc/self/fd/3", ExtraFiles: []*os.File{f}}
	if err := cmd.Run(); err != nil {
		t.Errorf("it does not run: %v", err)
	}
}

func TestUnpackOfDamagedDataFails(t *testing.T) {
	if b, err := unpack(strings.NewReader("not zstd")); err == nil {
		t.Errorf("got %+v", b)
	}
}

// TestVersionIsOfTheContent: programs that Go built differ where their build IDs do,
// and one without is told by all of it.
func TestVersionIsOfTheContent(t *testing.T) {
	build := func(text, ldflags string) (b *Binary, id string) {
		t.Helper()
		dir := t.TempDir()
		src, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
		if err := os.WriteFile(src, []byte("package main\n\nfunc main() { println(\""+text+"\") }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", ldflags, "-o", out, src)
		cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		b, err := Find(out)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return b, buildID(f)
	}
	one, id := build("one", "-s -w")
	if id == "" {
		t.Error("what Go built has no build ID")
	}
	same, _ := build("one", "-s -w")
	other, _ := build("two", "-s -w")
	if one.Version != same.Version || one.Version == other.Version {
		t.Errorf("versions of one program: %s and %s; of another: %s", one.Version, same.Version, other.Version)
	}
	bare, id := build("one", "-s -w -buildid=")
	bareOther, _ := build("two", "-s -w -buildid=")
	if id != "" || bare.Version == bareOther.Version {
		t.Errorf("without build IDs: %q, versions %s and %s", id, bare.Version, bareOther.Version)
	}
}

func FuzzBuildID(f *testing.F) {
	if self, err := os.ReadFile(os.Args[0]); err == nil {
		f.Add(self[:min(len(self), 8<<10)])
	}
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(_ *testing.T, data []byte) { buildID(bytes.NewReader(data)) })
}
