package replay

import (
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/croft-run/croft/secret"
)

// Agents have the credentials of their models, and may send them in prompts, for example
// in the output of a command; models may repeat them. On a tape they are replaced by a
// marker, so that a replay with other credentials, or none, finds the same requests.

// Headers and query parameters with credentials.
var (
	credentialHeaders = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}
	credentialQueries = []string{"key", "api_key", "access_token"}
)

// minKeyLength is the length of the shortest text that counts as a credential.
const minKeyLength = 12

// credentials are the credentials of a run: those of its requests, and those in the
// environment of this process, which agents have as well.
type credentials struct {
	mu       sync.Mutex
	values   map[string]bool  // guarded by mu
	scrubber *secret.Scrubber // guarded by mu; for values
}

// scrubberFor returns a scrubber for all credentials that are known at a request.
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

// add adds a credential. The caller holds k.mu.
func (k *credentials) add(text string) {
	if text = strings.TrimSpace(text); len(text) >= minKeyLength {
		k.values[text] = true
	}
}

// knownKeyForms finds credentials of well-known services by their format.
var knownKeyForms = sync.OnceValue(func() *secret.Scrubber {
	return secret.NewScrubber(nil, &secret.ScrubOptions{Finders: []secret.Finder{secret.Known()}})
})
