package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// A Key is an API key as it is stored: without its text, of which only a hash is kept.
type Key struct {
	ID        string
	Tenant    string // "" is the server's own
	Scope     Scope
	Name      string // free text
	CreatedAt time.Time
	ExpiresAt time.Time // zero is never
	LastUsed  time.Time // to within a minute
	RevokedAt time.Time // zero is not revoked

	// PreviousUntil is until when the text before the last rotation is accepted; zero is not
	// any more.
	PreviousUntil time.Time

	// Workspace is the id of the only workspace that the key shows, if it is that of a share
	// link; else "".
	Workspace string
}

// check returns an error if the key is no longer valid.
func (k Key) check(now time.Time) error {
	switch {
	case !k.RevokedAt.IsZero():
		return fault.WithHint(fmt.Errorf("API key %s: %w: it was revoked", k.ID, fault.Unauthenticated), fault.HintKey)
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now):
		return fault.WithHint(fmt.Errorf("API key %s: %w: it expired at %s",
			k.ID, fault.Unauthenticated, k.ExpiresAt.UTC().Format(time.RFC3339)), fault.HintKey)
	}
	return nil
}

// A KeyStore stores keys by the hashes of their texts. A missing key is fault.NotFound.
type KeyStore interface {
	InsertKey(ctx context.Context, key Key, hash string) error

	// FindKey finds a key by its hash, or by the previous one until PreviousUntil, which is
	// then its expiry.
	FindKey(ctx context.Context, hash string) (Key, error)
	ListKeys(ctx context.Context) ([]Key, error) // oldest first

	// ReplaceKey sets the hash and the expiry of a key that is not revoked. The hash before is
	// accepted until a time; zero is no longer.
	ReplaceKey(ctx context.Context, id, hash string, expires, until time.Time) error
	RevokeKey(ctx context.Context, id string, at time.Time) error
	UseKey(ctx context.Context, id string, at time.Time) error

	// EndSession records that a session of the page ended before it expires.
	EndSession(ctx context.Context, id string, expires time.Time) error
	SessionEnded(ctx context.Context, id string) (bool, error)
}

// Prefix begins the text of every key. The E2B SDKs expect it, followed by hexadecimal digits.
const Prefix = "e2b_"

// newText returns the text of a new key, with 160 random bits.
func newText() string {
	var raw [20]byte
	rand.Read(raw[:]) // never fails
	return Prefix + hex.EncodeToString(raw[:])
}

func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

const (
	cacheTTL   = 2 * time.Second // how long a revoked key may still be accepted by other processes
	maxCached  = 10_000
	useEvery   = time.Minute
	useTimeout = time.Second
)

// Keys are the API keys of a server. It is safe for concurrent use.
type Keys struct {
	store KeyStore

	mu       sync.Mutex
	cache    map[string]cachedKey // guarded by mu; by hash
	sessions map[string]time.Time // guarded by mu; when a session was last seen not to have ended
}

type cachedKey struct {
	key  Key
	read time.Time
}

// NewKeys returns the keys of a store.
func NewKeys(store KeyStore) *Keys {
	return &Keys{store: store, cache: map[string]cachedKey{}, sessions: map[string]time.Time{}}
}

// Authenticate returns the principal of a key's text. An unknown, revoked or expired key is
// fault.Unauthenticated.
func (k *Keys) Authenticate(ctx context.Context, text string) (Principal, error) {
	key, err := k.find(ctx, text)
	if err == nil {
		err = key.check(time.Now())
	}
	if err != nil {
		return Principal{}, err
	}
	return Principal{Key: key.ID, Tenant: key.Tenant, Scope: key.Scope, Workspace: key.Workspace}, nil
}

func (k *Keys) find(ctx context.Context, text string) (Key, error) {
	unknown := fault.WithHint(fmt.Errorf("API key: %w: this server does not know it", fault.Unauthenticated), fault.HintKey)
	if !strings.HasPrefix(text, Prefix) {
		return Key{}, unknown
	}
	hash, now := hashText(text), time.Now()
	k.mu.Lock()
	found, ok := k.cache[hash]
	k.mu.Unlock()
	if ok && now.Sub(found.read) < cacheTTL {
		return found.key, nil
	}
	key, err := k.store.FindKey(ctx, hash)
	if fault.Of(err) == fault.NotFound {
		return Key{}, unknown
	}
	if err != nil {
		return Key{}, err
	}
	k.mu.Lock()
	if len(k.cache) >= maxCached {
		clear(k.cache)
	}
	k.cache[hash] = cachedKey{key, now}
	k.mu.Unlock()
	if now.Sub(key.LastUsed) > useEvery {
		ctx, cancel := context.WithTimeout(ctx, useTimeout)
		defer cancel()
		_ = k.store.UseKey(ctx, key.ID, now.UTC()) // a full disk must not refuse the request
	}
	return key, nil
}

// Flush drops the cache, so that changes of other processes take effect at once.
func (k *Keys) Flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.cache)
	clear(k.sessions)
}

// EndSession ends a session of the page, which would expire at a time: here at once, in other
// processes within two seconds.
func (k *Keys) EndSession(ctx context.Context, id string, expires time.Time) error {
	defer k.Flush()
	return k.store.EndSession(ctx, id, expires)
}

// CheckSession returns fault.Unauthenticated for a session that has ended.
func (k *Keys) CheckSession(ctx context.Context, id string) error {
	now := time.Now()
	k.mu.Lock()
	read, ok := k.sessions[id]
	k.mu.Unlock()
	if ok && now.Sub(read) < cacheTTL {
		return nil
	}
	ended, err := k.store.SessionEnded(ctx, id)
	if err != nil {
		return err
	}
	if ended {
		return fmt.Errorf("session: %w: it has ended; sign in again", fault.Unauthenticated)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.sessions) >= maxCached {
		clear(k.sessions)
	}
	k.sessions[id] = now
	return nil
}

// maxName bounds the name of a key, in bytes.
const maxName = 128

var tenantForm = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

// CheckTenant refuses the name of a tenant that is not [a-z0-9][a-z0-9-]{0,62}.
func CheckTenant(name string) error {
	if !tenantForm.MatchString(name) {
		return fmt.Errorf("tenant %.80q: %w: a tenant is [a-z0-9][a-z0-9-]{0,62}", name, fault.InvalidArgument)
	}
	return nil
}

// Create stores a new key with the tenant, scope, name, expiry and workspace of want, and returns it with
// its text, which is not stored. A principal of a tenant creates keys of that tenant.
func (k *Keys) Create(ctx context.Context, want Key) (Key, string, error) {
	if p, ok := From(ctx); ok && !p.Operator() {
		if want.Tenant != "" && want.Tenant != p.Tenant {
			return Key{}, "", fmt.Errorf("API key: %w: a key of tenant %q creates keys of that tenant only", fault.PermissionDenied, p.Tenant)
		}
		want.Tenant = p.Tenant
	}
	now := time.Now().UTC()
	key := Key{ID: "key-" + strings.ToLower(rand.Text()[:12]), Tenant: want.Tenant, Scope: want.Scope, Name: want.Name, CreatedAt: now, ExpiresAt: want.ExpiresAt, Workspace: want.Workspace}
	if err := checkWanted(key); err != nil {
		return Key{}, "", err
	}
	text := newText()
	return key, text, k.store.InsertKey(ctx, key, hashText(text))
}

func checkWanted(key Key) error {
	if key.Tenant != "" {
		if err := CheckTenant(key.Tenant); err != nil {
			return err
		}
	}
	if !slices.Contains(Scopes(), key.Scope) {
		return fault.Advise(fmt.Errorf("API key: scope %.80q: %w", key.Scope, fault.InvalidArgument), "the scopes are read, run and admin")
	}
	if key.Workspace != "" && key.Scope != Read {
		return fmt.Errorf("API key: scope %s: %w: the key of a share link has the scope read", key.Scope, fault.InvalidArgument)
	}
	if len(key.Name) > maxName || !utf8.ValidString(key.Name) || strings.ContainsFunc(key.Name, unicode.IsControl) {
		return fmt.Errorf("API key: name: %w: it is at most %d bytes of text without control characters", fault.InvalidArgument, maxName)
	}
	return checkExpiry(key.ExpiresAt, key.CreatedAt)
}

func checkExpiry(expires, now time.Time) error {
	if !expires.IsZero() && !expires.After(now) {
		return fmt.Errorf("API key: expiry %s: %w: it is in the past", expires.UTC().Format(time.RFC3339), fault.InvalidArgument)
	}
	return nil
}

// List returns the keys that the principal manages, oldest first: those of its tenant, and all
// of them for the operator.
func (k *Keys) List(ctx context.Context) ([]Key, error) {
	list, err := k.store.ListKeys(ctx)
	return slices.DeleteFunc(list, func(key Key) bool { return !Sees(ctx, key.Tenant) }), err
}

// get returns a key that the principal manages.
func (k *Keys) get(ctx context.Context, id string) (Key, error) {
	list, err := k.List(ctx)
	if err != nil {
		return Key{}, err
	}
	at := slices.IndexFunc(list, func(key Key) bool { return key.ID == id })
	if at < 0 {
		return Key{}, fault.WithHint(fmt.Errorf("API key %.80q: %w", id, fault.NotFound), fault.HintList, "keys")
	}
	return list[at], nil
}

// Revoke ends a key for good. It is idempotent.
func (k *Keys) Revoke(ctx context.Context, id string) (Key, error) {
	key, err := k.get(ctx, id)
	if err != nil || !key.RevokedAt.IsZero() {
		return key, err
	}
	key.RevokedAt = time.Now().UTC()
	defer k.Flush()
	return key, k.store.RevokeKey(ctx, id, key.RevokedAt)
}

// MaxOverlap bounds how long the previous text of a rotated key is accepted.
const MaxOverlap = 30 * 24 * time.Hour

// Rotate gives a key a new text, which it returns. The previous text is accepted for the time
// overlap, but not longer than the key was valid; 0 refuses it at once. The text before that one
// is refused. A zero expires keeps the expiry, which must not have passed.
func (k *Keys) Rotate(ctx context.Context, id string, expires time.Time, overlap time.Duration) (Key, string, error) {
	key, err := k.get(ctx, id)
	if err != nil {
		return Key{}, "", err
	}
	if !key.RevokedAt.IsZero() {
		return Key{}, "", fmt.Errorf("API key %s: %w: it was revoked; create another one", id, fault.WrongState)
	}
	if overlap > MaxOverlap {
		return Key{}, "", fmt.Errorf("API key %s: overlap %s: %w: the previous text is accepted for at most 30 days", id, overlap, fault.InvalidArgument)
	}
	now := time.Now()
	key.PreviousUntil = time.Time{}
	if overlap > 0 {
		key.PreviousUntil = now.Add(overlap).UTC()
		if !key.ExpiresAt.IsZero() && key.ExpiresAt.Before(key.PreviousUntil) {
			key.PreviousUntil = key.ExpiresAt
		}
	}
	if !expires.IsZero() {
		key.ExpiresAt = expires
	}
	if err := checkExpiry(key.ExpiresAt, now); err != nil {
		return Key{}, "", err
	}
	defer k.Flush()
	text := newText()
	return key, text, k.store.ReplaceKey(ctx, id, hashText(text), key.ExpiresAt, key.PreviousUntil)
}
