package rest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
)

const keysPath = "/v1/keys"

func keyRoutes(s *Server) {
	handle(s, withScope(s.op(http.MethodGet, keysPath, "list-keys", "API keys, oldest first; those of the caller's tenant"), auth.Admin),
		with(s.keyStore, listKeys))
	handle(s, withScope(s.op(http.MethodPost, keysPath, "create-key", "Create an API key; its text is in this answer alone"), auth.Admin),
		with(s.keyStore, createKey))
	handle(s, withScope(s.op(http.MethodPost, keysPath+"/{key}/rotate", "rotate-key", "Give an API key a new text, and refuse the previous one, at once or after an overlap"), auth.Admin),
		with(s.keyStore, rotateKey))
	handle(s, withScope(s.op(http.MethodDelete, keysPath+"/{key}", "revoke-key", "Revoke an API key for good"), auth.Admin),
		with(s.keyStore, revokeKey))
}

// keyStore returns the API keys.
func (s *Server) keyStore(context.Context) (*auth.Keys, error) {
	if s.cfg.Guard.Keys == nil {
		return nil, fmt.Errorf("API keys: %w: this server has none", fault.Unsupported)
	}
	return s.cfg.Guard.Keys, nil
}

// The JSON types of keys are the client's own.
type (
	// Key is an API key without its text.
	Key = client.Key
	// NewKey is an API key with its text.
	NewKey = client.NewKey
	// KeyRequest says which key is created.
	KeyRequest = client.KeyRequest
	// RotateRequest says how a key is rotated.
	RotateRequest = client.RotateRequest
)

// Keys is the answer of GET /v1/keys.
type Keys struct {
	Keys []Key `json:"keys"`
}

func keyView(k auth.Key) Key {
	return Key{
		ID: k.ID, Tenant: k.Tenant, Scope: string(k.Scope), Name: k.Name,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, LastUsed: k.LastUsed, RevokedAt: k.RevokedAt, PreviousUntil: k.PreviousUntil, Workspace: k.Workspace,
	}
}

func listKeys(ctx context.Context, keys *auth.Keys, _ *none) (*body[Keys], error) {
	list, err := keys.List(ctx)
	out := Keys{Keys: []Key{}}
	for _, k := range list {
		out.Keys = append(out.Keys, keyView(k))
	}
	return &body[Keys]{out}, err
}

func createKey(ctx context.Context, keys *auth.Keys, in *struct{ Body KeyRequest }) (*body[NewKey], error) {
	expires, err := expiryAfter(in.Body.Expires)
	if err != nil {
		return nil, err
	}
	k, text, err := keys.Create(ctx, auth.Key{Tenant: in.Body.Tenant, Scope: auth.Scope(in.Body.Scope), Name: in.Body.Name, ExpiresAt: expires})
	if err != nil {
		return nil, err
	}
	setTarget(ctx, k.ID)
	return &body[NewKey]{NewKey{Key: keyView(k), Text: text}}, nil
}

// expiryAfter returns the time after a duration such as 90d or 12h; zero for "".
func expiryAfter(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	d, err := client.ParseAge(text)
	if err != nil {
		return time.Time{}, badParameter("expires", "%q is not a positive duration such as 90d or 12h", text)
	}
	return time.Now().UTC().Add(d), nil
}

// KeyTarget addresses an API key.
type KeyTarget struct {
	Key string `path:"key" doc:"id of the key"`
}

type rotateInput struct {
	KeyTarget
	Body RotateRequest
}

func rotateKey(ctx context.Context, keys *auth.Keys, in *rotateInput) (*body[NewKey], error) {
	expires, err := expiryAfter(in.Body.Expires)
	if err != nil {
		return nil, err
	}
	var overlap time.Duration
	if in.Body.Overlap != "" {
		if overlap, err = client.ParseAge(in.Body.Overlap); err != nil {
			return nil, badParameter("overlap", "%q is not a positive duration such as 1h or 7d", in.Body.Overlap)
		}
	}
	k, text, err := keys.Rotate(ctx, in.Key, expires, overlap)
	if err != nil {
		return nil, err
	}
	return &body[NewKey]{NewKey{Key: keyView(k), Text: text}}, nil
}

func revokeKey(ctx context.Context, keys *auth.Keys, in *KeyTarget) (*body[Key], error) {
	k, err := keys.Revoke(ctx, in.Key)
	return &body[Key]{keyView(k)}, err
}
