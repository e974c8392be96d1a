package eval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/replay"
	"github.com/croft-run/croft/workspace/driver"
)

// Traffic with models is recorded and replayed by session: an exchange of one session
// never answers another one. The paths of tapes are like those of artifacts:
// CASE/RUNNER/repeat-1.jsonl.

// tapes are the recordings of a run.
type tapes struct {
	record, replay string // directories; "" for none
	runDir         string
	rules          []driver.NetRule // that allow something
}

// tapePath is the path of the tape of a session with the given artifact directory.
func (t *tapes) tapePath(below, artifacts string) (string, error) {
	rel, err := filepath.Rel(t.runDir, artifacts)
	if err != nil {
		return "", fmt.Errorf("eval: tape of %s: %w: %w", artifacts, fault.Internal, err)
	}
	return filepath.Join(below, rel) + ".jsonl", nil
}

// A traffic is the HTTP transport of a session to its models.
type traffic struct {
	transport http.RoundTripper
	close     func() error

	redirected bool // the agent was configured to use this transport

	mu      sync.Mutex
	all     int   // guarded by mu; requests
	missing error // guarded by mu; the first request that was not on the tape
	busy    int   // guarded by mu; requests of the agent in flight
	closed  bool  // guarded by mu; none are any more
}

// trackRequests counts requests in flight, and refuses requests after waitAnswered.
func (t *traffic) trackRequests(h http.Handler) http.Handler {
	count := func(n int) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.closed && n > 0 {
			return false
		}
		t.busy += n
		return true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !count(1) {
			http.Error(w, "the session is over", http.StatusServiceUnavailable)
			return
		}
		defer count(-1)
		h.ServeHTTP(w, r)
	})
}

// waitAnswered waits until all requests of the agent are answered, and so are on the
// tape: the agent may end before an answer does. It waits at most sidecarTimeout.
func (t *traffic) waitAnswered() {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		t.mu.Lock()
		t.closed = t.busy == 0 || time.Since(start) > sidecarTimeout
		over := t.closed
		t.mu.Unlock()
		if over {
			return
		}
	}
}

// RoundTrip counts requests, and records the first that is not on the tape.
func (t *traffic) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.transport.RoundTrip(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all++
	if err != nil && t.missing == nil && fault.Of(err) == fault.NotFound {
		t.missing = err
	}
	return resp, err
}

// checkTape returns an error for a request that is not on the tape, or if a redirected
// agent sent no request.
func (t *traffic) checkTape() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missing == nil && t.all == 0 && t.redirected {
		return fmt.Errorf("%w: the agent sent no request to the recorded endpoint; its own settings may name another one, whose traffic is neither recorded nor replayed", fault.NotFound)
	}
	return t.missing
}

// open opens the tape of a session; nil means that models are asked directly. dirs differ
// between runs, and way is the transport of the agent.
func (t *tapes) open(artifacts string, dirs []string, way http.RoundTripper) (*traffic, error) {
	switch {
	case t.record != "":
		return t.recordTo(artifacts, dirs, way)
	case t.replay != "":
		return t.replayFrom(artifacts, dirs)
	}
	return nil, nil
}

// credentialTransport sends a request of the agent through the egress transport of its
// workspace if a network rule names a credential for the host, so that the credential is
// added. Other requests, such as those of a judge, are sent directly.
type credentialTransport struct {
	agent http.RoundTripper // nil is directly
	rules []driver.NetRule  // that allow something
}

// agentKey is the context key of requests of the agent.
type agentKey struct{}

func (w credentialTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(agentKey{}) != nil && w.agent != nil && slices.ContainsFunc(w.rules, func(rule driver.NetRule) bool {
		return rule.Credential != "" && ruleMatches(rule.Host, r.URL.Hostname())
	}) {
		return w.agent.RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// ruleMatches reports whether a rule names a host, exactly or by a "*." wildcard.
func ruleMatches(rule, host string) bool {
	rule, host = strings.ToLower(rule), strings.ToLower(host)
	end, wild := strings.CutPrefix(rule, "*")
	return rule == host || wild && strings.HasSuffix(host, end)
}

// agentTransport marks requests as those of the agent.
type agentTransport struct{ *traffic }

// RoundTrip adds agentKey to the context.
func (t agentTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.traffic.RoundTrip(r.WithContext(context.WithValue(r.Context(), agentKey{}, true)))
}

func (t *tapes) recordTo(artifacts string, dirs []string, way http.RoundTripper) (*traffic, error) {
	path, err := t.tapePath(t.record, artifacts)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("eval: record: %w: %w", fault.Of(err), err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("eval: record: %w: %w", fault.Of(err), err)
	}
	rec := replay.NewRecorder(credentialTransport{way, t.rules}, f)
	return &traffic{transport: rec.In(dirs...), close: func() error { return errors.Join(rec.Err(), f.Close()) }}, nil
}

// replayFrom opens the tape of a session. A repetition or retry that was not recorded
// uses the first tape.
func (t *tapes) replayFrom(artifacts string, dirs []string) (*traffic, error) {
	path, err := t.tapePath(t.replay, artifacts)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = sessionDir(path[:strings.LastIndex(path, string(filepath.Separator)+"repeat-")], 1, 1) + ".jsonl"
	}
	tape, err := replay.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("eval: replay: %w: this session was not recorded: there is no %s", fault.NotFound, path)
	}
	if err != nil {
		return nil, err
	}
	return &traffic{transport: tape.In(dirs...), close: func() error { return nil }}, nil
}
