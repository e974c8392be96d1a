package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/croft-run/croft/fault"
)

// postgresStore stores records in PostgreSQL, for many servers.
type postgresStore struct {
	sqlStore

	// Advisory locks use connections of their own. Callers within joinWindow share
	// one connection, so that a thousand openings don't take a thousand.
	locks  *sql.DB
	mu     sync.Mutex
	shared *sharedLock // the latest one, which callers may join
}

// A sharedLock is one shared advisory lock for a batch of callers.
type sharedLock struct {
	ready   chan struct{} // closed when the lock is taken or err is set
	err     error
	conn    *sql.Conn
	since   time.Time
	members int // callers that still need the lock
}

// joinWindow bounds how long callers may join a sharedLock. A later caller asks the
// server, and queues there behind waiters for the exclusive lock.
const joinWindow = time.Second

// lockKey is the advisory lock of the registry: "croft" in ASCII.
const lockKey = 0x63726f6674

const postgresConns = 16

func openPostgres(ctx context.Context, url string) (Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// pgx hides passwords in this error.
		return nil, fmt.Errorf("registry: open store: %w: %w", fault.InvalidArgument, err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // one attempt per second
	if err != nil {
		return nil, fmt.Errorf("registry: open store: %w: %w", fault.Internal, err)
	}
	s := &postgresStore{locks: stdlib.OpenDB(*config), sqlStore: sqlStore{db: stdlib.OpenDB(*config), dialect: dialect{
		name:      goose.DialectPostgres,
		migrate:   []goose.ProviderOption{goose.WithSessionLocker(locker)},
		numbered:  true,
		forUpdate: " FOR UPDATE",
		now:       postgresNow,
		// Rows are locked in the order of their ids, as elsewhere: two transactions would deadlock.
		setLastUses: `WITH used AS (
				SELECT w.id, u.value::bigint AS at FROM workspaces w JOIN json_each_text(?::text::json) u ON u.key = w.id
				WHERE w.last_used < u.value::bigint ORDER BY w.id FOR UPDATE OF w)
			UPDATE workspaces SET last_used = used.at FROM used WHERE workspaces.id = used.id`,
		duplicate: postgresDuplicate,
		begin: func(ctx context.Context, db *sql.DB, opts *sql.TxOptions) (*sql.Tx, error) {
			return db.BeginTx(ctx, opts)
		},
		full:    postgresFull,
		damaged: func(error) bool { return false },
		release: func() bool { return false },
	}}}
	s.db.SetMaxOpenConns(postgresConns)
	s.db.SetMaxIdleConns(postgresConns)
	s.locks.SetMaxIdleConns(-1) // a connection that is closed ends its lock
	if err := s.migrateSchema(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// postgresNow is the server's clock: those of clients may be wrong.
func postgresNow(ctx context.Context, q querier) (now int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint`).Scan(&now)
	return now, err
}

func (s *postgresStore) Close() error {
	return errors.Join(s.locks.Close(), s.db.Close())
}

func (s *postgresStore) Lock(ctx context.Context, exclusive bool) (func(), error) {
	if exclusive {
		conn, err := s.advisoryLock(ctx, `SELECT pg_advisory_lock($1)`, int64(lockKey))
		if err != nil {
			return nil, err
		}
		return func() { _ = conn.Close() }, nil // a lock ends with its connection, however that ends
	}
	for {
		p, first := s.joinLock()
		if first {
			conn, err := s.advisoryLock(ctx, `SELECT pg_advisory_lock_shared($1)`, int64(lockKey))
			s.mu.Lock()
			p.conn, p.err = conn, err
			s.mu.Unlock()
			close(p.ready)
		}
		select {
		case <-p.ready:
		case <-ctx.Done():
			s.leaveLock(p)
			return nil, fmt.Errorf("registry: wait for the lock of the store: %w", ctx.Err())
		}
		if p.err == nil {
			return sync.OnceFunc(func() { s.leaveLock(p) }), nil
		}
		s.leaveLock(p)
		if first {
			return nil, p.err
		}
		// The caller that asked the server gave up; ask again.
	}
}

// tenantLocks is the first key of the advisory locks of tenants: "crft" in ASCII. PostgreSQL keeps
// locks with two keys apart from those with one.
const tenantLocks = 0x63726674

func (s *postgresStore) LockTenant(ctx context.Context, tenant string) (func(), error) {
	conn, err := s.advisoryLock(ctx, `SELECT pg_advisory_lock($1, hashtext($2))`, tenantLocks, tenant)
	if err != nil {
		return nil, err
	}
	return func() { _ = conn.Close() }, nil // a lock ends with its connection, however that ends
}

// advisoryLock opens a connection and takes an advisory lock on it.
func (s *postgresStore) advisoryLock(ctx context.Context, query string, keys ...any) (*sql.Conn, error) {
	conn, err := s.locks.Conn(ctx)
	if err != nil {
		return nil, s.classifyError("lock the store", err)
	}
	if _, err := conn.ExecContext(ctx, query, keys...); err != nil {
		_ = conn.Close() // the lock's own error is returned
		return nil, s.classifyError("lock the store", err)
	}
	return conn, nil
}

// joinLock joins the latest sharedLock, or makes a new one; first says that this
// caller has to ask the server.
func (s *postgresStore) joinLock() (p *sharedLock, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil || time.Since(s.shared.since) > joinWindow {
		s.shared, first = &sharedLock{ready: make(chan struct{}), since: time.Now()}, true
	}
	s.shared.members++
	return s.shared, first
}

// leaveLock removes one caller; the last one ends the lock. The caller that asks
// the server leaves after it has the answer, so conn is final by then.
func (s *postgresStore) leaveLock(p *sharedLock) {
	s.mu.Lock()
	p.members--
	last := p.members == 0
	if s.shared == p && (last || p.err != nil) {
		s.shared = nil
	}
	s.mu.Unlock()
	if last && p.conn != nil {
		_ = p.conn.Close() // a lock ends with its connection, however that ends
	}
}

func postgresFull(err error) bool {
	const insufficientResources = "53" // a class of codes: disk, memory, connections
	var e *pgconn.PgError
	return errors.As(err, &e) && strings.HasPrefix(e.Code, insufficientResources)
}

func postgresDuplicate(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23505" // unique_violation
}
