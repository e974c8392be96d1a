package guestd

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLeaseEndsWithoutAnOwnerOrAWorkspace(t *testing.T) {
	for name, tt := range map[string]struct {
		owners []int
		gone   time.Duration // 0 is never
		after  time.Duration // the last word about owners
		want   bool
	}{
		"never had one":             {nil, 0, 11 * time.Minute, true},
		"not yet":                   {nil, 0, 9 * time.Minute, false},
		"has one":                   {[]int{1, 2, 1}, 0, time.Hour, false},
		"has one and no workspace":  {[]int{1, 2, 1}, time.Second, time.Minute, true},
		"lost it":                   {[]int{1, 0}, 0, 11 * time.Minute, true},
		"lost it just now":          {[]int{1, 0}, 0, 9 * time.Minute, false},
		"came back":                 {[]int{1, 0, 1}, 0, time.Hour, false},
		"lost it and the workspace": {[]int{1, 0}, time.Second, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, ends := time.Now(), 0
				gone := func() bool { return tt.gone > 0 && time.Since(start) > tt.gone }
				l := newLease(10*time.Minute, gone, func() { ends++ })
				for _, n := range tt.owners {
					l.setClients(n)
				}
				time.Sleep(tt.after)
				synctest.Wait()
				if l.stop(); (ends == 1) != tt.want || ends > 1 {
					t.Errorf("it ended %d times, want %v", ends, tt.want)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if (ends == 1) != tt.want {
					t.Errorf("it ended %d times after it was stopped", ends)
				}
			})
		})
	}
}
