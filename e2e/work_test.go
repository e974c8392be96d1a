package e2e

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testmodel"
)

// workKey is the key of the model, which must be nowhere inside.
const workKey = "planted-key-0123456789abcdef"

// A workAgent is a real agent in interactive mode under croft work.
type workAgent struct {
	env    func(base string) []string
	home   func(base string) map[string]string
	args   []string // with which it begins with the prompt
	tool   string   // that runs a command
	param  string   // its parameter
	more   map[string]any
	secret string   // the header that the key comes in
	enter  bool     // the prompt must be sent with Enter
	again  []string // arguments when it continues
}

// searchKey searches for the key wherever programs inside may have it. It finds the placeholder
// of the key where the key would be. Agents ask before such a command, unless --yolo.
const searchKey = `grep -rs --exclude-dir=node_modules planted[-]key-0 /home /root /tmp /var /run /etc /workspace . /proc/*/environ /proc/*/cmdline
cat /proc/*/environ 2> /dev/null | grep -aq croft[-]secret: && printf 'searched: ' && expr 6 '*' 7`

const workPrompt = "Make the test pass."

// workTime is after how long an agent is taken for one that hangs.
const workTime = 3 * time.Minute

var workAgents = map[string]workAgent{
	"claude": {
		env: func(base string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=" + workKey}
		},
		args: []string{workPrompt}, tool: "Bash", param: "command", more: map[string]any{"description": "work"}, secret: "X-Api-Key",
	},
	"codex": {
		env: func(string) []string { return []string{"SCRIPTED_KEY=" + workKey} },
		home: func(base string) map[string]string {
			return map[string]string{"~/.codex/config.toml": "model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"" + base +
				"/v1\"\nenv_key = \"SCRIPTED_KEY\"\nwire_api = \"responses\"\n"}
		},
		args: []string{workPrompt}, tool: "exec_command", param: "cmd", more: map[string]any{"yield_time_ms": 30000}, secret: "Authorization",
	},
	"opencode": {
		env: func(string) []string { return []string{"SCRIPTED_KEY=" + workKey} },
		home: func(base string) map[string]string {
			return map[string]string{"~/.config/opencode/opencode.json": `{"model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": false, "share": "disabled",
				"provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": {"baseURL": "` + base + `/v1", "apiKey": "{env:SCRIPTED_KEY}"},
				"models": {"scripted": {"name": "scripted", "tool_call": true}}}}}`}
		},
		args: []string{"--prompt", workPrompt}, tool: "bash", param: "command", more: map[string]any{"description": "work"}, secret: "Authorization", enter: true,
	},
	"gemini": {
		env: func(base string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + base, "GEMINI_API_KEY=" + workKey}
		},
		home: func(string) map[string]string {
			return map[string]string{"~/.gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`}
		},
		args: []string{"-m", "gemini-2.5-flash", "-i", workPrompt}, again: []string{"-m", "gemini-2.5-flash"}, tool: "run_shell_command", param: "command", more: map[string]any{"description": "work"}, secret: "X-Goog-Api-Key",
	},
	"copilot": {
		env: func(base string) []string {
			return []string{"COPILOT_PROVIDER_BASE_URL=" + base + "/v1", "COPILOT_PROVIDER_API_KEY=" + workKey, "COPILOT_MODEL=scripted"}
		},
		args: []string{"--model", "scripted", "-i", workPrompt}, again: []string{"--model", "scripted"}, tool: "bash", param: "command", more: map[string]any{"description": "work", "initial_wait": 60}, secret: "Authorization",
	},
}

// TestWork runs the real agents under croft work in a pseudo-terminal, in interactive mode.
// Each changes files and runs the tests; the project is unchanged until its work is
// reviewed and applied, and the key of the model is nowhere inside.
func TestWork(t *testing.T) {
	croft := buildCroft(t)
	for name, a := range workAgents {
		t.Run(name, func(t *testing.T) { t.Parallel(); a.works(t, croft, name) })
	}
}

func (a workAgent) works(t *testing.T, croft, name string) {
	bin := testenv.NeedsAgent(t, name)
	testenv.OwnNetwork(t)
	home := agentHome(t)
	dir := filepath.Join(home, "app")
	step := func(command string) testmodel.Step {
		args := map[string]any{a.param: command}
		for k, v := range a.more {
			args[k] = v
		}
		return testmodel.Step{Tool: a.tool, Args: args}
	}
	model := &keyModel{header: a.secret, Model: testmodel.Model{Last: "All is done now.", Steps: []testmodel.Step{
		step("curl -sS -m 10 http://refused.test/; sed -i s/wrong/right/ answer.txt; echo made > made.txt"),
		step("home-tool && sh test.sh"), // Codex runs commands in login shells
		step(searchKey),
	}}}
	base, roots := serveTLS(t, model)
	env := append([]string{"HOME=" + home, "PATH=" + croft + ":" + filepath.Dir(bin) + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=xterm-256color",
		"CROFT_DATA=" + filepath.Join(home, "croft"), "SSL_CERT_FILE=" + roots, "GIT_CONFIG_GLOBAL=/dev/null"}, a.env(base)...)
	if a.home != nil {
		put(t, home, dir, a.home(base))
	}
	put(t, home, dir, map[string]string{"answer.txt": "wrong\n", "test.sh": "grep -q right answer.txt && echo passed\n", "Makefile": "test:\n\tsh test.sh\n"})
	put(t, home, dir, map[string]string{"~/go/bin/home-tool": "#!/bin/sh\necho tool of home\n"})
	if err := os.Chmod(filepath.Join(home, "go/bin/home-tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmdIn(t, dir, env, "git", "init", "-q")
	cmdIn(t, dir, env, "git", "add", ".")
	before := treeDigest(t, dir)

	term := startTerminal(t, dir, env, withHosts(t, append([]string{"croft", "work", "--yolo", name, "--"}, a.args...))...)
	shown := time.Now()
	term.WaitFor(workTime, func(string) bool {
		if a.enter && time.Since(shown) > 3*time.Second && len(model.Requests()) == 0 {
			_, _ = io.WriteString(term.File, "\r") // it may have ended
			shown = time.Now()
		}
		return len(model.Results()) == 3
	})
	time.Sleep(time.Second) // it shows the last answer
	term.Interrupt()
	if t.Failed() {
		saveFailure(t, name, []byte(term.Text()), &model.Model)
		return
	}
	for i, want := range []string{"", "tool of home\npassed", "searched: 42"} {
		if got := model.Results()[i]; !strings.Contains(got, want) || strings.Contains(got, workKey) {
			t.Errorf("step %d: %q, want %q", i, got, want)
		}
	}
	if bad := model.wrong(); bad != "" {
		t.Errorf("a request came with %s %q, want the key", a.secret, bad)
	}
	term.Shows("croft: refused: ")
	term.Shows("changed 2 files")
	if got := treeDigest(t, dir); got != before {
		t.Error("the project changed before the apply")
	}
	log := cmdIn(t, dir, env, "croft", "work", "log")
	if !strings.Contains(log, "made.txt") || !strings.Contains(log, "refused.test") {
		t.Errorf("the log is\n%s", log)
	}
	a.continues(t, dir, env, model, name)
	term = startTerminal(t, dir, env, "croft", "work", "review")
	term.Shows("q finish")
	term.Types("At")
	term.Shows("tests: passed")
	term.Types("xq")
	term.Shows("Apply 2 changes of 2 files")
	term.Types("y")
	if err := term.Ends(); err != nil {
		t.Errorf("review: %v\n%s", err, term.Text())
	}
	if got, err := os.ReadFile(filepath.Join(dir, "answer.txt")); string(got) != "right\n" {
		t.Errorf("after the apply answer.txt is %q, %v", got, err)
	}
	if got := cmdIn(t, dir, env, "git", "status", "--short"); !strings.Contains(got, "made.txt") {
		t.Errorf("after the apply git status is %q", got)
	}
	cmdIn(t, dir, env, "croft", "work", "discard")
}

// TestWorkGateway runs real agents whose model is a gateway on the loopback interface of this
// host, by HTTP without TLS, which only the user's settings name. It gets the key, which is
// nowhere inside. A gateway that does not run is named before the agent tries it for minutes.
func TestWorkGateway(t *testing.T) {
	croft := buildCroft(t)
	for name, words := range map[string][]string{"claude": {"-p", workPrompt}, "codex": {"exec", "--skip-git-repo-check", workPrompt}} {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			t.Run(name+"/"+host, func(t *testing.T) { workAgents[name].worksByGateway(t, croft, name, host, words) })
		}
	}
}

func (a workAgent) worksByGateway(t *testing.T, croft, name, host string, words []string) {
	bin := testenv.NeedsAgent(t, name)
	testenv.OwnNetwork(t)
	args := map[string]any{a.param: searchKey}
	maps.Copy(args, a.more)
	model := &keyModel{header: a.secret, Model: testmodel.Model{Last: "All is done now.", Steps: []testmodel.Step{{Tool: a.tool, Args: args}}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, served := &http.Server{Handler: model}, make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	end := sync.OnceFunc(func() { srv.Close(); <-served })
	t.Cleanup(end)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	home := agentHome(t)
	dir := filepath.Join(home, "app")
	at := net.JoinHostPort(host, port)
	env := append([]string{"HOME=" + home, "PATH=" + croft + ":" + filepath.Dir(bin) + ":" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"CROFT_DATA=" + filepath.Join(home, "croft"), "GIT_CONFIG_GLOBAL=/dev/null"}, a.env("http://"+at)...)
	if a.home != nil {
		put(t, home, dir, a.home("http://"+at))
	}
	put(t, home, dir, map[string]string{"answer.txt": "wrong\n"})
	run := append([]string{"work", "--yolo", name, "--"}, words...)
	out, results := cmdIn(t, dir, env, "croft", run...), model.Results()
	if !strings.Contains(out, "All is done now.") || len(results) != 1 || !strings.Contains(results[0], "searched: 42") || strings.Contains(results[0], workKey) {
		t.Errorf("%s\nresults: %q", out, results)
	}
	if bad := model.wrong(); bad != "" {
		t.Errorf("a request came with %s %q, want the key", a.secret, bad)
	}

	end() // now the gateway does not run
	cmd := exec.CommandContext(t.Context(), findIn(env, "croft"), run...)
	cmd.Dir, cmd.Env = dir, env
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, found := bufio.NewScanner(said), false
	for !found && lines.Scan() {
		found = strings.Contains(lines.Text(), "the model of "+name+" can't be reached at "+at+", which you named: connection refused; start the gateway there")
	}
	if !found {
		t.Error("nothing says that the gateway does not run")
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_, _ = io.Copy(io.Discard, said)
	_ = cmd.Wait() // it was interrupted
}

// continues starts the agent, which has ended, again and asks it something: the model gets
// the conversation before it, too.
func (a workAgent) continues(t *testing.T, dir string, env []string, model *keyModel, name string) {
	t.Helper()
	const question = "Name that test." // a question mark shows the keys of Gemini
	before := len(model.Requests())
	term := startTerminal(t, dir, env, withHosts(t, append([]string{"croft", "work", "attach", "--continue", "--yolo", "--"}, a.again...))...)
	// Its last answer; between words the cursor may be moved.
	term.WaitFor(workTime, func(shown string) bool { return strings.Contains(shown, "now.") })
	// Agents take what comes at once for a paste, and lose what comes too early.
	next, keys := time.Now(), []string{question, "\r"}
	term.WaitFor(workTime, func(string) bool {
		if time.Now().After(next) {
			_, _ = io.WriteString(term.File, keys[0]) // it may have ended
			next, keys = time.Now().Add(2*time.Second), []string{keys[1], keys[0]}
		}
		return slices.ContainsFunc(model.Requests()[before:], func(r string) bool { return strings.Contains(r, question) && strings.Contains(r, workPrompt) })
	})
	term.Interrupt()
	if t.Failed() {
		saveFailure(t, name, []byte(term.Text()), &model.Model)
	}
}

// A keyModel notes requests without the key.
type keyModel struct {
	testmodel.Model
	header string

	mu    sync.Mutex
	other string // guarded by mu
}

func (m *keyModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get(m.header); r.Method == http.MethodPost && strings.TrimPrefix(got, "Bearer ") != workKey {
		m.mu.Lock()
		m.other = r.URL.Path + ": " + got
		m.mu.Unlock()
	}
	m.Model.ServeHTTP(w, r)
}

func (m *keyModel) wrong() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.other
}

// modelName is the host of the model. Node does not accept addresses in certificates of an
// authority with name constraints, so that a name is needed.
const modelName = "model.test"

// withHosts returns a command line that runs another with a hosts file that has modelName.
func withHosts(t *testing.T, words []string) []string {
	t.Helper()
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n127.0.0.2 "+modelName+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("unshare", "--mount", "mount", "--bind", hosts, "/etc/hosts").CombinedOutput(); err != nil {
		t.Skipf("skipped: host: this user can't mount a hosts file: %v: %s", err, out)
	}
	return append([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts}, words...)
}

// serveTLS serves a model on an address that programs inside reach through the proxy. It
// returns the URL, and a file with the certificate to trust.
func serveTLS(t *testing.T, h http.Handler) (base, roots string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "model"}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{modelName},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	roots = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.2:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	srv, served := &http.Server{Handler: h}, make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-served })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return "https://" + net.JoinHostPort(modelName, port), roots
}

// cmdIn runs a command to its end, and returns its output.
func cmdIn(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, findIn(env, name), args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// findIn finds a program by the PATH of an environment.
func findIn(env []string, name string) string {
	for _, entry := range env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			for _, dir := range filepath.SplitList(path) {
				if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
					return file
				}
			}
		}
	}
	return name
}

// treeDigest returns a digest of all names, modes and contents below a directory.
func treeDigest(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var data []byte
		if info.Mode().IsRegular() {
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(sum, "%s %v %x\n", path, info.Mode(), sha256.Sum256(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func startTerminal(t *testing.T, dir string, env []string, words ...string) *testenv.Terminal {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), findIn(env, words[0]), words[1:]...)
	cmd.Dir, cmd.Env = dir, env
	return testenv.StartTerminal(t, cmd, 40, 120)
}
