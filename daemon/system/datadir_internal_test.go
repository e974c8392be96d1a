package system

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Whoever finds no version must not take what another one makes at that moment
// for somebody else's.
func TestManyMakeADataDirectory(t *testing.T) {
	top := t.TempDir()
	for round := range 200 {
		dir := filepath.Join(top, strconv.Itoa(round))
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				<-start
				data, err := prepare(dir)
				if err == nil {
					_, err = loadToken(data)
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
