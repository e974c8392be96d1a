package tool

import (
	"context"
	"slices"
	"sync"

	"github.com/croft-run/croft/secret"
)

// scrubbers keeps the scrubber of each workspace for as long as its secrets are
// the same.
type scrubbers struct {
	mu   sync.Mutex
	made map[string]madeScrubber // guarded by mu; by name of the workspace
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

// forget drops the scrubber of a workspace.
func (s *scrubbers) forget(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, workspace)
}

// scrubbed returns the text and the data of an answer without secrets. The strings
// within the data are scrubbed one by one, so that it stays JSON.
func (a answer) scrubbed(scrub *secret.Scrubber) (Result, error) {
	text := scrub.String(a.text)
	clean := func(s string) string {
		if s == a.text { // often it is the largest of them
			return text
		}
		return scrub.String(s)
	}
	data, content := a.structured, ""
	d, apart := a.value.(divided)
	if a.value != nil {
		value, err := a.value, error(nil)
		if apart {
			value, content = d.divide()
		}
		if data, err = encode(value); err != nil {
			return Result{}, err
		}
	}
	if scrub != nil {
		data = mapStrings(data, clean)
	}
	switch {
	case apart:
		return Result{Text: text, DataOnly: data, content: clean(content)}, nil
	case a.value != nil && !a.texter:
		text = string(data)
	}
	return Result{Text: text, Structured: data}, nil
}
