package e2b

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace/driver"
)

// secretAnswer is a secret as E2B describes it. The operator sets secrets, and Croft stores
// neither versions nor times of them.
type secretAnswer struct {
	SecretID       string            `json:"secretID"`
	Name           string            `json:"name"`
	CurrentVersion int               `json:"currentVersion"`
	Metadata       map[string]string `json:"metadata"`
	CreatedAt      time.Time         `json:"createdAt"`
	UpdatedAt      time.Time         `json:"updatedAt"`
}

func describeSecret(name string) secretAnswer {
	return secretAnswer{SecretID: name, Name: name, CurrentVersion: 1, Metadata: map[string]string{}, CreatedAt: time.Unix(0, 0).UTC(), UpdatedAt: time.Unix(0, 0).UTC()}
}

// secretNames returns the names of the principal's secrets, sorted.
func (s *Server) secretNames(r *http.Request) ([]string, error) {
	if s.cfg.Secrets == nil {
		return nil, nil
	}
	return s.cfg.Secrets(r.Context())
}

func (s *Server) listSecrets(r *http.Request) (answer, error) {
	names, err := s.secretNames(r)
	if err != nil {
		return answer{}, err
	}
	page, next, err := pageOf(r.URL.Query(), names, false, func(name string) string { return name })
	out := []secretAnswer{}
	for _, name := range page {
		out = append(out, describeSecret(name))
	}
	return answer{body: out, next: next}, err
}

func (s *Server) getSecret(r *http.Request) (answer, error) {
	names, err := s.secretNames(r)
	if err != nil {
		return answer{}, err
	}
	name := strings.ToLower(r.PathValue("secret"))
	if !slices.Contains(names, name) {
		return answer{}, fmt.Errorf("secret %.80q: %w: Secret.list lists the secrets, which the operator sets", name, fault.NotFound)
	}
	return answer{body: describeSecret(name)}, nil
}

func changeSecret(*http.Request) (answer, error) {
	err := unsupported("change of secrets", "this server takes no secrets over E2B's API; the operator sets them as environment variables or files")
	return answer{}, fault.WithHint(err, fault.HintSetting, "secrets")
}

// bearerSecret is the value of a header that a credential of the proxy sends.
var bearerSecret = lazyregexp.New(`^Bearer \$\{e2b\.secrets\.([A-Za-z0-9_-]{1,128})\}$`)

// addCredentials adds the credentials of network rules to the hosts that may be reached. A
// credential is sent as a bearer token; other headers are unsupported.
func (c *networkConfig) addCredentials(n *driver.Network) error {
	for _, host := range slices.Sorted(maps.Keys(c.Rules)) {
		for _, rule := range c.Rules[host] {
			if rule.Transform == nil {
				continue
			}
			for header, value := range rule.Transform.Headers {
				m := bearerSecret.FindStringSubmatch(value)
				if m == nil || !strings.EqualFold(header, "Authorization") || len(rule.Transform.Headers) > 1 {
					return unsupported(fmt.Sprintf("network.rules for %.80q, header %.80q", host, header),
						"a rule can send a secret of the operator as Authorization: Bearer ${e2b.secrets.NAME}, and no other header")
				}
				with := driver.NetRule{Host: host, Credential: strings.ToLower(m[1])}
				if at := slices.IndexFunc(n.Allow, func(r driver.NetRule) bool { return r.Host == host }); at >= 0 {
					n.Allow[at] = with
				} else {
					n.Allow = slices.Insert(n.Allow, 0, with)
				}
			}
		}
	}
	return nil
}
