package replay

import (
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/croft-run/croft/secret"
)

// Agents see the keys that they ask their models with, and may say them: in what a
// command printed, which is sent to the model with all else, and in what the model
// makes of it. A tape has a mark in their place, whatever they are, so that a replay
// with other keys, or none that are worth anything, finds the same requests.

// credential headers, and those parts of a query that are secret.
var (
	credentialHeaders = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}
	credentialQueries = []string{"key", "api_key", "access_token"}
)

// minKeyLength is the length of the shortest text that is taken for a key.
const minKeyLength = 12

// credentials are the credentials of a run: those that requests were made with, and those
// in the environment of this process, which agents have as well.
type credentials struct {
	mu       sync.Mutex
	values   map[string]bool  // guarded by mu
	scrubber *secret.Scrubber // guarded by mu; of what was seen
}

// scrubberFor returns what hides the keys known when a request is made.
func (k *credentials) scrubberFor(r *http.Request) *secret.Scrubber {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := len(k.values)
	if k.values == nil {
		k.values = map[string]bool{}
		for _, pair := range os.Environ() {
			name, value, _ := strings.Cut(pair, "=")
			if secret.IsSecretName(name) || strings.HasSuffix(strings.ToUpper(name), "_KEY") || strings.HasPrefix(name, secret.DefaultPrefix) {
				k.add(value)
			}
		}
	}
	for _, name := range credentialHeaders {
		for _, value := range r.Header.Values(name) {
			if _, after, ok := strings.Cut(value, " "); ok { // behind the scheme
				value = after
			}
			k.add(value)
		}
	}
	q := r.URL.Query()
	for _, name := range credentialQueries {
		k.add(q.Get(name))
	}
	if k.scrubber == nil || len(k.values) != was {
		var values []secret.Value
		for text := range k.values {
			values = append(values, secret.NewValue("key", text))
		}
		k.scrubber = secret.NewScrubber(values, nil)
	}
	return k.scrubber
}

// The caller holds k.mu.
func (k *credentials) add(text string) {
	if text = strings.TrimSpace(text); len(text) >= minKeyLength {
		k.values[text] = true
	}
}

// knownKeyForms finds keys of well-known services by what they look like.
var knownKeyForms = sync.OnceValue(func() *secret.Scrubber {
	return secret.NewScrubber(nil, &secret.ScrubOptions{Finders: []secret.Finder{secret.Known()}})
})
