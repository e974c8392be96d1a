package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

func (s *sqlStore) Hold(ctx context.Context, id string, self Holder, ttl time.Duration) (Record, error) {
	var rec Record
	err := s.withTx(ctx, "hold "+id, func(tx *sql.Tx) (err error) {
		// The lease comes first, as in Beat: two transactions that lock the same
		// rows in different orders would deadlock.
		now, err := s.ensureLease(ctx, tx, self, ttl)
		if err != nil {
			return err
		}
		if rec, err = s.getRecord(ctx, tx, id, s.forUpdate); err != nil {
			return err
		}
		if rec.State == Destroyed {
			return destroyedError(id)
		}
		if workspace.IsUse(ctx) {
			rec.LastUsed = timeFromNanos(now)
			if err := s.updateLastUsed(ctx, tx, id, rec.LastUsed); err != nil {
				return err
			}
		}
		return s.insertHold(ctx, tx, id, self.ID)
	})
	return rec, err
}

func (s *sqlStore) Beat(ctx context.Context, self Holder, ttl time.Duration, uses map[string]time.Time) (map[string]Record, error) {
	held := map[string]Record{}
	err := s.tryTx(ctx, "renew the lease", func(tx *sql.Tx) error {
		if _, err := s.renewLease(ctx, tx, self, ttl); err != nil {
			return err
		}
		recs, err := s.queryRecords(ctx, tx, `SELECT `+prefixed+` FROM workspaces w JOIN holds h ON h.workspace = w.id WHERE h.holder = ? ORDER BY w.id`, self.ID)
		if err != nil {
			return err
		}
		fresh := map[string]time.Time{} // used since the last heartbeat
		for _, rec := range recs {
			if used, ours := uses[rec.ID]; ours {
				held[rec.ID] = rec
				if used.After(rec.LastUsed) {
					fresh[rec.ID] = used
				}
			}
		}
		if err := s.updateLastUses(ctx, tx, fresh); err != nil {
			return err
		}
		return s.restoreHolds(ctx, tx, self.ID, uses, held)
	})
	return held, err
}

const prefixed = `w.id, w.version, w.owner, w.name, w.kind, w.state, w.spec, w.ref, w.pending, w.failure, w.attempts, w.worker, w.created_at, w.updated_at, w.last_used, w.tenant, w.annotations, w.end_at, w.on_end, w.node`

// restoreHolds restores the holds that were reaped while the lease had run out, and
// adds their records to held.
func (s *sqlStore) restoreHolds(ctx context.Context, tx *sql.Tx, self string, uses map[string]time.Time, held map[string]Record) error {
	for _, id := range slices.Sorted(maps.Keys(uses)) {
		if _, ok := held[id]; ok {
			continue
		}
		rec, err := s.getRecord(ctx, tx, id, s.forUpdate)
		if fault.Of(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		held[id] = rec
		if rec.State == Destroyed {
			continue
		}
		if err := s.insertHold(ctx, tx, id, self); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlStore) Release(ctx context.Context, self string, uses map[string]time.Time) error {
	return s.withTx(ctx, "release", func(tx *sql.Tx) error {
		if err := s.updateLastUses(ctx, tx, uses); err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(uses)) {
			if _, err := tx.ExecContext(ctx, s.rebind(`DELETE FROM holds WHERE workspace = ? AND holder = ?`), id, self); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sqlStore) Holders(ctx context.Context, id string) ([]Holder, error) {
	holders, err := s.listHolders(ctx, s.db, id)
	return holders, s.classifyError("list holders of "+id, err)
}

func (s *sqlStore) listHolders(ctx context.Context, q querier, id string) ([]Holder, error) {
	now, err := s.now(ctx, q)
	if err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, s.rebind(`SELECT r.id, r.host, r.pid, r.expires_at FROM holds h JOIN holders r ON r.id = h.holder
		WHERE h.workspace = ? AND r.expires_at > ? ORDER BY r.id`), id, now)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var holders []Holder
	for rows.Next() {
		var h Holder
		var expires int64
		if err := rows.Scan(&h.ID, &h.Host, &h.PID, &expires); err != nil {
			return nil, err
		}
		h.Expires = timeFromNanos(expires)
		holders = append(holders, h)
	}
	return holders, rows.Err()
}

func (s *sqlStore) Alive(ctx context.Context, holder string) (bool, error) {
	now, err := s.now(ctx, s.db)
	if err != nil {
		return false, s.classifyError("look for a lease", err)
	}
	var n int
	err = s.db.QueryRowContext(ctx, s.rebind(`SELECT count(*) FROM holders WHERE id = ? AND expires_at > ?`), holder, now).Scan(&n)
	return n > 0, s.classifyError("look for a lease", err)
}

func (s *sqlStore) Leave(ctx context.Context, self string) error {
	return s.withTx(ctx, "end the lease", func(tx *sql.Tx) error {
		for _, query := range []string{`DELETE FROM holds WHERE holder = ?`, `DELETE FROM holders WHERE id = ?`} {
			if _, err := tx.ExecContext(ctx, s.rebind(query), self); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sqlStore) Reap(ctx context.Context) error {
	return s.tryTx(ctx, "reap leases", func(tx *sql.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.rebind(`DELETE FROM holders WHERE expires_at <= ?`), now); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM holds WHERE holder NOT IN (SELECT id FROM holders)`)
		return err
	})
}

// ensureLease is renewLease unless the lease of self is good for half of ttl: the heartbeat renews
// it before that. So transactions that open workspaces do not wait for each other.
func (s *sqlStore) ensureLease(ctx context.Context, tx *sql.Tx, self Holder, ttl time.Duration) (int64, error) {
	now, err := s.now(ctx, tx)
	if err != nil {
		return 0, err
	}
	var expires int64
	err = tx.QueryRowContext(ctx, s.rebind(`SELECT expires_at FROM holders WHERE id = ?`), self.ID).Scan(&expires)
	if err == nil && expires > now+int64(ttl/2) {
		return now, nil
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return s.renewLease(ctx, tx, self, ttl)
}

// renewLease gives self a lease that starts now, and returns the time.
func (s *sqlStore) renewLease(ctx context.Context, tx *sql.Tx, self Holder, ttl time.Duration) (int64, error) {
	now, err := s.now(ctx, tx)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, s.rebind(`INSERT INTO holders (id, host, pid, expires_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at`), self.ID, self.Host, self.PID, now+int64(ttl))
	return now, err
}

func (s *sqlStore) insertHold(ctx context.Context, tx *sql.Tx, id, self string) error {
	_, err := tx.ExecContext(ctx, s.rebind(`INSERT INTO holds (workspace, holder) VALUES (?, ?) ON CONFLICT (workspace, holder) DO NOTHING`), id, self)
	return err
}

// updateLastUsed records a use of a workspace; it never decreases, and does not
// change the record's version.
func (s *sqlStore) updateLastUsed(ctx context.Context, tx *sql.Tx, id string, at time.Time) error {
	_, err := tx.ExecContext(ctx, s.rebind(`UPDATE workspaces SET last_used = ? WHERE id = ? AND last_used < ?`), unixNanos(at), id, unixNanos(at))
	return err
}

// updateLastUses is updateLastUsed for several workspaces, by one statement.
func (s *sqlStore) updateLastUses(ctx context.Context, tx *sql.Tx, uses map[string]time.Time) error {
	if len(uses) == 0 {
		return nil
	}
	at := make(map[string]int64, len(uses))
	for id, used := range uses {
		at[id] = unixNanos(used)
	}
	data, err := json.Marshal(at)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, s.rebind(s.setLastUses), string(data))
	return err
}
