package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// A process that finds no version must not refuse a data directory that another
// process makes at that moment.
func TestManyMakeADataDirectory(t *testing.T) {
	top := t.TempDir()
	for round := range 200 {
		dir := filepath.Join(top, strconv.Itoa(round))
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				<-start
				data, err := Prepare(dir)
				if err == nil {
					_, err = Token(data)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
	}
}

// A version that another one made meanwhile is not taken for our own: it may be
// that of a later croft.
func TestMarkOfAnotherCroft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, VersionFile)
	if err := os.WriteFile(path, []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeVersion(dir, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("mark = %v, want that it is there", err)
	}
}
