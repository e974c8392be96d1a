package eval

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestPrune: of what an agent left beyond a bound the largest files go, a file with a
// hole takes no room, and logs stay.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"stdout.log": 400 << 10, "home/large": 600 << 10, "home/largest": 800 << 10, "small": 10 << 10} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hole"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "hole"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if files, _, err := removeLargest(dir, 10<<20); files != 0 || err != nil {
		t.Errorf("what is small enough: %d files go, %v", files, err)
	}
	if files, room, err := removeLargest(dir, 1<<20); files != 1 || room < 800<<10 || err != nil {
		t.Errorf("%d files with %d bytes go, %v", files, room, err)
	}
	for name, want := range map[string]bool{"stdout.log": true, "home/large": true, "home/largest": false, "small": true, "hole": true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", name, err, want)
		}
	}
}
