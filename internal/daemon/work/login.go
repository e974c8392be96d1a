package work

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
)

// placeholder, followed by the name of a secret, stands for the secret inside. The egress
// proxy replaces it in requests to the hosts of the secret.
const placeholder = "croft-secret:"

// A Login is a file in the user's home with the tokens of an agent.
type Login struct {
	File   string
	tokens func(data []byte) ([]token, error)                 // the tokens in it
	mask   func(data []byte, name func(string) string) []byte // the file with placeholders, by name of the token
}

// A token is a secret in a login file.
type token struct {
	name    string
	text    string
	hosts   []string  // that it is sent to; nil is those of the agent
	expires time.Time // zero if it does not expire
}

// read returns the file and its tokens, nil if there is no file.
func (l *Login) read(u User) ([]byte, []token, error) {
	data, err := os.ReadFile(u.userFile(l.File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	tokens, err := l.tokens(data)
	if err != nil {
		return nil, nil, fmt.Errorf("~/%s: %w: %w", l.File, fault.InvalidArgument, err)
	}
	return data, tokens, nil
}

// Secrets returns the keys and tokens of all agents by name. Login files are read again each time, so
// that a renewed token takes effect.
func (u User) Secrets() map[string]Secret {
	all := map[string]Secret{}
	for _, a := range Agents {
		plain := strings.HasPrefix(a.baseURL(u), "http://")
		keys := a.Keys
		if a.moreKeys != nil {
			keys = append(slices.Clone(keys), a.moreKeys(u)...)
		}
		for _, name := range keys {
			if text := u.Env(name); text != "" {
				all[strings.ToLower(name)] = Secret{text, plain || all[strings.ToLower(name)].Plain}
			}
		}
		if a.Login == nil {
			continue
		}
		_, tokens, err := a.Login.read(u)
		if err != nil {
			continue // the start of the agent reports it
		}
		for _, t := range tokens {
			all[t.name] = Secret{t.text, plain}
		}
	}
	return all
}

// year is a time that no session lasts.
const year = 365 * 24 * time.Hour

var claudeLogin = &Login{
	File: ".claude/.credentials.json",
	tokens: func(data []byte) ([]token, error) {
		var f struct {
			OAuth struct {
				Access  string `json:"accessToken"`
				Expires int64  `json:"expiresAt"` // milliseconds
			} `json:"claudeAiOauth"`
		}
		if err := json.Unmarshal(data, &f); err != nil || f.OAuth.Access == "" {
			return nil, err
		}
		t := token{name: "claude_login", text: f.OAuth.Access}
		if f.OAuth.Expires > 0 {
			t.expires = time.UnixMilli(f.OAuth.Expires)
		}
		return []token{t}, nil
	},
	mask: func(data []byte, name func(string) string) []byte {
		return editJSON(data, func(f map[string]any) {
			if o, ok := object(f, "claudeAiOauth"); ok {
				o["accessToken"], o["refreshToken"], o["expiresAt"] = name("claude_login"), "", time.Now().Add(year).UnixMilli()
			}
			for key := range f {
				if key != "claudeAiOauth" {
					delete(f, key) // tokens of MCP servers
				}
			}
		})
	},
}

var codexLogin = &Login{
	File: ".codex/auth.json",
	tokens: func(data []byte) ([]token, error) {
		var f struct {
			Key    string `json:"OPENAI_API_KEY"`
			Tokens struct {
				Access string `json:"access_token"`
			} `json:"tokens"`
		}
		if err := json.Unmarshal(data, &f); err != nil {
			return nil, err
		}
		var list []token
		if f.Key != "" {
			list = append(list, token{name: "codex_key", text: f.Key})
		}
		if f.Tokens.Access != "" {
			list = append(list, token{name: "codex_login", text: f.Tokens.Access, hosts: []string{"chatgpt.com"}, expires: jwtExpiry(f.Tokens.Access)})
		}
		return list, nil
	},
	mask: func(data []byte, name func(string) string) []byte {
		return editJSON(data, func(f map[string]any) {
			if key, _ := f["OPENAI_API_KEY"].(string); key != "" {
				f["OPENAI_API_KEY"] = name("codex_key")
			}
			if t, ok := object(f, "tokens"); ok {
				id, _ := t["id_token"].(string)
				t["access_token"], t["refresh_token"], t["id_token"] = name("codex_login"), "", withoutSignature(id)
				f["last_refresh"] = time.Now().UTC().Format(time.RFC3339)
			}
		})
	},
}

// jwtExpiry returns the time at which a JSON Web Token expires, zero if it is not known.
func jwtExpiry(text string) time.Time {
	parts := strings.Split(text, ".")
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if len(parts) != 3 {
		return time.Time{}
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &claims) != nil || claims.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}

// withoutSignature returns a JSON Web Token that proves nothing: its claims name the user
// and the plan, which Codex shows.
func withoutSignature(text string) string {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return ""
	}
	return parts[0] + "." + parts[1] + ".bm9uZQ"
}

var geminiLogin = &Login{
	File: ".gemini/oauth_creds.json",
	tokens: func(data []byte) ([]token, error) {
		var f struct {
			Access  string `json:"access_token"`
			Expires int64  `json:"expiry_date"` // milliseconds
		}
		if err := json.Unmarshal(data, &f); err != nil || f.Access == "" {
			return nil, err
		}
		t := token{name: "gemini_login", text: f.Access, hosts: []string{"cloudcode-pa.googleapis.com"}}
		if f.Expires > 0 {
			t.expires = time.UnixMilli(f.Expires)
		}
		return []token{t}, nil
	},
	mask: func(data []byte, name func(string) string) []byte {
		return editJSON(data, func(f map[string]any) {
			f["access_token"], f["expiry_date"] = name("gemini_login"), time.Now().Add(year).UnixMilli()
			delete(f, "refresh_token")
			delete(f, "id_token")
		})
	},
}

// opencodeHosts are the hosts of opencode's providers.
var opencodeHosts = map[string]string{
	"anthropic": "api.anthropic.com", "openai": "api.openai.com", "google": "generativelanguage.googleapis.com", "openrouter": "openrouter.ai",
	"opencode": "opencode.ai", "github-copilot": "api.githubcopilot.com", "xai": "api.x.ai", "groq": "api.groq.com", "mistral": "api.mistral.ai",
	"deepseek": "api.deepseek.com",
}

type opencodeEntry struct {
	Type    string `json:"type"`
	Key     string `json:"key"`
	Access  string `json:"access"`
	Expires int64  `json:"expires"` // milliseconds
}

var opencodeLogin = &Login{
	File: ".local/share/opencode/auth.json",
	tokens: func(data []byte) ([]token, error) {
		var f map[string]opencodeEntry
		if err := json.Unmarshal(data, &f); err != nil {
			return nil, err
		}
		var list []token
		for id, e := range f {
			t := token{name: opencodeName(id), text: e.Key + e.Access}
			if t.text == "" || opencodeHosts[id] == "" {
				continue
			}
			if e.Expires > 0 {
				t.expires = time.UnixMilli(e.Expires)
			}
			t.hosts = []string{opencodeHosts[id]}
			list = append(list, t)
		}
		return list, nil
	},
	mask: func(data []byte, name func(string) string) []byte {
		return editJSON(data, func(f map[string]any) {
			for id, v := range f {
				e, ok := v.(map[string]any)
				if !ok || opencodeHosts[id] == "" {
					delete(f, id) // it is not known where its key may go
					continue
				}
				for _, key := range []string{"key", "access"} {
					if text, _ := e[key].(string); text != "" {
						e[key] = name(opencodeName(id))
					}
				}
				if _, ok := e["refresh"]; ok {
					e["refresh"], e["expires"] = "", time.Now().Add(year).UnixMilli()
				}
			}
		})
	},
}

func opencodeName(provider string) string {
	return "opencode_" + notInNames.ReplaceAllString(strings.ToLower(provider), "_")
}

// editJSON changes a JSON object. The tokens of the file were read from it before.
func editJSON(data []byte, change func(map[string]any)) []byte {
	f := map[string]any{}
	if json.Unmarshal(data, &f) != nil {
		return nil
	}
	change(f)
	out, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil
	}
	return out
}
