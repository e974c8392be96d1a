package gc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
)

// KeptSnapshots counts snapshots that garbage collection keeps for one reason.
type KeptSnapshots struct {
	Why   KeptReason `json:"why"`
	Count int        `json:"count"`
	Until time.Time  `json:"until,omitzero"` // when the first of them expires; zero is never
}

// KeptReason is why garbage collection keeps a snapshot.
type KeptReason string

// The reasons.
const (
	KeptOfRemoved  KeptReason = "automatic-removed" // automatic, of a workspace that is gone
	KeptOfExisting KeptReason = "automatic"         // automatic, of a workspace that exists
	KeptStart      KeptReason = "start"             // an existing workspace started from it
	KeptMade       KeptReason = "made"              // a user, or a program of one, took it
	KeptTemplate   KeptReason = "template"
)

// isAutomatic reports whether nobody asked for a snapshot: it was taken before an apply or a
// rollback, after a command, or for a fork. E2B's API takes a snapshot on request, and an agent may
// name the one that it takes.
func isAutomatic(m *snapshot.Manifest) bool {
	cause := m.Labels[snapshot.CauseLabel]
	return cause != "" && cause != causeE2B && cause != snapshot.CauseBackup || m.Labels[snapshot.ToolLabel] != "" && m.Name == ""
}

// causeE2B is the cause of snapshots of E2B's API, see package e2b.
const causeE2B = "e2b"

// expireSnapshots removes the automatic snapshots that have reached the age of the
// configuration, and frees their space. It returns the ids of these, and what stays. Of the
// replicas of a cluster with a bucket the leader does so.
func (g *Collector) expireSnapshots(ctx context.Context) (ids []string, kept []KeptSnapshots, err error) {
	ids, kept = []string{}, []KeptSnapshots{}
	if g.InCluster && g.Backups.HasBucket && !g.Registry.Leads() {
		return ids, kept, nil
	}
	records, err := g.Registry.List(ctx, registry.Filter{})
	if err != nil {
		return ids, kept, err
	}
	exists := map[string]bool{}
	for _, r := range records {
		exists[r.ID] = true
	}
	all, err := g.Snapshots.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return ids, kept, err
	}
	counts, now := map[KeptReason]*KeptSnapshots{}, time.Now()
	for _, m := range all {
		why, until := g.retention(m, exists[m.Workspace])
		if !until.IsZero() && !until.After(now) {
			switch err := g.Snapshots.Delete(ctx, m.ID); fault.Of(err) {
			case "":
				ids = append(ids, m.ID)
				continue
			case fault.NotFound:
				continue
			case fault.WrongState:
				why, until = KeptStart, time.Time{}
			default:
				return ids, kept, err
			}
		}
		k := counts[why]
		if k == nil {
			k = &KeptSnapshots{Why: why}
			counts[why] = k
		}
		k.Count++
		if k.Until.IsZero() || until.Before(k.Until) {
			k.Until = until
		}
	}
	for _, why := range []KeptReason{KeptOfRemoved, KeptOfExisting, KeptStart, KeptMade, KeptTemplate} {
		if counts[why] != nil {
			kept = append(kept, *counts[why])
		}
	}
	due, err := g.Snapshots.RemovalDue(ctx)
	if err == nil && (due || len(ids) > 0) {
		_, err = g.Snapshots.GC(ctx)
	}
	return ids, kept, err
}

// retention returns why a snapshot is kept, and until when; the zero time is for ever.
func (g *Collector) retention(m *snapshot.Manifest, exists bool) (KeptReason, time.Time) {
	if _, ok := m.Labels[snapshot.TemplateLabel]; ok {
		return KeptTemplate, time.Time{}
	}
	if !isAutomatic(m) {
		return KeptMade, time.Time{}
	}
	why, ages := KeptOfExisting, []time.Duration{time.Duration(g.Settings().Snapshots.MaxAge)}
	if !exists {
		why, ages = KeptOfRemoved, append(ages, time.Duration(g.Settings().Snapshots.RemovedAge))
	}
	var until time.Time
	for _, age := range ages {
		if at := m.Created.Add(age); age > 0 && (until.IsZero() || at.Before(until)) {
			until = at
		}
	}
	return why, until
}

// unusedAge is the age at which a file that only saves time is removed: the next command makes it
// again.
const unusedAge = 30 * 24 * time.Hour

// removeUnused removes old results of tests of container engines, each of another engine, another
// version of this program or an earlier boot, and stat caches of trees of which no snapshot was
// taken for long.
func (g *Collector) removeUnused() (removed int, err error) {
	for dir, prefix := range map[string]string{"docker": "proof-", filepath.Join("store", "cache"): ""} {
		entries, rerr := os.ReadDir(filepath.Join(g.Dir, dir))
		if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		for _, e := range entries {
			info, ierr := e.Info()
			if !strings.HasPrefix(e.Name(), prefix) || e.Name() == "order" /* of the store */ || ierr != nil || time.Since(info.ModTime()) < unusedAge {
				continue
			}
			if rerr := os.Remove(filepath.Join(g.Dir, dir, e.Name())); rerr != nil {
				err = errors.Join(err, rerr)
				continue
			}
			removed++
		}
	}
	return removed, err
}

// housekeepingStamp is the file whose time is that of the last Housekeep.
const housekeepingStamp = "housekeeping"

// Housekeep removes expired snapshots and unused files, if a day has passed since it last did: a user
// without a server may never run croft gc.
func (g *Collector) Housekeep(ctx context.Context) error {
	const day = 24 * time.Hour
	stamp, now := filepath.Join(g.Dir, housekeepingStamp), time.Now()
	info, err := os.Stat(stamp)
	if err == nil && now.Sub(info.ModTime()) < day {
		return nil
	}
	// The time is set first, so that of several processes one does so.
	if errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(stamp, nil, 0o600)
	}
	if err = errors.Join(err, os.Chtimes(stamp, now, now)); err != nil {
		return err
	}
	_, _, err = g.expireSnapshots(ctx)
	_, perr := g.removeUnused()
	return errors.Join(err, perr)
}
