package protect

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	lateInterval = 250 * time.Millisecond
	lateFirst    = 2 * time.Millisecond // the wait before the second attempt to protect a repository; it doubles
	lateLast     = 10 * time.Second
)

// A lateAttempt is when a repository that could not be protected is tried again: at first what writes
// to it, such as git clone, may be in the way; later each attempt, which freezes the workload, is rare.
type lateAttempt struct {
	wait time.Duration
	next time.Time
}

// lateRetry says when run looks again without an event. Nothing tells that git has replaced
// a protected file of a repository that is shown itself, as it does at the end of a clone.
func (g *Guest) lateRetry(pending bool, wait time.Duration, failed map[string]lateAttempt) <-chan time.Time {
	var waits []time.Duration
	if pending {
		waits = append(waits, min(wait, lateInterval))
	}
	if g.settings.Late {
		if g.settings.Shared {
			waits = append(waits, max(wait, lateFirst))
		}
		for _, a := range failed {
			waits = append(waits, time.Until(a.next))
		}
	}
	if len(waits) == 0 {
		return nil
	}
	return time.After(slices.Min(waits))
}

// Start protects repositories that appear while commands run, and reports them, until the
// connection ends.
func (g *Guest) Start() {
	if g.repos != nil {
		go g.run()
	}
}

func (g *Guest) run() {
	var again <-chan time.Time
	var reported []lateGit
	failed := map[string]lateAttempt{} // what can't be protected, by path and identity: it delays no protection of others
	for wait := time.Duration(0); ; {
		select {
		case <-g.ws.Context.Done():
			return
		case <-g.client.Gone():
			return
		case <-g.repos.done:
			return
		case <-g.repos.appeared:
			wait = lateFirst
		case <-again:
			wait = min(2*wait, lateLast)
		}
		open, pending := g.openRepos()
		ids := map[string]lateAttempt{}
		for _, e := range open {
			id := g.repos.identity(e)
			ids[id] = failed[id]
		}
		failed = ids
		due := g.settings.Late && slices.ContainsFunc(slices.Collect(maps.Values(ids)), func(a lateAttempt) bool { return !time.Now().Before(a.next) })
		if due {
			left, err := g.protectFrozen()
			for id, a := range failed {
				if slices.ContainsFunc(left, func(at string) bool { return strings.HasPrefix(id, at+"\x00") }) {
					a.wait = min(max(2*a.wait, lateFirst), lateLast)
					a.next = time.Now().Add(a.wait)
					failed[id] = a
				} else {
					delete(failed, id)
				}
			}
			if err != nil {
				g.ws.Log.Warn("sandbox: repositories that appeared can't be protected while the workload runs", "workspace", g.ws.ID, "error", err)
			}
		}
		again = g.lateRetry(pending, wait, failed)
		if len(open) == 0 {
			continue
		}
		if !slices.Equal(open, reported) {
			reported = open
			g.ws.reportNow()
		}
	}
}

// protectFrozen is protectRepos while the workload is frozen, where it can be.
func (g *Guest) protectFrozen() ([]string, error) {
	ctx, cancel := context.WithTimeout(g.ws.Context, time.Minute)
	defer cancel()
	if _, done, err := g.ws.Freeze(ctx); err == nil && done != nil {
		defer done()
	}
	return g.protectRepos(ctx, false)
}
