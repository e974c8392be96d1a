package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/internal/daemon/cli"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
)

// TestGetSparse: what leaves a workspace keeps its holes, and a file with more data than there is
// room for is left out and named, with the disk not full and the other files copied.
func TestGetSparse(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p, err := testshell.New(filepath.Join(data, "shelltest"))
	if err != nil {
		t.Fatal(err)
	}
	croft := func(args ...string) (status int, stderr string) {
		var errs bytes.Buffer
		status = cli.Run(t.Context(), append([]string{"croft", "--data", data}, args...), console.Streams{In: strings.NewReader(""),
			Out: &bytes.Buffer{}, Err: &errs}, p)
		return status, errs.String()
	}
	must := func(args ...string) {
		t.Helper()
		if status, stderr := croft(args...); status != 0 {
			t.Fatalf("croft %s: %d: %s", args, status, stderr)
		}
	}
	must("ws", "open", "demo", "--provider", "shelltest")
	must("ws", "exec", "demo", "--", "sh", "-c", "mkdir d; cd d; truncate -s 64M holes; echo data >> holes; echo a > a; echo z > z")
	out := filepath.Join(t.TempDir(), "out")
	must("ws", "get", "demo", "d", out)
	must("ws", "get", "demo", "d/holes", filepath.Join(out, "one"))
	must("collect", "demo", "d/**", "--output-dir", filepath.Join(out, "collected"))
	must("collect", "demo", "d/holes", "--save", "--max-file-bytes", "128000000", "--max-total-bytes", "128000000")
	must("artifact", "get", "demo", "d/holes", filepath.Join(out, "artifact"))
	must("ws", "put", "demo", out, "back")
	must("ws", "get", "demo", "back", filepath.Join(out, "again"))
	for _, name := range []string{"holes", "one", "collected/d/holes", "artifact", "again/one"} {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(out, name), &st); err != nil || st.Size != 64<<20+5 || st.Blocks*512 > 1<<20 {
			t.Errorf("%s has %d bytes and takes %d, %v", name, st.Size, st.Blocks*512, err)
		}
	}
	small := testenv.NeedsTmpfs(t, 4<<20)
	must("ws", "exec", "demo", "--", "sh", "-c", "cd d; head -c 8M /dev/urandom > big")
	status, stderr := croft("ws", "get", "demo", "d", filepath.Join(small, "out"))
	if status != 16 || !strings.Contains(stderr, "left out d/big: it has more data than there is room for") || !strings.Contains(stderr, "got 3 files") {
		t.Errorf("ws get of more than the disk: %d: %s", status, stderr)
	}
	for _, name := range []string{"a", "z", "holes"} {
		if _, err := os.Stat(filepath.Join(small, "out", name)); err != nil {
			t.Errorf("%s was not copied: %v", name, err)
		}
	}
	status, stderr = croft("ws", "get", "demo", "d/big", filepath.Join(small, "one"))
	if status != 16 || !strings.Contains(stderr, filepath.Join(small, "one")) {
		t.Errorf("ws get of one file: %d: %s", status, stderr)
	}
}
