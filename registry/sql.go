package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A dialect is the difference between the databases.
type dialect struct {
	name      goose.Dialect
	migrate   []goose.ProviderOption
	numbered  bool   // parameters are $1 instead of ?
	forUpdate string // locks the rows that a transaction reads

	// setLastUses is the statement that increases last_used of the workspaces in a JSON object of
	// nanoseconds by id.
	setLastUses string

	// now is the store's clock, in nanoseconds.
	now func(ctx context.Context, q querier) (int64, error)

	// begin starts a transaction. ctx bounds the wait for other writers.
	begin func(ctx context.Context, db *sql.DB, opts *sql.TxOptions) (*sql.Tx, error)

	// duplicate reports whether err is a violation of a unique constraint.
	duplicate func(err error) bool

	// full reports whether err means that the disk is full.
	full func(err error) bool

	// damaged reports whether err means that the store is permanently unreadable.
	damaged func(err error) bool

	// release frees the disk reserve, and reports whether there was one.
	release func() bool
}

// sqlStore is a Store in a SQL database. The queries are the same for both
// databases, with "?" for parameters.
type sqlStore struct {
	db *sql.DB
	dialect
	id string
}

const columns = `id, version, owner, name, kind, state, spec, ref, pending, failure, attempts, worker, created_at, updated_at, last_used, tenant, annotations, end_at, on_end, node`

// migrateSchema brings the schema up to date, and loads the store's id.
func (s *sqlStore) migrateSchema(ctx context.Context) error {
	if !s.isSchemaCurrent(ctx) {
		if err := s.runMigrations(ctx); err != nil {
			return err
		}
	}
	return s.loadID(ctx)
}

// loadID reads the id of the store, and creates it if there is none.
func (s *sqlStore) loadID(ctx context.Context) error {
	for range 2 {
		err := s.db.QueryRowContext(ctx, `SELECT id FROM identity WHERE one = 1`).Scan(&s.id)
		if !errors.Is(err, sql.ErrNoRows) {
			return s.classifyError("identify store", err)
		}
		_, err = s.db.ExecContext(ctx, s.rebind(`INSERT INTO identity (one, id, created_at) VALUES (1, ?, ?) ON CONFLICT (one) DO NOTHING`),
			driver.NewID(), time.Now().UnixNano())
		if err != nil {
			return s.classifyError("identify store", err)
		}
	}
	return fmt.Errorf("registry: identify store: %w: the store has no id", fault.Unavailable)
}

func (s *sqlStore) ID() string { return s.id }

func (s *sqlStore) runMigrations(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("registry: migrate store: %w: %w", fault.Internal, err)
	}
	p, err := goose.NewProvider(s.name, s.db, dir, append(s.migrate, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return s.classifyError("migrate store", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return s.classifyError("migrate store", err)
	}
	return nil
}

// isSchemaCurrent reports whether the newest migration is applied: one query
// instead of the dozen of a migration.
func (s *sqlStore) isSchemaCurrent(ctx context.Context) bool {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return false
	}
	var version int
	err = s.db.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`).Scan(&version)
	return err == nil && version >= len(files) // a later program may have migrated it
}

func (s *sqlStore) Insert(ctx context.Context, rec Record) (Record, error) {
	rec.Version = 1
	row, err := encodeRecord(rec)
	if err != nil {
		return Record{}, err
	}
	marks := strings.Repeat(", ?", len(row))[2:]
	err = s.tryTx(ctx, "insert "+rec.ID, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.rebind(`INSERT INTO workspaces (`+columns+`) VALUES (`+marks+`)`), row...)
		return err
	})
	if s.isDuplicate(err) {
		return Record{}, s.duplicateError(ctx, rec)
	}
	if err != nil {
		return Record{}, err
	}
	return rec.clone(), nil
}

// duplicateError returns the error for an id or a name that exists.
func (s *sqlStore) duplicateError(ctx context.Context, rec Record) error {
	if _, err := s.Get(ctx, rec.ID); err == nil {
		return fmt.Errorf("registry: workspace id %s: %w", rec.ID, fault.AlreadyExists)
	}
	return nameTaken(rec.Name)
}

func nameTaken(name string) error {
	return fault.Advise(fmt.Errorf("registry: workspace %q: %w", name, fault.AlreadyExists),
		"choose another name, or remove that workspace first")
}

func (s *sqlStore) Get(ctx context.Context, id string) (Record, error) {
	return s.getRecord(ctx, s.db, id, "")
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *sqlStore) getRecord(ctx context.Context, q querier, id, suffix string) (Record, error) {
	rec, err := decodeRecord(q.QueryRowContext(ctx, s.rebind(`SELECT `+columns+` FROM workspaces WHERE id = ?`+suffix), id))
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, missingError(id)
	}
	if err != nil {
		return Record{}, s.classifyError("get "+id, err)
	}
	return rec, nil
}

func (s *sqlStore) List(ctx context.Context, f Filter) ([]Record, error) {
	query, args := `SELECT `+columns+` FROM workspaces WHERE 1 = 1`, []any{}
	and := func(clause string, values ...any) {
		query += " AND " + clause
		args = append(args, values...)
	}
	for _, eq := range []struct{ column, value string }{{"tenant", f.Tenant}, {"owner", f.Owner}, {"name", f.Name}, {"kind", f.Kind}, {"node", f.Node}} {
		if eq.value != "" {
			and(eq.column+" = ?", eq.value)
		}
	}
	if !f.Ended.IsZero() {
		and("end_at > 0 AND end_at <= ?", f.Ended.UnixNano())
	}
	if f.From != "" && driver.ValidID(f.From) { // saves decoding most other records
		and("spec LIKE ?", "%"+f.From+"%")
	}
	if len(f.States) == 0 {
		and("state <> ?", string(Destroyed))
	} else {
		values := make([]any, len(f.States))
		for i, state := range f.States {
			values[i] = string(state)
		}
		and("state IN ("+strings.Repeat(", ?", len(values))[2:]+")", values...)
	}
	recs, err := s.queryRecords(ctx, s.db, query+` ORDER BY created_at, id`, args...)
	if err != nil {
		return nil, err
	}
	out := recs[:0]
	for _, rec := range recs {
		if f.matches(rec) {
			out = append(out, rec)
		}
	}
	return out, nil
}

func (s *sqlStore) Revision(ctx context.Context) (string, error) {
	var count, versions, newest int64
	err := s.db.QueryRowContext(ctx, `SELECT count(*), CAST(coalesce(sum(version), 0) AS bigint), coalesce(max(created_at), 0) FROM workspaces`).
		Scan(&count, &versions, &newest)
	if err != nil {
		return "", s.classifyError("revision", err)
	}
	return fmt.Sprintf("%d-%d-%d", count, versions, newest), nil
}

func (s *sqlStore) queryRecords(ctx context.Context, q querier, query string, args ...any) ([]Record, error) {
	rows, err := q.QueryContext(ctx, s.rebind(query), args...)
	if err != nil {
		return nil, s.classifyError("list", err)
	}
	defer rows.Close()
	recs := []Record{}
	for rows.Next() {
		rec, err := decodeRecord(rows)
		if err != nil {
			return nil, s.classifyError("list", err)
		}
		recs = append(recs, rec)
	}
	if err := rows.Err(); err != nil {
		return nil, s.classifyError("list", err)
	}
	return recs, nil
}

func (s *sqlStore) Put(ctx context.Context, rec Record) (Record, error) {
	var stored Record
	err := s.withTx(ctx, "put "+rec.ID, func(tx *sql.Tx) (err error) {
		stored, err = s.putRecord(ctx, tx, rec)
		return err
	})
	return stored, err
}

func (s *sqlStore) PutIdle(ctx context.Context, rec Record, self string) (Record, error) {
	var stored Record
	err := s.withTx(ctx, "put "+rec.ID, func(tx *sql.Tx) error {
		if _, err := s.getRecord(ctx, tx, rec.ID, s.forUpdate); err != nil {
			return err
		}
		holders, err := s.listHolders(ctx, tx, rec.ID)
		if err != nil {
			return err
		}
		for _, h := range holders {
			if h.ID != self {
				return fmt.Errorf("registry: workspace %s is held by %s: %w", rec.ID, h.describe(), fault.Conflict)
			}
		}
		stored, err = s.putRecord(ctx, tx, rec)
		return err
	})
	return stored, err
}

// putRecord replaces a record of the same version.
func (s *sqlStore) putRecord(ctx context.Context, tx *sql.Tx, rec Record) (Record, error) {
	old, err := s.getRecord(ctx, tx, rec.ID, s.forUpdate)
	if err != nil {
		return Record{}, err
	}
	if old.Version != rec.Version {
		return Record{}, fmt.Errorf("registry: workspace %s changed since version %d: %w", rec.ID, rec.Version, fault.Conflict)
	}
	rec.Version++
	if rec.LastUsed.Before(old.LastUsed) {
		rec.LastUsed = old.LastUsed
	}
	row, err := encodeRecord(rec)
	if err != nil {
		return Record{}, err
	}
	set := strings.ReplaceAll(columns, ",", " = ?,") + " = ?"
	_, err = tx.ExecContext(ctx, s.rebind(`UPDATE workspaces SET `+set+` WHERE id = ?`), append(row, rec.ID)...)
	if s.isDuplicate(err) {
		return Record{}, nameTaken(rec.Name)
	}
	if err != nil {
		return Record{}, s.classifyError("put "+rec.ID, err)
	}
	return rec.clone(), nil
}

func (s *sqlStore) Delete(ctx context.Context, id string, version int64) error {
	return s.withTx(ctx, "delete "+id, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, s.rebind(`DELETE FROM workspaces WHERE id = ? AND version = ?`), id, version)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			if _, gone := s.getRecord(ctx, tx, id, ""); gone != nil {
				return gone
			}
			return fmt.Errorf("registry: workspace %s changed since version %d: %w", id, version, fault.Conflict)
		}
		return s.deleteOwned(ctx, tx, id)
	})
}

// deleteOwned deletes what is stored of a workspace besides its record: its holds, and its share
// links, which must not show a later workspace with the same id.
func (s *sqlStore) deleteOwned(ctx context.Context, tx *sql.Tx, id string) error {
	for _, query := range []string{`DELETE FROM holds WHERE workspace = ?`, `DELETE FROM api_keys WHERE workspace = ?`} {
		if _, err := tx.ExecContext(ctx, s.rebind(query), id); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlStore) Close() error { return s.db.Close() }

// withTx runs f in a transaction. If the disk is full, withTx releases the disk
// reserve and tries once more. Insert and what runs by the clock use tryTx instead: the reserve is for
// changes of existing records, without which no workspace can be removed, and others may take the space
// that it leaves.
func (s *sqlStore) withTx(ctx context.Context, what string, f func(tx *sql.Tx) error) error {
	err := s.tryTx(ctx, what, f)
	if fault.Of(err) == fault.ResourceExhausted && s.release() {
		return s.tryTx(ctx, what, f)
	}
	return err
}

func (s *sqlStore) tryTx(ctx context.Context, what string, f func(tx *sql.Tx) error) error {
	tx, err := s.begin(ctx, s.db, nil)
	if err != nil {
		return s.classifyError(what, err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return s.classifyError(what, err)
	}
	return s.classifyError(what, tx.Commit())
}

// classifyError adds an error code to a database error. Errors of the caller's
// context, and errors with a code, are kept.
func (s *sqlStore) classifyError(what string, err error) error {
	var known fault.Code
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return hideCause(fmt.Errorf("registry: %s: %w", what, err), "registry: %s: %v", what, fault.Of(err))
	case s.full(err):
		const full = "the disk of the data directory is full; remove workspaces or other files"
		err = fmt.Errorf("registry: %s: %w: %s: %w", what, fault.ResourceExhausted, full, err)
		return fault.WithCause(hideCause(err, "registry: %s: %v: %s", what, fault.ResourceExhausted, full), fault.CauseDiskFull)
	case s.damaged(err):
		const damaged = "the store is damaged, or not a database"
		return hideCause(fmt.Errorf("registry: %s: %w: %s: %w", what, fault.Failed, damaged, err), "registry: %s: %v: %s", what, fault.Failed, damaged)
	}
	return hideCause(fmt.Errorf("registry: %s: %w: %w", what, fault.Unavailable, err), "registry: %s: %v: the server can't use its database now; try again", what, fault.Unavailable)
}

// hideCause gives an error a text for clients that is without its cause: a database names its address,
// user and files.
func hideCause(err error, format string, args ...any) error {
	return fault.Private(err, fmt.Sprintf(format, args...)+"; the log of the server has the cause")
}

func (s *sqlStore) isDuplicate(err error) bool { return err != nil && s.duplicate(err) }

// rebind rewrites "?" parameters for the database.
func (s *sqlStore) rebind(query string) string {
	if !s.numbered {
		return query
	}
	var b strings.Builder
	n := 0
	for _, c := range query {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// encodeRecord returns the values of a record in the order of columns.
func encodeRecord(rec Record) ([]any, error) {
	rec.Spec.Labels = rec.Labels
	var text [5]string
	for i, v := range []any{rec.Spec, rec.Ref, rec.Pending, rec.Error, rec.Annotations} {
		data, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("registry: encode workspace %s: %w: %w", rec.ID, fault.InvalidArgument, err)
		}
		text[i] = string(data)
	}
	return []any{
		rec.ID, rec.Version, rec.Owner, rec.Name, rec.Kind, string(rec.State), text[0], text[1], text[2], text[3],
		rec.Attempts, rec.Worker, unixNanos(rec.CreatedAt), unixNanos(rec.UpdatedAt), unixNanos(rec.LastUsed),
		rec.Tenant, text[4], unixNanos(rec.EndAt), string(rec.OnEnd), rec.Node,
	}, nil
}

// decodeRecord reads a record from a row of columns.
func decodeRecord(row interface{ Scan(dest ...any) error }) (Record, error) {
	var rec Record
	var spec, ref, pending, failure, annotations string
	var created, updated, used, end int64
	err := row.Scan(&rec.ID, &rec.Version, &rec.Owner, &rec.Name, &rec.Kind, &rec.State, &spec, &ref, &pending, &failure,
		&rec.Attempts, &rec.Worker, &created, &updated, &used, &rec.Tenant, &annotations, &end, &rec.OnEnd, &rec.Node)
	if err != nil {
		return Record{}, err
	}
	for _, f := range []struct {
		text string
		into any
	}{{spec, &rec.Spec}, {ref, &rec.Ref}, {pending, &rec.Pending}, {failure, &rec.Error}, {annotations, &rec.Annotations}} {
		if err := json.Unmarshal([]byte(f.text), f.into); err != nil {
			return Record{}, fmt.Errorf("registry: the record of workspace %s is damaged: %w: %w", rec.ID, fault.Internal, err)
		}
	}
	rec.Labels = rec.Spec.Labels
	rec.CreatedAt, rec.UpdatedAt, rec.LastUsed = timeFromNanos(created), timeFromNanos(updated), timeFromNanos(used)
	rec.EndAt = timeFromNanos(end)
	return rec, nil
}

func unixNanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeFromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
