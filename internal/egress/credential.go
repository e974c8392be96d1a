package egress

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/secret"
)

// Placeholder is the prefix of the text that a workspace has instead of a secret:
// "croft-secret:NAME". In headers of a request to a host whose rule has this credential, the
// proxy replaces it by the secret, also in the base64 of Basic authentication. Elsewhere it
// stays unchanged.
const Placeholder = "croft-secret:"

// A Credential says how a secret is sent. The zero value sends the secret of the same name as
// a bearer token, unless the request contains its placeholder, which is then replaced.
type Credential struct {
	Secret      string // its name; "" is the name of the credential
	Header      string // "" is Authorization
	Format      string // of the header, with {secret} in it; "" is "Bearer {secret}"
	User        string // not "": Basic authentication with this user and the secret as password
	Placeholder bool   // replace the placeholder only; add no header
	Plain       bool   // also over HTTP without TLS, where it can be read on the network
}

const formatMark = "{secret}"

func (p *Proxy) checkCredentials() error {
	for name, c := range p.opts.Credentials {
		switch {
		case c.Header != "" && !isToken(c.Header):
			return fmt.Errorf("egress: read credential %s: %w: %q is not the name of a header", name, fault.InvalidArgument, c.Header)
		case c.Format != "" && strings.Count(c.Format, formatMark) != 1, hasControl(c.Format):
			return fmt.Errorf("egress: read credential %s: %w: the format must have %s in it once", name, fault.InvalidArgument, formatMark)
		case c.User != "" && (c.Format != "" || strings.Contains(c.User, ":") || hasControl(c.User)):
			return fmt.Errorf("egress: read credential %s: %w: a user has no colon and goes without a format", name, fault.InvalidArgument)
		}
	}
	return nil
}

func (p *Proxy) lookupCredential(name string) Credential {
	c := p.opts.Credentials[name]
	if c.Secret == "" {
		c.Secret = name
	}
	return c
}

// addCredential prepares a request to a host with a credential: it adds the credential name,
// "" for none, requests a response without compression or ranges, and returns the scrubber
// for the response.
func (p *Proxy) addCredential(ctx context.Context, rs *rules, out *http.Request, name string) (*secret.Scrubber, error) {
	values := map[string]secret.Value{}
	for _, r := range rs.allow {
		if r.spec.Credential == "" {
			continue
		}
		v, err := p.secretValue(ctx, p.lookupCredential(r.spec.Credential).Secret)
		if err != nil && r.spec.Credential == name {
			return nil, err
		}
		if err == nil {
			values[r.spec.Credential] = v
		}
	}
	// Ranges could return a secret in pieces, which the scrubber would miss.
	for _, h := range []string{"Range", "If-Range"} {
		out.Header.Del(h)
	}
	out.Header.Set("Accept-Encoding", "identity")
	if name != "" {
		c := p.lookupCredential(name)
		if out.URL.Scheme != protoHTTPS && !c.Plain && !p.staysOnHost(out.URL.Host) {
			return nil, &refusal{code: fault.PermissionDenied, reason: "a credential is sent over TLS only; use https"}
		}
		c.applyTo(out.Header, values[name])
	}
	return p.scrub.get(values), nil
}

// staysOnHost reports whether requests to a host are sent over the loopback interface of this
// host, where they can't be read on the network.
func (p *Proxy) staysOnHost(host string) bool {
	t, err := splitTarget(host, 80)
	return err == nil && t.isLoopback() && !p.up.reaches(t)
}

// secretValue returns a secret that can be sent and scrubbed. Its refusals do not reveal which
// other secrets exist.
func (p *Proxy) secretValue(ctx context.Context, name string) (secret.Value, error) {
	if p.opts.Secrets == nil {
		return secret.Value{}, &refusal{code: fault.Unavailable, reason: "its credential is not there: there are no secrets"}
	}
	v, err := p.opts.Secrets.Get(ctx, p.opts.Workspace, name)
	switch {
	case errors.Is(err, context.Canceled):
		return v, &refusal{code: fault.Canceled, reason: "it was cut off"}
	case err != nil:
		return v, &refusal{code: fault.Unavailable, reason: "its credential is not there"}
	case v.Len() < secret.MinLength:
		return v, &refusal{code: fault.Unavailable, reason: "its credential is too short to be scrubbed from answers"}
	case hasControl(v.Reveal()):
		return v, &refusal{code: fault.Unavailable, reason: "its credential can't be sent in a header"}
	}
	return v, nil
}

var placeholder = lazyregexp.New(Placeholder + `[A-Za-z0-9_-]+`)

// carriesCredential reports whether a header usually has a credential, by its name.
func carriesCredential(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "token", "key", "secret", "cookie", "password", "credential"}, func(word string) bool { return strings.Contains(name, word) })
}

// applyTo puts a secret into headers that carry credentials: instead of its placeholder, or
// else as the value of the credential's header.
func (c Credential) applyTo(h http.Header, v secret.Value) {
	swapped := false
	swap := func(s string) string {
		return placeholder.ReplaceAllStringFunc(s, func(m string) string {
			if !strings.EqualFold(m[len(Placeholder):], c.Secret) {
				return m
			}
			swapped = true
			return v.Reveal()
		})
	}
	for name, values := range h {
		if !strings.EqualFold(name, c.Header) && !carriesCredential(name) {
			continue // a host that repeats any other header in its answer would give the secret away
		}
		for i, s := range values {
			values[i] = swap(s)
			if kind, rest, ok := strings.Cut(s, " "); ok && strings.EqualFold(kind, "Basic") && name == "Authorization" {
				if text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil && placeholder.Match(text) {
					values[i] = kind + " " + base64.StdEncoding.EncodeToString([]byte(swap(string(text))))
				}
			}
		}
	}
	if swapped || c.Placeholder {
		return
	}
	header, value := c.Header, strings.ReplaceAll(c.Format, formatMark, v.Reveal())
	if header == "" {
		header = "Authorization"
	}
	if c.Format == "" {
		value = "Bearer " + v.Reveal()
	}
	if c.User != "" {
		value = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.User+":"+v.Reveal()))
	}
	h.Set(header, value)
}

// scrubCache keeps the scrubber of the latest values.
type scrubCache struct {
	mu     sync.Mutex
	values []secret.Value
	s      *secret.Scrubber
}

func (c *scrubCache) get(by map[string]secret.Value) *secret.Scrubber {
	values := make([]secret.Value, 0, len(by))
	for _, v := range by {
		values = append(values, v)
	}
	slices.SortFunc(values, func(a, b secret.Value) int { return strings.Compare(a.Name(), b.Name()) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s == nil || !slices.Equal(c.values, values) {
		c.values, c.s = values, secret.NewScrubber(values, nil)
	}
	return c.s
}
