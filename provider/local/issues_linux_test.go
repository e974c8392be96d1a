package local

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// A bind mount gave forbidden ground another name.
func TestInPlaceOnABindMountOfForbiddenGround(t *testing.T) {
	top := t.TempDir()
	data := filepath.Join(top, "data")
	must(t, os.MkdirAll(filepath.Join(data, "filestore", "deep"), 0o700))
	p, err := New(&Config{Root: filepath.Join(data, "ws"), Forbidden: []string{data}})
	must(t, err)
	other := open(t, p)
	for _, source := range []string{data, filepath.Join(data, "filestore"), filepath.Join(data, "ws"), filepath.Dir(other.Traits.Root), top} {
		at := t.TempDir()
		if err := unix.Mount(source, at, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("skipped: host: bind mounts can't be made: %v", err)
		}
		t.Cleanup(func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) })
		_, err := p.Open(t.Context(), spec(in(at)))
		wantCode(t, "Open of a mount of "+source, err, fault.InvalidArgument)
		if inner := filepath.Join(at, "filestore"); source == data {
			_, err := p.Open(t.Context(), spec(in(inner)))
			wantCode(t, "Open below a mount of "+source, err, fault.InvalidArgument)
		}
	}
}
