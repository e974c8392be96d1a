package tool

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/croft-run/croft/secret"
)

// scrubbers keeps the scrubber of each workspace for as long as its secrets are
// the same.
type scrubbers struct {
	mu   sync.Mutex
	made map[string]madeScrubber // +checklocks:mu; by name of the workspace
}

type madeScrubber struct {
	values []secret.Value
	scrub  *secret.Scrubber
}

// of returns the scrubber of a workspace; nil, which changes nothing, where there
// is nothing to look for.
func (s *scrubbers) of(ctx context.Context, e *Env, workspace string) (*secret.Scrubber, error) {
	var values []secret.Value
	if e.Secrets != nil {
		var err error
		if values, err = e.Secrets.All(ctx, workspace); err != nil {
			return nil, err
		}
	}
	if len(values) == 0 && len(e.Finders) == 0 {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.made[workspace]; ok && slices.Equal(m.values, values) {
		return m.scrub, nil
	}
	if s.made == nil {
		s.made = map[string]madeScrubber{}
	}
	m := madeScrubber{values, secret.NewScrubber(values, &secret.ScrubOptions{Finders: e.Finders})}
	s.made[workspace] = m
	return m.scrub, nil
}

// scrubJSON scrubs the strings within data, so that it stays JSON. Where nothing
// is found in data as a whole, nothing is found in its parts either, except for
// what JSON escapes: the parts are looked at then, too.
func scrubJSON(scrub *secret.Scrubber, data json.RawMessage) json.RawMessage {
	if scrub == nil {
		return data
	}
	return mapStrings(data, scrub.String)
}
