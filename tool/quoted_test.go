package tool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
)

// TestReadQuotedIsReadPlain reads files with the text put where the caller wants it
// as JSON, and without.
func TestReadQuotedIsReadPlain(t *testing.T) {
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_TOKEN=hunter2hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Secrets: store, MaxText: 300 << 10})
	for name, tt := range map[string]struct {
		text   string
		quoted bool
	}{
		"empty":       {"", true},
		"no end":      {"one\ntwo", true},
		"CRLF":        {"one\r\ntwo\r\n\r\n\rthree\r", true},
		"escapes":     {"\t\"q\"\\ \x01 <&>\n\u2028 \xff\xfe ä\n", true},
		"many":        {strings.Repeat("a line\n", 1200), true},
		"much":        {strings.Repeat(strings.Repeat("y", 70)+"\n", 1200), true},
		"a secret":    {"x hunter2hunter2 y\n", false},
		"a form":      {"-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEAx1\n", 3) + "-----END RSA PRIVATE KEY-----\n", true},
		"large":       {strings.Repeat(strings.Repeat("x", 99)+"\n", 3000), false},
		"large lines": {strings.Repeat(strings.Repeat("x", 70_000)+"\r\n", 5), false},
		"binary":      {"a\x00b\n", true},
	} {
		put(t, env, "w", "f", tt.text)
		for _, args := range []string{`{"file_path":"f"}`, `{"file_path":"f","offset":2,"limit":1}`, `{"file_path":"f","offset":9,"limit":1000}`, `{"file_path":"f","limit":100000}`} {
			what := fmt.Sprintf("%s: %s", name, args)
			plain, perr := env.Run(t.Context(), tool.Request{Tool: "Read", Args: json.RawMessage(args)})
			buf := []byte("before")
			var sent []byte
			res, err := env.Run(t.Context(), tool.Request{Tool: "Read", Args: json.RawMessage(args), Quoted: &buf, Send: func() {
				sent = append(sent, buf...)
				buf = buf[:0]
			}})
			if early := sent != nil; early && (err != nil || !res.Quoted) || early != (name == "much" && err == nil && res.Quoted) {
				t.Errorf("%s: %d bytes were sent before the end: %v", what, len(sent), err)
			}
			buf = append(sent, buf...)
			if err != nil || perr != nil {
				if fmt.Sprint(err) != fmt.Sprint(perr) {
					t.Errorf("%s: %v, want %v", what, err, perr)
				}
				continue
			}
			if res.Quoted != tt.quoted && !strings.Contains(args, "100000") {
				t.Errorf("%s: quoted is %v", what, res.Quoted)
			}
			got := res.Text
			if res.Quoted {
				if err := json.Unmarshal(buf[len("before"):], &got); err != nil {
					t.Errorf("%s: %q: %v", what, buf, err)
				}
			}
			var want string // as JSON has it
			if data, err := json.Marshal(plain.Text); err != nil || json.Unmarshal(data, &want) != nil {
				t.Fatal(err)
			}
			if !res.Quoted {
				want = plain.Text
			}
			if res.Handle != "" && plain.Handle != "" { // each has its own
				got = strings.ReplaceAll(got, res.Handle, plain.Handle)
			}
			if got != want || string(res.Beside) != string(plain.Beside) || strings.Contains(got, "hunter2") {
				t.Errorf("%s: %.200q and %s, want %.200q and %s", what, got, res.Beside, want, plain.Beside)
			}
		}
	}
}
