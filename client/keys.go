package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
)

const keysPath = "/v1/keys"

// A Key is an API key of a server, without its text.
type Key struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant,omitempty" doc:"absent is the server's own"`
	Scope     string    `json:"scope" enum:"read,run,admin"`
	Name      string    `json:"name,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero" doc:"absent is never"`
	LastUsed  time.Time `json:"lastUsed,omitzero" doc:"to within a minute"`
	RevokedAt time.Time `json:"revokedAt,omitzero"`

	PreviousUntil time.Time `json:"previousUntil,omitzero" doc:"until when the text before the last rotation is accepted"`

	Workspace string `json:"workspace,omitempty" doc:"id of the only workspace that it shows, of a share link"`
}

// A NewKey is an API key with its text, which the server does not store.
type NewKey struct {
	Key
	Text string `json:"key" doc:"the API key itself, shown once"`
}

// KeyRequest is the argument of CreateKey.
type KeyRequest struct {
	Tenant  string `json:"tenant,omitempty" doc:"[a-z0-9][a-z0-9-]{0,62}; absent is the caller's own"`
	Scope   string `json:"scope" doc:"read, run or admin; each includes the ones before it"`
	Name    string `json:"name,omitempty" doc:"free text"`
	Expires string `json:"expires,omitempty" doc:"a duration such as 90d or 12h; absent is never"`
}

// RotateRequest is the argument of RotateKey.
type RotateRequest struct {
	Expires string `json:"expires,omitempty" doc:"a duration such as 90d or 12h; absent keeps the expiry"`
	Overlap string `json:"overlap,omitempty" doc:"how long the previous text is accepted, such as 1h or 7d; absent is not at all"`
}

// Keys lists the API keys that the caller manages.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	return getField[[]Key](ctx, c, "keys", request{method: http.MethodGet, path: keysPath})
}

// CreateKey creates an API key.
func (c *Client) CreateKey(ctx context.Context, k KeyRequest) (NewKey, error) {
	return get[NewKey](ctx, c, request{method: http.MethodPost, path: keysPath, json: k})
}

// RotateKey gives an API key a new text.
func (c *Client) RotateKey(ctx context.Context, id string, r RotateRequest) (NewKey, error) {
	if err := checkSnapshotName(id); err != nil {
		return NewKey{}, err
	}
	return get[NewKey](ctx, c, request{method: http.MethodPost, path: keysPath + "/" + url.PathEscape(id) + "/rotate", json: r})
}

// RevokeKey revokes an API key.
func (c *Client) RevokeKey(ctx context.Context, id string) (Key, error) {
	if err := checkSnapshotName(id); err != nil {
		return Key{}, err
	}
	return get[Key](ctx, c, request{method: http.MethodDelete, path: keysPath + "/" + url.PathEscape(id)})
}

// ParseAge parses a positive duration that may be in days: 90d, 12h, 1h30m.
func ParseAge(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		if n > maxDays {
			n = 0
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return 0, fault.Advise(fmt.Errorf("client: duration %.80q: %w", text, fault.InvalidArgument), "give a positive one such as 90d or 12h")
	}
	return d, nil
}

const maxDays = 36500
