package tool

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/secret"
)

// scrubbers caches the scrubber of each workspace until its secrets change.
type scrubbers struct {
	mu     sync.Mutex
	cached map[string]cachedScrubber // guarded by mu; by name of the workspace
}

type cachedScrubber struct {
	values []secret.Value
	scrub  *secret.Scrubber
}

// scrubberFor returns the scrubber of a workspace; nil, which changes nothing, if there are
// no secrets and no finders.
func (s *scrubbers) scrubberFor(ctx context.Context, e *Env, workspace string) (*secret.Scrubber, error) {
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
	if m, ok := s.cached[workspace]; ok && slices.Equal(m.values, values) {
		return m.scrub, nil
	}
	if s.cached == nil {
		s.cached = map[string]cachedScrubber{}
	}
	m := cachedScrubber{values, secret.NewScrubber(values, &secret.ScrubOptions{Finders: e.Finders})}
	s.cached[workspace] = m
	return m.scrub, nil
}

// ScrubText removes secrets of the server, and shapes of secrets, from a text that belongs
// to no workspace. If the secrets can't be read, the text is not returned.
func (e *Env) ScrubText(ctx context.Context, text string) string {
	scrub, err := e.scrubs.scrubberFor(ctx, e, "")
	if err != nil {
		return "the secrets can't be read, so this text is withheld"
	}
	return scrub.String(text)
}

// remove drops the scrubber of a workspace.
func (s *scrubbers) remove(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cached, workspace)
}

// LearnSecrets removes the secrets that a text has by form, such as a file from which an answer has
// parts, from the answer.
func (c *Call) LearnSecrets(data []byte) { c.learned = append(c.learned, c.scrub.Learn(data)...) }

// partOfSeveral matches a line that may be one of a secret of several lines: a key with its value, as a Kubernetes Secret has, a line
// of a private key, a login.
var partOfSeveral = lazyregexp.New(`["'\w]:[ \t]*["']?[A-Za-z0-9+/=!@#$%^&*_.-]{6,}|(?:^|[^A-Za-z0-9+/])[A-Za-z0-9+/=]{16,}\r?$|(?i:passw)`)

// LearnFile is LearnSecrets for a file of which the answer has only some lines. A file above maxLearned, or one that can't be read
// now, is left out: its lines are searched by themselves.
func (c *Call) LearnFile(ctx context.Context, path string, lines ...string) {
	if c.scrub == nil || !slices.ContainsFunc(lines, func(text string) bool {
		return slices.ContainsFunc(strings.Split(text, "\n"), partOfSeveral.MatchString)
	}) {
		return
	}
	if data, err := c.Workspace.ReadFileMax(ctx, path, maxLearned); err == nil && secret.HasSeveralLines(data) {
		c.LearnSecrets(data)
	}
}

// maxLearned is the size of the largest file that is searched for secrets of which an answer may show a line.
const maxLearned = 10 << 20

// scrubLearned removes secrets, and those that the call has learned.
func (c *Call) scrubLearned(text string) string {
	text = c.scrub.String(text)
	if len(c.learned) > 0 {
		text = secret.NewScrubber(c.learned, nil).String(text)
	}
	return text
}

// toResult returns the scrubbed text and data of an answer. Strings within the data are
// scrubbed one by one, so that it stays valid JSON; what is found in the text is removed from them,
// too, since they may lack what is around it.
func (a answer) toResult(scrub *secret.Scrubber, learned []secret.Value) (Result, error) {
	text := scrub.String(a.text)
	if text != a.text {
		learned = slices.Concat(learned, scrub.Learn([]byte(a.text)))
	}
	var known *secret.Scrubber
	if len(learned) > 0 && scrub != nil {
		known = secret.NewScrubber(learned, nil)
		text = known.String(text)
	}
	clean := func(s string) string {
		if s == a.text { // often the largest string
			return text
		}
		return known.String(scrub.String(s))
	}
	data, content := a.structured, ""
	d, apart := a.value.(contentSplitter)
	if a.value != nil {
		value, err := a.value, error(nil)
		if apart {
			value, content = d.splitContent()
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
