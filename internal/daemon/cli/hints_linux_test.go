package cli_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A hintRun runs croft with variables, in a directory.
type hintRun struct {
	t    *testing.T
	data string
	dir  string
	env  []string

	hosts string // shown as /etc/hosts; "" is that of this host
}

// croft returns all output of a command, and whether it succeeded.
func (r hintRun) croft(args ...string) (string, bool) {
	r.t.Helper()
	cmd := croft(r.t, r.data, args...)
	cmd.Dir, cmd.Env = r.dir, append(cmd.Env, r.env...)
	if r.hosts != "" {
		within := exec.CommandContext(r.t.Context(), "unshare", append([]string{"-m", "sh", "-c",
			`mount --bind "$0" /etc/hosts && exec "$@"`, r.hosts, cmd.Path}, args...)...)
		within.Dir, within.Env = cmd.Dir, cmd.Env
		cmd = within
	}
	out, err := cmd.CombinedOutput()
	if _, ok := err.(*exec.ExitError); err != nil && !ok { //nolint:errorlint // as os/exec returns it
		r.t.Fatal(err)
	}
	return string(out), err == nil
}

// refused runs a command that must fail, and returns what its output has in the parentheses of a
// pattern: the hint.
func (r hintRun) refused(pattern string, args ...string) string {
	r.t.Helper()
	out, ok := r.croft(args...)
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if ok || m == nil {
		r.t.Fatalf("croft %q: succeeded %t, want a failure with %s:\n%s", args, ok, pattern, out)
	}
	return m[1]
}

// succeeds runs a command as a hint says, which must succeed.
func (r hintRun) succeeds(want string, args ...string) string {
	r.t.Helper()
	out, ok := r.croft(args...)
	if !ok || !strings.Contains(out, want) {
		r.t.Errorf("croft %q, as the hint says: succeeded %t, want %q:\n%s", args, ok, want, out)
	}
	return out
}

// TestRefusalHintsWork: who does what a refusal of the egress proxy says is let through. The hints
// are executed as they are printed.
func TestRefusalHintsWork(t *testing.T) {
	host, roots := secureServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached it") })
	r := hintRun{t, filepath.Join(t.TempDir(), "data"), t.TempDir(), []string{"SSL_CERT_FILE=" + roots}, ""}
	ask := []string{"--", "curl", "-sSf", "https://" + host}

	flags := strings.Fields(r.refused(`; (--allow-net \S+) lets it through`, append([]string{"run"}, ask...)...))
	r.succeeds("reached it", append(append([]string{"run"}, flags...), ask...)...)

	r.succeeds("", "ws", "open", "closed", "--provider", "sandbox")
	flags = strings.Fields(r.refused(`; a workspace opened with (--allow-net \S+) reaches it`,
		append([]string{"ws", "exec", "closed"}, ask...)...))
	r.succeeds("", append([]string{"ws", "open", "open", "--provider", "sandbox"}, flags...)...)
	r.succeeds("reached it", append([]string{"ws", "exec", "open"}, ask...)...)

	words := strings.Fields(r.refused(`; croft (work allow \S+) lets it through`, append([]string{"work"}, ask...)...))
	r.succeeds("", words...)
	r.succeeds("reached it", append([]string{"work"}, ask...)...)
}

// TestAddressHintWorks: the rule that a refusal of an address names lets the host through.
func TestAddressHintWorks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: host: only root can show a process another /etc/hosts")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached it") }))
	defer server.Close()
	ip, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	at, hosts := "gateway.croft.test:"+port, filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte(ip+" gateway.croft.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The C library does not find names of /etc/hosts that end with a dot.
	r := hintRun{t, filepath.Join(t.TempDir(), "data"), t.TempDir(), []string{"GODEBUG=netdns=go"}, hosts}
	ask := []string{"--", "curl", "-sSf", "http://" + at}
	rule := r.refused(`its address is .*; a rule of croft.yaml reaches it: (.*?), with --allow-net @NAME`,
		append([]string{"run", "--allow-net", at}, ask...)...)
	file := filepath.Join(r.dir, "rules.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+rule+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.succeeds("reached it", append([]string{"run", "--config", file, "--allow-net", "@NAME"}, ask...)...)
}

// TestTokenHintsWork: who does what a refusal for lack of a token or key says is let in.
func TestTokenHintsWork(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, data)
	list := []string{"ws", "list", "--server", s.URL}
	with := func(data string, env ...string) hintRun { return hintRun{t, data, t.TempDir(), env, ""} }
	owner := with(data)

	none := with(filepath.Join(t.TempDir(), "none"))
	file := strings.Replace(none.refused(`no token\nhint: give --token or set CROFT_TOKEN; croft up prints the token and `+
		`stores it in (DATA/token)`, list...), "DATA", data, 1)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	none.succeeds("NAME", append(list, "--token", token)...)
	with(none.data, "CROFT_TOKEN="+token).succeeds("NAME", list...)

	other := with(filepath.Join(t.TempDir(), "other"))
	other.succeeds("", "ws", "list")
	if err := os.WriteFile(filepath.Join(other.data, "token"), []byte(strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	variable := other.refused(`wrong token.*(?s:.*)give --token, set CROFT_TOKEN, or set (CROFT_DATA) to the data directory `+
		`of the server, whose file token has it`, list...)
	with(other.data, variable+"="+data).succeeds("NAME", list...)

	// A command that the answer to a wrong key names makes one that is right.
	const prints = `(e2b_[0-9a-f]{40})`
	key := func(command string) string {
		t.Helper()
		m := regexp.MustCompile(prints).FindString(owner.succeeds("", strings.Fields(strings.TrimPrefix(command, "croft "))...))
		none.succeeds("NAME", append(list, "--token", m)...)
		return m
	}
	made := key(none.refused(`a key that (croft key create) makes on the server's host`, append(list, "--token", "nonsense")...))
	unknown := made[:len(made)-4] + strings.Map(func(c rune) rune { return 'a' + (c+1)%6 }, made[len(made)-4:])
	key(none.refused(`does not know it(?s:.*)a key that (croft key create) makes on the server's host`, append(list, "--token", unknown)...))
	for _, id := range regexp.MustCompile(`(?m)^key-\S+`).FindAllString(owner.succeeds("", "key", "list"), -1) {
		owner.succeeds("", "key", "revoke", id)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); { // the server asks now and then
		if _, ok := none.croft(append(list, "--token", made)...); !ok {
			break
		}
	}
	key(none.refused(`it was revoked(?s:.*)a key that (croft key create) makes on the server's host`, append(list, "--token", made)...))
}
