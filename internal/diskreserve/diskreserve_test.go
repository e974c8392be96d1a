package diskreserve_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/croft-run/croft/internal/diskreserve"
	"github.com/croft-run/croft/internal/testenv"
)

func TestReserve(t *testing.T) {
	r := diskreserve.Reserve{Path: filepath.Join(t.TempDir(), "reserve"), Size: 64 << 10}
	if r.Release() {
		t.Error("a reserve that was never made was released")
	}
	for range 2 { // the second call finds it
		if err := r.Make(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(r.Path)
	if err != nil || info.Size() != r.Size || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Blocks*512 < r.Size {
		t.Errorf("the reserve is %v, %v", info, err)
	}
	if !r.Release() {
		t.Error("it was not released")
	}
}

func TestFullDisk(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 1<<20)
	r := diskreserve.Reserve{Path: filepath.Join(dir, "reserve"), Size: 2 << 20}
	if err := r.Make(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Make: %v, want %v", err, syscall.ENOSPC)
	}
	if r.Release() {
		t.Error("a part of it was left")
	}
}
