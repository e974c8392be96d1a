package secret

import (
	"slices"
	"testing"
)

func TestFileValues(t *testing.T) {
	for name, tt := range map[string]struct {
		in   string
		want []string
	}{
		"claude":   {`{"claudeAiOauth": {"accessToken": "` + noise(30) + `", "refreshToken": "short-but-named", "scopes": ["user:inference"], "expiresAt": 1}}`, []string{noise(30), "short-but-named"}},
		"opencode": {`{"x": {"type": "api", "key": "plain-words"}}`, []string{"plain-words"}},
		"settings": {`{"model": "claude-sonnet-4-5-20250929", "theme": "dark"}`, nil},
		"env":      {"GEMINI_API_KEY=\"" + noise(24) + "\"\nMODEL=gemini\n", []string{noise(24)}},
		"none":     {"", nil},
	} {
		var got []string
		for _, v := range FileValues("x", []byte(tt.in)) {
			got = append(got, v.Reveal())
		}
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
