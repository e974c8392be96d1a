package sparse_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/croft-run/croft/internal/sparse"
	"github.com/croft-run/croft/internal/testenv"
)

// zeroReader is an endless run of zeros.
type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestCopy(t *testing.T) {
	const hole = 32 << 20
	content := io.MultiReader(bytes.NewReader([]byte("begin")), io.LimitReader(zeroReader{}, hole), bytes.NewReader([]byte("end")))
	path := filepath.Join(t.TempDir(), "copy")
	size := copyTo(t, path, content, nil)
	data, err := os.ReadFile(path)
	if err != nil || size != hole+8 || len(data) != hole+8 || !bytes.HasPrefix(data, []byte("begin\x00")) || !bytes.HasSuffix(data, []byte("\x00end")) {
		t.Errorf("the copy has %d bytes, and Copy returns %d, %v; want %d", len(data), size, err, hole+8)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil || st.Blocks*512 > 1<<20 {
		t.Errorf("the copy takes %d bytes of the disk, %v", st.Blocks*512, err)
	}
	if size := copyTo(t, filepath.Join(t.TempDir(), "zeros"), io.LimitReader(zeroReader{}, hole+1), nil); size != hole+1 {
		t.Errorf("a copy of zeros has %d bytes, want %d", size, hole+1)
	}
}

// TestCopyLeavesRoom: data that does not fit ends the copy before the disk is full. Zeros fit.
func TestCopyLeavesRoom(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 8<<20)
	if size := copyTo(t, filepath.Join(dir, "zeros"), io.LimitReader(zeroReader{}, 1<<30), nil); size != 1<<30 {
		t.Errorf("a copy of zeros has %d bytes", size)
	}
	copyTo(t, filepath.Join(dir, "data"), bytes.NewReader(bytes.Repeat([]byte("x"), 9<<20)), syscall.ENOSPC)
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || st.Bavail == 0 {
		t.Errorf("the disk has %d free blocks, %v", st.Bavail, err)
	}
}

func copyTo(t *testing.T, path string, content io.Reader, want error) int64 {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	size, err := sparse.Copy(f, content)
	if !errors.Is(err, want) {
		t.Fatalf("Copy: %v, want %v", err, want)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return size
}
