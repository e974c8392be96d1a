package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
)

const replicaColumns = `node, address, data, holder, joined_at, expires_at`

func (s *sqlStore) Join(ctx context.Context, self Replica, ttl time.Duration, kinds []string) error {
	return s.withTx(ctx, "join as node "+self.Node, func(tx *sql.Tx) error {
		old, err := s.getReplica(ctx, tx, self.Node, s.forUpdate)
		if err != nil {
			return err
		}
		if old.Live && old.data != self.data {
			return fmt.Errorf("registry: node %s: %w: a replica with another data directory has this name, at %s; give each replica a name of its own (cluster.node)", self.Node, fault.AlreadyExists, old.Address)
		}
		if old.data != "" && old.data != self.data {
			recs, err := s.queryRecords(ctx, tx, `SELECT `+columns+` FROM workspaces WHERE node = ? AND state <> ?`, self.Node, Destroyed)
			if err != nil {
				return err
			}
			recs = slices.DeleteFunc(recs, func(rec Record) bool { return !slices.Contains(kinds, rec.Kind) })
			if len(recs) > 0 {
				return fmt.Errorf("registry: node %s: %w: its replica is lost, and its %d workspaces, such as %s, are in another data directory: start it with that one, or give this replica another name (cluster.node); DELETE /v1/replicas/%s gives the lost one up", self.Node, fault.AlreadyExists, len(recs), recs[0].ID, self.Node)
			}
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.rebind(`INSERT INTO replicas (`+replicaColumns+`) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (node) DO UPDATE SET address = excluded.address, data = excluded.data, holder = excluded.holder, joined_at = excluded.joined_at, expires_at = excluded.expires_at`),
			self.Node, self.Address, self.data, self.holder, now, now+int64(ttl))
		return err
	})
}

func (s *sqlStore) Renew(ctx context.Context, self Replica, ttl time.Duration) error {
	return s.tryTx(ctx, "renew the lease of node "+self.Node, func(tx *sql.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, s.rebind(`UPDATE replicas SET expires_at = ? WHERE node = ? AND holder = ?`), now+int64(ttl), self.Node, self.holder)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(fmt.Errorf("registry: node %s: %w: another process has joined as this node, or the node was forgotten", self.Node, fault.Conflict), err)
		}
		return nil
	})
}

func (s *sqlStore) Part(ctx context.Context, self Replica) error {
	return s.withTx(ctx, "end the lease of node "+self.Node, func(tx *sql.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.rebind(`UPDATE replicas SET expires_at = ? WHERE node = ? AND holder = ? AND expires_at > ?`), now, self.Node, self.holder, now)
		return err
	})
}

func (s *sqlStore) Replicas(ctx context.Context) ([]Replica, error) {
	const what = "list replicas"
	now, err := s.now(ctx, s.db)
	if err != nil {
		return nil, s.classifyError(what, err)
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+replicaColumns+` FROM replicas ORDER BY joined_at, node`)
	if err != nil {
		return nil, s.classifyError(what, err)
	}
	defer rows.Close()
	list := []Replica{}
	for rows.Next() {
		r, err := decodeReplica(rows, now)
		if err != nil {
			return nil, s.classifyError(what, err)
		}
		list = append(list, r)
	}
	return list, s.classifyError(what, rows.Err())
}

func (s *sqlStore) Forget(ctx context.Context, node string, kinds []string) ([]Record, error) {
	var gone []Record
	err := s.withTx(ctx, "forget node "+node, func(tx *sql.Tx) error {
		// Workspaces are locked before their replica, as in Claim.
		recs, err := s.queryRecords(ctx, tx, `SELECT `+columns+` FROM workspaces WHERE node = ? ORDER BY id`+s.forUpdate, node)
		if err != nil {
			return err
		}
		r, err := s.getReplica(ctx, tx, node, s.forUpdate)
		switch {
		case err != nil:
			return err
		case r.Address == "":
			return fmt.Errorf("registry: node %.80q: %w", node, fault.NotFound)
		case r.Live:
			return fmt.Errorf("registry: node %s: %w: its replica is alive, at %s; stop it first", node, fault.WrongState, r.Address)
		}
		gone = slices.DeleteFunc(recs, func(rec Record) bool { return !slices.Contains(kinds, rec.Kind) })
		for _, rec := range gone {
			if _, err := tx.ExecContext(ctx, s.rebind(`DELETE FROM workspaces WHERE id = ?`), rec.ID); err != nil {
				return err
			}
			if err := s.deleteOwned(ctx, tx, rec.ID); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, s.rebind(`DELETE FROM replicas WHERE node = ?`), node)
		return err
	})
	return gone, err
}

func (s *sqlStore) OwnerOf(ctx context.Context, id string) (owner Replica, tenant string, err error) {
	now, err := s.now(ctx, s.db)
	if err != nil {
		return Replica{}, "", s.classifyError("find the owner of "+id, err)
	}
	row := s.db.QueryRowContext(ctx, s.rebind(`SELECT w.node, coalesce(r.address, ''), coalesce(r.data, ''), coalesce(r.holder, ''), coalesce(r.joined_at, 0), coalesce(r.expires_at, 0), w.tenant
		FROM workspaces w LEFT JOIN replicas r ON r.node = w.node WHERE w.id = ?`), id)
	owner, err = decodeReplica(row, now, &tenant)
	if errors.Is(err, sql.ErrNoRows) {
		return Replica{}, "", missingError(id)
	}
	return owner, tenant, s.classifyError("find the owner of "+id, err)
}

func (s *sqlStore) Claim(ctx context.Context, id string, self Replica, allowed func(rec Record, owner Replica) error) (Record, error) {
	var rec Record
	err := s.withTx(ctx, "claim "+id, func(tx *sql.Tx) (err error) {
		if rec, err = s.getRecord(ctx, tx, id, s.forUpdate); err != nil {
			return err
		}
		// The row of the owner is locked, so that its lease is not renewed meanwhile.
		owner, err := s.getReplica(ctx, tx, rec.Node, s.forUpdate)
		if err != nil {
			return err
		}
		if self.serves() {
			// A replica whose own lease has run out must not take anything: others may take it.
			me, err := s.getReplica(ctx, tx, self.Node, "")
			if err != nil {
				return err
			}
			if !me.Live || me.holder != self.holder {
				return lostLeaseError(id, self)
			}
		}
		if rec.Node == self.Node {
			return nil
		}
		if err := allowed(rec, owner); err != nil {
			return err
		}
		rec.Node = self.Node
		rec.Version++
		_, err = tx.ExecContext(ctx, s.rebind(`UPDATE workspaces SET node = ?, version = ? WHERE id = ?`), rec.Node, rec.Version, id)
		return err
	})
	return rec, err
}

// getReplica returns the replica of a node. For a node without one it has the name alone.
func (s *sqlStore) getReplica(ctx context.Context, tx *sql.Tx, node, suffix string) (Replica, error) {
	now, err := s.now(ctx, tx)
	if err != nil {
		return Replica{}, err
	}
	r, err := decodeReplica(tx.QueryRowContext(ctx, s.rebind(`SELECT `+replicaColumns+` FROM replicas WHERE node = ?`+suffix), node), now)
	if errors.Is(err, sql.ErrNoRows) {
		return Replica{Node: node}, nil
	}
	return r, err
}

// decodeReplica reads a replica from a row of replicaColumns, and what further columns have.
func decodeReplica(row interface{ Scan(dest ...any) error }, now int64, further ...any) (Replica, error) {
	var r Replica
	var joined, expires int64
	err := row.Scan(append([]any{&r.Node, &r.Address, &r.data, &r.holder, &joined, &expires}, further...)...)
	r.Joined, r.Expires, r.Live = timeFromNanos(joined), timeFromNanos(expires), expires > now
	return r, err
}
