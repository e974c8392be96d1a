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

	"github.com/croft-run/croft/eval/replay"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Traffic with models is recorded, and replayed, by session: what one session says
// never answers another one. Tapes lie in a directory as artifacts do:
// CASE/RUNNER/repeat-1.jsonl.

// tapes are the recordings of a run.
type tapes struct {
	record, replay string // directories; "" is none
	runDir         string
	rules          []driver.NetRule // that allow something
}

// tapePath is where the tape of a session is, whose artifacts are in a directory of
// the run.
func (t *tapes) tapePath(below, artifacts string) (string, error) {
	rel, err := filepath.Rel(t.runDir, artifacts)
	if err != nil {
		return "", fmt.Errorf("eval: tape of %s: %w: %w", artifacts, fault.Internal, err)
	}
	return filepath.Join(below, rel) + ".jsonl", nil
}

// A traffic is the way of a session to its models.
type traffic struct {
	transport http.RoundTripper
	close     func() error

	redirected bool // the agent asks here

	mu      sync.Mutex
	all     int   // guarded by mu; requests
	missing error // guarded by mu; the first request that was not on the tape
	busy    int   // guarded by mu; requests of the agent that are being answered
	closed  bool  // guarded by mu; none are any more
}

// trackRequests lets h answer the agent until the traffic is settled.
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

// waitAnswered waits until all that the agent asked is answered, and so on the tape: it may
// have ended before the answer did. It waits at most sidecarTimeout.
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

// RoundTrip counts, and remembers what is not on the tape.
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

// checkTape says what is odd about what was asked: a request that is not on the tape,
// or an agent that asked its model in another way.
func (t *traffic) checkTape() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missing == nil && t.all == 0 && t.redirected {
		return fmt.Errorf("%w: the agent asked no model here: its own settings may name another one, which then is neither recorded nor replayed", fault.NotFound)
	}
	return t.missing
}

// trafficOf opens the tape of a session; nil is that models are asked directly.
// dirs are those that differ from run to run, and way is how the agent would ask.
func (t *tapes) open(artifacts string, dirs []string, way http.RoundTripper) (*traffic, error) {
	switch {
	case t.record != "":
		return t.recordTo(artifacts, dirs, way)
	case t.replay != "":
		return t.replayFrom(artifacts, dirs)
	}
	return nil, nil
}

// credentialTransport are how hosts are asked that are recorded: directly, and those for which the
// policy of the agent's workspace names a credential as the agent would ask them, so
// that it is added. A judge, which works outside, asks directly.
type credentialTransport struct {
	agent http.RoundTripper // nil is directly
	rules []driver.NetRule  // that allow something
}

// agentKey is the key of a context of what an agent asks.
type agentKey struct{}

func (w credentialTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(agentKey{}) != nil && w.agent != nil && slices.ContainsFunc(w.rules, func(rule driver.NetRule) bool {
		return rule.Credential != "" && ruleMatches(rule.Host, r.URL.Hostname())
	}) {
		return w.agent.RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// ruleMatches reports whether a rule names a host: as it is, or by "*." and its end.
func ruleMatches(rule, host string) bool {
	rule, host = strings.ToLower(rule), strings.ToLower(host)
	end, wild := strings.CutPrefix(rule, "*")
	return rule == host || wild && strings.HasSuffix(host, end)
}

// agentTransport is the traffic of the agent.
type agentTransport struct{ *traffic }

// RoundTrip marks what is asked.
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

// replayFrom opens the tape of a session. A repetition or another try that was not
// recorded is answered as the first one was.
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
