package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// Backup writes the tables of a store, as they are at one instant, to a new SQLite file
// that OpenStore opens. Leases and holds are left out: they belong to processes.
func Backup(ctx context.Context, from Store, file string) error {
	if s, ok := from.(*sqliteStore); ok {
		if _, err := s.db.ExecContext(ctx, `VACUUM INTO ?`, file); err != nil {
			return s.classifyError("back up", err)
		}
		return dropLeases(ctx, file)
	}
	return copyStore(ctx, from, "sqlite:"+file)
}

// Restore copies the tables of a file that Backup wrote into the store with the given URL,
// in one transaction. A store that has workspaces is refused.
func Restore(ctx context.Context, file, url string) (err error) {
	from, err := OpenStore(ctx, "sqlite:"+file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	return copyStore(ctx, from, url)
}

func copyStore(ctx context.Context, from Store, url string) (err error) {
	to, err := OpenStore(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	recs, err := to.List(ctx, Filter{States: states})
	if err != nil {
		return err
	}
	if len(recs) > 0 {
		return fmt.Errorf("registry: restore: %w: the store has %d workspaces; name an empty one", fault.AlreadyExists, len(recs))
	}
	source, err := sqlOf(from)
	if err != nil {
		return err
	}
	target, err := sqlOf(to)
	if err != nil {
		return err
	}
	return target.copyTables(ctx, source)
}

func sqlOf(s Store) (*sqlStore, error) {
	switch s := s.(type) {
	case *sqliteStore:
		return &s.sqlStore, nil
	case *postgresStore:
		return &s.sqlStore, nil
	}
	return nil, fmt.Errorf("registry: back up a %T: %w", s, fault.Unsupported)
}

func dropLeases(ctx context.Context, file string) (err error) {
	s, err := openSQLite(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, table := range leaseTables {
		if _, err := s.(*sqliteStore).db.ExecContext(ctx, `DELETE FROM `+table); err != nil {
			return s.(*sqliteStore).classifyError("back up", err)
		}
	}
	return nil
}

// Tables that are not copied: those of leases, and those that a store makes itself.
var (
	leaseTables = []string{"holders", "holds", "replicas"}
	ownTables   = append([]string{"goose_db_version", "identity"}, leaseTables...)
)

// copyTables copies the rows of all tables of another store, which has the same schema:
// OpenStore migrated both. All columns are texts and numbers.
func (s *sqlStore) copyTables(ctx context.Context, from *sqlStore) error {
	names, err := from.tables(ctx)
	if err != nil {
		return from.classifyError("back up", err)
	}
	// One transaction reads one state of all tables.
	read, err := from.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: from.snapshotIsolation()})
	if err != nil {
		return from.classifyError("back up", err)
	}
	defer read.Rollback() // it wrote nothing
	return s.tryTx(ctx, "copy a store", func(tx *sql.Tx) error {
		for _, name := range names {
			if err := s.copyTable(ctx, tx, read, name); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sqlStore) copyTable(ctx context.Context, tx, from *sql.Tx, name string) error {
	rows, err := from.QueryContext(ctx, `SELECT * FROM `+name)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	insert := s.rebind(`INSERT INTO ` + name + ` (` + strings.Join(columns, ", ") + `) VALUES (` + strings.Repeat(", ?", len(columns))[2:] + `)`)
	for rows.Next() {
		values, at := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			at[i] = &values[i]
		}
		if err := rows.Scan(at...); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insert, values...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// tables lists the tables to copy.
func (s *sqlStore) tables(ctx context.Context) ([]string, error) {
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`
	if s.numbered {
		query = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY table_name`
	}
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		if !slices.Contains(ownTables, name) {
			names = append(names, name)
		}
	}
	return names, rows.Err()
}

func (s *sqlStore) snapshotIsolation() sql.IsolationLevel {
	if s.numbered {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault // SQLite has no other
}
