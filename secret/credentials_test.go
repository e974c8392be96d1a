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

func TestStripGitConfig(t *testing.T) {
	for config, want := range map[string]string{
		"[remote \"o\"]\n\turl = https://a:b@c/d\n":                               "[remote \"o\"]\n\turl = https://c/d\n",
		"[http]\n\textraHeader = A: b \\\n more\n\tproxy = http://u:p@q:1\n":      "[http]\n\textraHeader =\n\tproxy = http://q:1\n",
		"[remote \"o\"]\n\turl = \"https://u2:q\\\"pw@h/x\" # c\n[a]\n":           "[remote \"o\"]\n\turl = \"https://h/x\"\n[a]\n",
		"[remote \"o\"]\n\turl = https://u:pass\\\nword@h/x\n\tk = v\n":           "[remote \"o\"]\n\turl = \"https://h/x\"\n\tk = v\n",
		"[remote \"o\"]\n\turl = https://u:pass\\\r\nword@h/x\r\n":                "[remote \"o\"]\n\turl = \"https://h/x\"\n",
		"[remote \"o\"]\n\turl = https://u:p@ss@h/x@y\n":                          "[remote \"o\"]\n\turl = https://h/x@y\n",
		"[url \"https://u:p\\\"w@h/\"]\n\tinsteadOf = x:\n":                       "[url \"https://h/\"]\n\tinsteadOf = x:\n",
		"[sendemail]\n\tsmtpPass = s # x \\\n\tsmtpUser = u\n[imap] pass = \"p\"": "[sendemail]\n\tsmtpPass =\n\tsmtpUser = u\n[imap] pass =",
		"[core]\n\ta = \"x # \\\" y\"\n\tb\n# https://u:p@h\n":                    "[core]\n\ta = \"x # \\\" y\"\n\tb\n# https://h\n",
		"[user]\n\tsigningKey = K\n[core]\n\tsshCommand = ssh -i k\n":             "[user]\n\tsigningKey = K\n[core]\n\tsshCommand = ssh -i k\n",
		"[http] EXTRAHEADER=x":                         "[http] EXTRAHEADER=",
		"[remote \"o\"]\n\turl = git@host:a@b/c.git\n": "[remote \"o\"]\n\turl = git@host:a@b/c.git\n",
	} {
		if got := string(StripGitConfig([]byte(config))); got != want {
			t.Errorf("%q becomes %q, want %q", config, got, want)
		}
	}
}
