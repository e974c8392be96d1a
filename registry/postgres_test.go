package registry

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/croft-run/croft/internal/testenv"
)

// statements counts the statements of a connection.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestABeatIsFewStatements, however many workspaces were used: each costs a round trip, while the
// lease of the replica is locked.
func TestABeatIsFewStatements(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	s := openStore(t, url).(*postgresStore)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	count := new(statements)
	config.Tracer = count
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	s.db = stdlib.OpenDB(*config)
	beat := func(n int) int64 {
		t.Helper()
		uses := map[string]time.Time{}
		for range n {
			rec := insert(t, s, nil)
			if _, err := s.Hold(t.Context(), rec.ID, holder(fmt.Sprint("me", n)), time.Minute); err != nil {
				t.Fatal(err)
			}
			uses[rec.ID] = time.Now().Add(time.Hour)
		}
		before := count.n.Load()
		recs, err := s.Beat(t.Context(), holder(fmt.Sprint("me", n)), time.Minute, uses)
		if err != nil || len(recs) != n {
			t.Fatalf("%d records, %v; want %d", len(recs), err, n)
		}
		sent := count.n.Load() - before
		for id, want := range uses {
			if rec, err := s.Get(t.Context(), id); err != nil || rec.LastUsed.UnixMicro() != want.UnixMicro() {
				t.Fatalf("the last use is %v, %v; want %v", rec.LastUsed, err, want)
			}
		}
		return sent
	}
	if one, many := beat(1), beat(50); many != one {
		t.Errorf("a heartbeat of 50 used workspaces is %d statements, and one of 1 is %d", many, one)
	}
}

// TestHoldDoesNotWaitForTheHeartbeat: workspaces open while the lease of their registry is renewed.
func TestHoldDoesNotWaitForTheHeartbeat(t *testing.T) {
	s := openStore(t, testenv.NeedsPostgres(t).Database(t)).(*postgresStore)
	first, second := insert(t, s, nil), insert(t, s, nil)
	if _, err := s.Hold(t.Context(), first.ID, holder("me"), time.Minute); err != nil {
		t.Fatal(err)
	}
	tx, err := s.db.BeginTx(t.Context(), nil) // a heartbeat that is not complete
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := s.renewLease(t.Context(), tx, holder("me"), time.Minute); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.Hold(ctx, second.ID, holder("me"), time.Minute); err != nil {
		t.Errorf("hold during a heartbeat: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	// A lease that is nearly over is renewed.
	if _, err := s.Hold(t.Context(), second.ID, holder("me"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Holders(t.Context(), second.ID); err != nil || len(got) != 1 || time.Until(got[0].Expires) < 50*time.Minute {
		t.Errorf("holders %v, %v; want a lease of an hour", got, err)
	}
}
