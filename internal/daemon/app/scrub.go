package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/secret"
)

// secretsTTL is how long the values of secrets are reused for events and logs. A tool call
// reads them again.
const secretsTTL = time.Second

// A systemScrubber removes secrets from what a system writes for its operator: events and
// logs. It knows the secrets of all workspaces, and every shape.
type systemScrubber struct {
	mu     sync.Mutex
	stores []*secret.Store  // guarded by mu
	forms  *secret.Patterns // guarded by mu
	scrub  *secret.Scrubber // guarded by mu
	plain  *secret.Scrubber // guarded by mu; of the values alone
	values []secret.Value   // guarded by mu
	read   time.Time        // guarded by mu
}

// newSystemScrubber returns a scrubber for the secrets of a configuration.
func newSystemScrubber(settings *config.Config) (*systemScrubber, error) {
	forms, err := settings.Secrets.Finder()
	if err != nil {
		return nil, err
	}
	s := &systemScrubber{forms: forms}
	sets := []secret.Set{{Prefix: settings.Secrets.Env, Dir: settings.Secrets.Dir}}
	for _, name := range slices.Sorted(maps.Keys(settings.Secrets.Workspaces)) {
		set := settings.Secrets.Workspaces[name]
		sets = append(sets, secret.Set{Prefix: set.Env, Dir: set.Dir})
	}
	for _, name := range slices.Sorted(maps.Keys(settings.Tenants)) {
		if set := settings.Tenants[name].Secrets; set != (config.SecretSet{}) {
			sets = append(sets, secret.Set{Prefix: set.Env, Dir: set.Dir})
		}
	}
	for _, set := range sets {
		store, err := secret.New(&secret.Options{Shared: set})
		if err != nil {
			return nil, err
		}
		s.stores = append(s.stores, store)
	}
	return s, nil
}

// replace takes the secrets and shapes of another scrubber.
func (s *systemScrubber) replace(with *systemScrubber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores, s.forms, s.scrub = with.stores, with.forms, nil
}

// current returns the scrubber for the present values. Values that can't be read are those
// of the last time.
func (s *systemScrubber) current(ctx context.Context) *secret.Scrubber {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh(ctx)
	return s.scrub
}

// refresh reads the values again after secretsTTL. It requires mu.
func (s *systemScrubber) refresh(ctx context.Context) {
	if s.scrub != nil && time.Since(s.read) < secretsTTL {
		return
	}
	var values []secret.Value
	for _, store := range s.stores {
		v, err := store.All(ctx, "")
		if err != nil {
			v = s.values
		}
		values = append(values, v...)
	}
	if s.scrub == nil || !slices.Equal(values, s.values) {
		s.scrub, s.values = secret.NewScrubber(values, &secret.ScrubOptions{Finders: []secret.Finder{s.forms}}), values
		s.plain = secret.NewScrubber(values, nil)
	}
	s.read = time.Now()
}

// text returns a function that scrubs a text.
func (s *systemScrubber) text(ctx context.Context) func(string) string {
	ctx = context.WithoutCancel(ctx)
	return func(text string) string { return s.current(ctx).String(text) }
}

// hasSecret returns a function that reports whether a text has a secret.
func (s *systemScrubber) hasSecret(ctx context.Context) func(string) bool {
	ctx = context.WithoutCancel(ctx)
	return func(text string) bool { return !s.current(ctx).Clean([]byte(text)) }
}

// hasValue returns a function that reports whether a text has the value of a secret.
func (s *systemScrubber) hasValue(ctx context.Context) func(string) bool {
	ctx = context.WithoutCancel(ctx)
	return func(text string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refresh(ctx)
		return !s.plain.Clean([]byte(text))
	}
}

// A scrubHandler removes secrets from log records.
type scrubHandler struct {
	slog.Handler
	text func(string) string
}

func (h scrubHandler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h scrubHandler) WithAttrs(list []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(list))
	for i, a := range list {
		clean[i] = h.attr(a)
	}
	return scrubHandler{h.Handler.WithAttrs(clean), h.text}
}

func (h scrubHandler) WithGroup(name string) slog.Handler {
	return scrubHandler{h.Handler.WithGroup(name), h.text}
}

func (h scrubHandler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.text(v.String()))
	case slog.KindAny:
		if text := fmt.Sprint(v.Any()); h.text(text) != text {
			v = slog.StringValue(h.text(text))
		}
	case slog.KindGroup:
		group := v.Group()
		clean := make([]slog.Attr, len(group))
		for i, a := range group {
			clean[i] = h.attr(a)
		}
		v = slog.GroupValue(clean...)
	}
	return slog.Attr{Key: a.Key, Value: v}
}
