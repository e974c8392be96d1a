package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
)

const keyColumns = `id, tenant, scope, name, created_at, expires_at, last_used, revoked_at, previous_until, workspace`

// InsertKey adds an API key.
func (s *sqlStore) InsertKey(ctx context.Context, k auth.Key, hash string) error {
	return s.tryTx(ctx, "insert API key "+k.ID, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.rebind(`INSERT INTO api_keys (hash, `+keyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
			hash, k.ID, k.Tenant, string(k.Scope), k.Name, unixNanos(k.CreatedAt), unixNanos(k.ExpiresAt), unixNanos(k.LastUsed), unixNanos(k.RevokedAt), unixNanos(k.PreviousUntil), k.Workspace)
		return err
	})
}

// FindKey returns the API key with a hash, or with a previous hash that is still accepted; the
// key then expires with it.
func (s *sqlStore) FindKey(ctx context.Context, hash string) (auth.Key, error) {
	k, err := decodeKey(s.db.QueryRowContext(ctx, s.rebind(`SELECT `+keyColumns+` FROM api_keys WHERE hash = ?`), hash))
	if errors.Is(err, sql.ErrNoRows) {
		k, err = decodeKey(s.db.QueryRowContext(ctx, s.rebind(`SELECT `+keyColumns+` FROM api_keys WHERE previous_hash = ? AND previous_until > 0`), hash))
		k.ExpiresAt = k.PreviousUntil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return auth.Key{}, fmt.Errorf("registry: API key: %w", fault.NotFound)
	}
	return k, s.classifyError("find an API key", err)
}

// ListKeys lists the API keys, oldest first.
func (s *sqlStore) ListKeys(ctx context.Context) ([]auth.Key, error) {
	const what = "list API keys"
	rows, err := s.db.QueryContext(ctx, `SELECT `+keyColumns+` FROM api_keys ORDER BY created_at, id`)
	if err != nil {
		return nil, s.classifyError(what, err)
	}
	defer rows.Close()
	list := []auth.Key{}
	for rows.Next() {
		k, err := decodeKey(rows)
		if err != nil {
			return nil, s.classifyError(what, err)
		}
		list = append(list, k)
	}
	return list, s.classifyError(what, rows.Err())
}

// ReplaceKey sets the hash and the expiry of a key that is not revoked. The present hash is
// accepted until a time; zero is no longer.
func (s *sqlStore) ReplaceKey(ctx context.Context, id, hash string, expires, until time.Time) error {
	previous := `''`
	if !until.IsZero() {
		previous = `hash`
	}
	return s.withTx(ctx, "replace API key "+id, s.updateKey(ctx, id, `previous_hash = `+previous+`, hash = ?, expires_at = ?, previous_until = ? WHERE revoked_at = 0`,
		hash, unixNanos(expires), unixNanos(until)))
}

// RevokeKey ends an API key.
func (s *sqlStore) RevokeKey(ctx context.Context, id string, at time.Time) error {
	return s.withTx(ctx, "revoke API key "+id, s.updateKey(ctx, id, `revoked_at = ? WHERE 1 = 1`, unixNanos(at)))
}

// UseKey stores when an API key was last used. It leaves the disk reserve alone.
func (s *sqlStore) UseKey(ctx context.Context, id string, at time.Time) error {
	return s.tryTx(ctx, "use API key "+id, s.updateKey(ctx, id, `last_used = ? WHERE 1 = 1`, unixNanos(at)))
}

// EndSession records that a session ended before it expires, and deletes what has expired.
func (s *sqlStore) EndSession(ctx context.Context, id string, expires time.Time) error {
	return s.withTx(ctx, "end a session", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, s.rebind(`DELETE FROM ended_sessions WHERE expires_at <= ?`), time.Now().UnixNano()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.rebind(`INSERT INTO ended_sessions (id, expires_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`), id, unixNanos(expires))
		return err
	})
}

// SessionEnded reports whether EndSession has recorded a session.
func (s *sqlStore) SessionEnded(ctx context.Context, id string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, s.rebind(`SELECT count(*) FROM ended_sessions WHERE id = ?`), id).Scan(&n)
	return n > 0, s.classifyError("find a session", err)
}

// updateKey returns a function that changes one key.
func (s *sqlStore) updateKey(ctx context.Context, id, set string, args ...any) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, s.rebind(`UPDATE api_keys SET `+set+` AND id = ?`), append(args, id)...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return fmt.Errorf("registry: API key %s: %w", id, fault.NotFound)
		}
		return nil
	}
}

// decodeKey reads an API key from a row of keyColumns.
func decodeKey(row interface{ Scan(dest ...any) error }) (auth.Key, error) {
	var k auth.Key
	var created, expires, used, revoked, previous int64
	err := row.Scan(&k.ID, &k.Tenant, &k.Scope, &k.Name, &created, &expires, &used, &revoked, &previous, &k.Workspace)
	k.CreatedAt, k.ExpiresAt, k.LastUsed, k.RevokedAt = timeFromNanos(created), timeFromNanos(expires), timeFromNanos(used), timeFromNanos(revoked)
	k.PreviousUntil = timeFromNanos(previous)
	return k, err
}
