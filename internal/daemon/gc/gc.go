// Package gc removes what nobody needs any more: leftovers of killed processes, and snapshots that have
// expired.
package gc

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/internal/background"
	"github.com/croft-run/croft/internal/daemon/backup"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/images"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A Collector removes what nobody needs from a data directory.
type Collector struct {
	Dir        string
	Settings   func() *config.Config
	InCluster  bool
	Registry   *registry.Registry
	Snapshots  *snapshot.Store
	Backups    *backup.Source
	Images     *images.Images
	Background *background.Tracker
	Log        *slog.Logger
}

// Collected lists what Collect removed: directories in ws of workspaces without a record,
// containers, and snapshots by id.
type Collected struct {
	Directories []string `json:"directories"`
	Backup      bool     `json:"backup"` // a backup of a killed process

	Containers []docker.Leftover `json:"containers"`
	Snapshots  []string          `json:"snapshots"`
	Unused     int               `json:"unused"` // files that only save time, and were not written for long

	Kept []KeptSnapshots `json:"kept"` // the snapshots that stay
}

// Collect removes leftovers of crashes in the data directory, containers of this host
// whose data directory entry is gone, and snapshots that have expired.
func (g *Collector) Collect(ctx context.Context) (Collected, error) {
	c := Collected{Containers: []docker.Leftover{}}
	before, err := g.orphans(ctx)
	if err != nil {
		return c, err
	}
	killed, berr := g.Backups.Collect(ctx)
	c.Backup, err = killed, errors.Join(g.Registry.Sweep(ctx), berr)
	after, aerr := g.orphans(ctx)
	c.Directories = slices.DeleteFunc(before, func(name string) bool { return slices.Contains(after, name) })
	err = errors.Join(err, aerr)
	var xerr error
	c.Snapshots, c.Kept, xerr = g.expireSnapshots(ctx)
	unused, perr := g.removeUnused()
	c.Unused, err = unused, errors.Join(err, xerr, perr)
	containers, cerr := g.Images.Collect(ctx)
	c.Containers = append(c.Containers, containers...)
	return c, errors.Join(err, cerr)
}

// orphans lists the directories in ws that belong to no workspace.
func (g *Collector) orphans(ctx context.Context) ([]string, error) {
	names := []string{}
	entries, err := os.ReadDir(filepath.Join(g.Dir, "ws"))
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	records, err := g.Registry.List(ctx, registry.Filter{})
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != ".journals" && !slices.ContainsFunc(records, func(r registry.Record) bool { return r.ID == e.Name() }) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Task is the name of a garbage collection by a server among its background tasks.
const Task = "gc"

const (
	collectEvery = time.Hour // interval of garbage collections by a server
	collectTime  = time.Hour // limits one
)

// collectedCounter counts what garbage collection removed.
var collectedCounter = sync.OnceValue(func() metric.Int64Counter {
	// The name is valid, so the only failure is a nil instrument.
	c, _ := otel.Meter("github.com/croft-run/croft/internal/daemon/app").Int64Counter("croft.collected",
		metric.WithDescription("Things that garbage collection removed: snapshots that expired, containers without a workspace; and runs that failed."))
	return c
})

// Run collects garbage every hour, until ctx ends.
func (g *Collector) Run(ctx context.Context) {
	for sleep.For(ctx, collectEvery) == nil {
		g.Background.Do(ctx, Task, collectTime, g.collectAndCount) //nolint:errcheck // it is logged
	}
}

func (g *Collector) collectAndCount(ctx context.Context) error {
	found, err := g.Collect(ctx)
	counts := map[string]int{"snapshots": len(found.Snapshots), "containers": len(found.Containers)}
	if err != nil && ctx.Err() == nil {
		g.Log.Warn("garbage collection", "error", err)
		counts["failures"] = 1
	}
	for what, n := range counts {
		if c := collectedCounter(); c != nil && n > 0 {
			c.Add(ctx, int64(n), metric.WithAttributes(attribute.String("what", what)))
		}
	}
	g.Log.Info("garbage collection", "snapshots", len(found.Snapshots), "containers", len(found.Containers))
	return err
}
