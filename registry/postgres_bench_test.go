package registry

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// BenchmarkPostgres measures what package sim takes from here: processor time, which other load
// of the machine changes little, of this process and of PostgreSQL's backends, for the life of
// a workspace, and for one record of a heartbeat and of a list.
func BenchmarkPostgres(b *testing.B) {
	url := testenv.NeedsPostgres(b).Database(b)
	g := newRigOn(b, url, workspacetest.NewScripted(new(memory.Provider)), nil)
	pg := g.store.(*postgresStore)
	measure := func(name string, records int, f func(ctx context.Context) error) {
		b.Run(name, func(b *testing.B) {
			client, server := processTime(b), backendTime(b, pg)
			b.SetParallelism(4)
			b.RunParallel(func(run *testing.PB) {
				for run.Next() {
					if err := f(b.Context()); err != nil {
						b.Error(err)
					}
				}
			})
			n := float64(b.N * records)
			b.ReportMetric(float64((processTime(b)-client).Microseconds())/n, "client-us")
			b.ReportMetric(float64((backendTime(b, pg)-server).Microseconds())/n, "server-us")
		})
	}
	measure("life", 1, func(ctx context.Context) error {
		rec, err := g.Create(ctx, workspace.Spec{Kind: memory.Kind})
		if err != nil {
			return err
		}
		if _, err = g.Acquire(ctx, rec.ID); err != nil {
			return err
		}
		return g.Destroy(ctx, rec.ID)
	})
	const rows = 1000
	var ids []string
	for range rows {
		id := g.create(nil)
		if _, err := g.store.Hold(b.Context(), id, Holder{ID: "bench"}, time.Hour); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, id)
	}
	measure("beat", rows, func(ctx context.Context) error {
		uses := map[string]time.Time{}
		for _, id := range ids {
			uses[id] = time.Now()
		}
		held, err := g.store.Beat(ctx, Holder{ID: "bench"}, time.Hour, uses)
		if err == nil && len(held) != rows {
			err = fmt.Errorf("%d records are held, want %d", len(held), rows)
		}
		return err
	})
	measure("list", rows, func(ctx context.Context) error {
		_, err := g.store.List(ctx, Filter{})
		return err
	})
}

// processTime returns the processor time of this process.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// backendTime returns the processor time of the backends of a store's connections.
func backendTime(b *testing.B, s *postgresStore) time.Duration {
	b.Helper()
	rows, err := s.db.QueryContext(b.Context(), `SELECT pid FROM pg_stat_activity WHERE datname = current_database()`)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	var sum time.Duration
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			b.Fatal(err)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		_, fields, _ := strings.Cut(string(stat), ") ")
		for _, text := range strings.Fields(fields)[11:13] { // user and system time, in ticks of 10 ms
			ticks, err := strconv.Atoi(text)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return sum
}
