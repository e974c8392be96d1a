package auth_test

import (
	"context"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
)

func openKeys(t *testing.T) (keys *auth.Keys, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "croft.db")
	store, err := registry.OpenStore(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return auth.NewKeys(store), path
}

func TestKeyLife(t *testing.T) {
	keys, _ := openKeys(t)
	ctx := t.Context()
	key, text, err := keys.Create(ctx, auth.Key{Tenant: "red", Scope: auth.Run, Name: "ci", ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^e2b_[0-9a-f]{40}$`).MatchString(text) {
		t.Errorf("the text of a key is %q", text)
	}
	want := auth.Principal{Key: key.ID, Tenant: "red", Scope: auth.Run}
	if p, err := keys.Authenticate(ctx, text); err != nil || p != want {
		t.Errorf("principal %+v, %v; want %+v", p, err, want)
	}
	if list, err := keys.List(ctx); err != nil || len(list) != 1 || list[0].LastUsed.IsZero() {
		t.Errorf("listed %+v, %v; want one key with its last use", list, err)
	}
	_, second, err := keys.Rotate(ctx, key.ID, time.Time{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Authenticate(ctx, text); fault.Of(err) != fault.Unauthenticated {
		t.Errorf("the text before a rotation: %v", err)
	}
	if p, err := keys.Authenticate(ctx, second); err != nil || p != want {
		t.Errorf("after a rotation: %+v, %v", p, err)
	}
	for range 2 {
		if _, err := keys.Revoke(ctx, key.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := keys.Authenticate(ctx, second); fault.Of(err) != fault.Unauthenticated {
		t.Errorf("a revoked key: %v", err)
	}
	if _, _, err := keys.Rotate(ctx, key.ID, time.Time{}, 0); fault.Of(err) != fault.WrongState {
		t.Errorf("a revoked key is rotated: %v", err)
	}
	for _, bad := range []string{"", "e2b_", "e2b_00", text[:20], "Bearer " + second} {
		if _, err := keys.Authenticate(ctx, bad); fault.Of(err) != fault.Unauthenticated {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What another process revokes is refused after the cache's time, and at once after Flush.
func TestRevokedElsewhere(t *testing.T) {
	keys, path := openKeys(t)
	store, err := registry.OpenStore(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	other := auth.NewKeys(store)
	for _, flush := range []bool{true, false} {
		key, text, err := keys.Create(t.Context(), auth.Key{Scope: auth.Read})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := keys.Authenticate(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Revoke(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
		if flush {
			keys.Flush()
		}
		deadline := time.Now().Add(10 * time.Second)
		for fault.Of(err) != fault.Unauthenticated {
			if _, err = keys.Authenticate(t.Context(), text); flush && err == nil || time.Now().After(deadline) {
				t.Fatalf("a revoked key is accepted, flushed %v", flush)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// A session of the page that ended is refused: at once here, and in other processes after the
// cache's time.
func TestEndedSession(t *testing.T) {
	keys, path := openKeys(t)
	store, err := registry.OpenStore(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	other, ctx := auth.NewKeys(store), t.Context()
	for _, k := range []*auth.Keys{keys, other} {
		if err := k.CheckSession(ctx, "one"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := keys.EndSession(ctx, "one", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := keys.CheckSession(ctx, "one"); fault.Of(err) != fault.Unauthenticated {
		t.Errorf("a session that ended: %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); fault.Of(other.CheckSession(ctx, "one")) != fault.Unauthenticated; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("another process accepts a session that ended")
		}
	}
	// What has expired is deleted by the next end of one.
	for _, id := range []string{"old", "two"} {
		if err := keys.EndSession(ctx, id, time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if ended, err := store.SessionEnded(ctx, "old"); err != nil || ended {
		t.Errorf("a session that has expired is kept: %v, %v", ended, err)
	}
	if err := keys.CheckSession(ctx, "three"); err != nil {
		t.Errorf("another session: %v", err)
	}
}

func TestExpiredKey(t *testing.T) {
	keys, _ := openKeys(t)
	_, text, err := keys.Create(t.Context(), auth.Key{Scope: auth.Read, ExpiresAt: time.Now().Add(200 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Authenticate(t.Context(), text); err != nil {
		t.Error(err)
	}
	time.Sleep(250 * time.Millisecond)
	if _, err := keys.Authenticate(t.Context(), text); fault.Of(err) != fault.Unauthenticated {
		t.Errorf("an expired key: %v", err)
	}
}

// A tenant's admin manages the keys of that tenant only.
func TestKeysOfTenants(t *testing.T) {
	keys, _ := openKeys(t)
	as := func(tenant string, scope auth.Scope) context.Context {
		return auth.With(t.Context(), auth.Principal{Key: "k", Tenant: tenant, Scope: scope})
	}
	red, blue, operator := as("red", auth.Admin), as("blue", auth.Admin), as("", auth.Admin)
	key, _, err := keys.Create(red, auth.Key{Scope: auth.Admin})
	if err != nil || key.Tenant != "red" {
		t.Fatalf("created %+v, %v", key, err)
	}
	if _, _, err := keys.Create(red, auth.Key{Tenant: "blue", Scope: auth.Read}); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("a key of another tenant: %v", err)
	}
	if list, err := keys.List(blue); err != nil || len(list) != 0 {
		t.Errorf("another tenant lists %v, %v", list, err)
	}
	if _, err := keys.Revoke(blue, key.ID); fault.Of(err) != fault.NotFound {
		t.Errorf("another tenant revokes: %v", err)
	}
	if _, _, err := keys.Rotate(blue, key.ID, time.Time{}, 0); fault.Of(err) != fault.NotFound {
		t.Errorf("another tenant rotates: %v", err)
	}
	if list, err := keys.List(operator); err != nil || len(list) != 1 {
		t.Errorf("the operator lists %v, %v", list, err)
	}
	if _, err := keys.Revoke(operator, key.ID); err != nil {
		t.Error(err)
	}
	for _, bad := range []auth.Key{
		{Scope: "root"}, {}, {Tenant: "Red", Scope: auth.Run}, {Tenant: "../x", Scope: auth.Run}, {Scope: auth.Run, Name: "a\nb"},
		{Scope: auth.Run, ExpiresAt: time.Now().Add(-time.Hour)},
	} {
		if _, _, err := keys.Create(operator, bad); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%+v: %v, want InvalidArgument", bad, err)
		}
	}
}

func TestRates(t *testing.T) {
	limit := 2.0
	rates := &auth.Rates{Limit: func(tenant string) float64 {
		if tenant == "red" {
			return limit
		}
		return 0
	}}
	refused := func(tenant string, n int) int {
		count := 0
		for range n {
			if fault.Of(rates.Allow(tenant)) == fault.ResourceExhausted {
				count++
			}
		}
		return count
	}
	if got := refused("red", 20); got < 15 {
		t.Errorf("%d of 20 requests are refused, want at least 15", got)
	}
	if got := refused("blue", 20); got != 0 {
		t.Errorf("%d requests of a tenant without a limit are refused", got)
	}
	limit = 1000
	rates.Allow("red")                // takes the new limit
	time.Sleep(50 * time.Millisecond) // for 50 requests
	if got := refused("red", 20); got != 0 {
		t.Errorf("%d requests are refused after the limit was raised", got)
	}
}

// TestRotateWithOverlap: the previous text is accepted for a time, and never longer than before.
func TestRotateWithOverlap(t *testing.T) {
	keys, _ := openKeys(t)
	ctx := t.Context()
	key, first, err := keys.Create(ctx, auth.Key{Tenant: "red", Scope: auth.Run, ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	rotate := func(expires time.Time, overlap time.Duration) (auth.Key, string) {
		t.Helper()
		key, text, err := keys.Rotate(ctx, key.ID, expires, overlap)
		if err != nil {
			t.Fatal(err)
		}
		return key, text
	}
	check := func(what, text string, valid bool) {
		t.Helper()
		if p, err := keys.Authenticate(ctx, text); valid != (err == nil && p.Key == key.ID) || !valid && fault.Of(err) != fault.Unauthenticated {
			t.Errorf("%s: %+v, %v; want valid: %v", what, p, err, valid)
		}
	}
	rotated, second := rotate(time.Now().Add(48*time.Hour), 24*time.Hour)
	if !rotated.PreviousUntil.Equal(key.ExpiresAt) {
		t.Errorf("the first text is accepted until %s, want its expiry %s", rotated.PreviousUntil, key.ExpiresAt)
	}
	check("the first text", first, true)
	check("the second text", second, true)
	const brief = 300 * time.Millisecond
	_, third := rotate(time.Time{}, brief)
	check("the text before the previous one", first, false)
	check("the previous text", second, true)
	time.Sleep(brief)
	check("the previous text after the overlap", second, false)
	check("the third text", third, true)
	if _, _, err := keys.Rotate(ctx, key.ID, time.Time{}, auth.MaxOverlap+time.Second); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("an overlap of more than 30 days: %v, want InvalidArgument", err)
	}
	_, fourth := rotate(time.Time{}, time.Hour)
	if _, err := keys.Revoke(ctx, key.ID); err != nil {
		t.Fatal(err)
	}
	check("the previous text of a revoked key", third, false)
	check("the text of a revoked key", fourth, false)
}
