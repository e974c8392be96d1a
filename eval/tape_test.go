package eval

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// tripping is a function as a RoundTripper.
type tripping func(*http.Request) (*http.Response, error)

func (f tripping) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCredentialsAreAddedWhileRecording asks hosts with and without one, for an agent
// and for a judge: nobody listens where it is asked directly.
func TestCredentialsAreAddedWhileRecording(t *testing.T) {
	through := errors.New("through the proxy")
	w := credentialTransport{tripping(func(*http.Request) (*http.Response, error) { return nil, through }),
		[]driver.NetRule{{Host: "127.0.0.1", Credential: "key"}, {Host: "*.localhost", Credential: "key"}, {Host: "localhost"}}}
	agent := context.WithValue(t.Context(), agentKey{}, true)
	for name, c := range map[string]struct {
		ctx  context.Context
		host string
		want bool
	}{
		"the agent":                 {agent, "127.0.0.1", true},
		"the agent, by a pattern":   {agent, "model.LOCALHOST", true},
		"the agent, elsewhere":      {agent, "127.0.0.2", false},
		"the agent, no credential":  {agent, "localhost", false},
		"a judge, of the same host": {t.Context(), "127.0.0.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(c.ctx, http.MethodGet, "http://"+c.host+":1/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := w.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			if got := errors.Is(err, through); got != c.want {
				t.Errorf("through the proxy: %v (%v), want %v", got, err, c.want)
			}
		})
	}
}

// TestWhatIsBeingAnsweredIsWaitedFor: a tape ends when what was asked is on it, or has
// hung for too long; nothing is answered afterwards.
func TestWhatIsBeingAnsweredIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct{ takes, want time.Duration }{
		"an answer": {3 * time.Second, 3 * time.Second}, "nothing": {0, 0}, "what hangs": {time.Hour, sidecarTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := new(traffic)
			h := tr.trackRequests(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(c.takes) }))
			ask := func() int {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://model/", nil))
				return w.Code
			}
			var wg sync.WaitGroup
			wg.Go(func() { ask() })
			synctest.Wait() // until it is being answered
			start := time.Now()
			tr.waitAnswered()
			if took := time.Since(start).Round(time.Second); took != c.want {
				t.Errorf("%s: it is waited for %v, want %v", name, took, c.want)
			}
			if got, want := ask(), http.StatusServiceUnavailable; got != want {
				t.Errorf("%s: afterwards the answer is %d, want %d", name, got, want)
			}
			wg.Wait()
		})
	}
}
