package cli_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

var update = flag.Bool("update", false, "rewrite what scripts expect")

func TestMain(m *testing.M) {
	if err := os.Setenv("TERM", "xterm"); err != nil { // on a dumb terminal no progress is shown
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"croft":     func() { os.Exit(cli.Main(shellProvider()...)) },
		"croft-mac": func() { os.Exit(cli.Main(macProviders()...)) },
	})
}

// shellProvider is a provider with commands and no sandbox, beside Croft's own.
func shellProvider() []driver.Provider {
	p, err := testshell.New(filepath.Join(os.Getenv("CROFT_DATA"), "shelltest"))
	if err != nil {
		return nil // no script is running
	}
	return []driver.Provider{testshell.Offered{Provider: p}}
}

// macProviders are those of a system without guests and without the provider sandbox.
func macProviders() []driver.Provider {
	data := os.Getenv("CROFT_DATA")
	p, err := local.New(&local.Config{Root: filepath.Join(data, "ws"), Forbidden: []string{data}, InProcess: true, SandboxExec: os.Getenv("CROFT_TEST_SANDBOX_EXEC")})
	if err != nil {
		panic(err)
	}
	return []driver.Provider{replacing{p}, replacing{noSandbox{}}}
}

// replacing is used instead of Croft's own provider of its kind.
type replacing struct{ driver.Provider }

func (r replacing) Features() driver.Features {
	f := r.Provider.Features()
	f.ReplacesBuiltIn = true
	return f
}

// SetSnapshots implements snapshot.Configurable.
func (r replacing) SetSnapshots(store *snapshot.Store) {
	if c, ok := r.Provider.(snapshot.Configurable); ok {
		c.SetSnapshots(store)
	}
}

// noSandbox is the provider sandbox of a system that is not Linux.
type noSandbox struct{}

var errNotLinux = fmt.Errorf("sandbox: %w: this system is not Linux", fault.Unsupported)

func (noSandbox) Kind() string                                 { return "sandbox" }
func (noSandbox) Probe(context.Context) (driver.Traits, error) { return driver.Traits{}, errNotLinux }
func (noSandbox) Features() driver.Features                    { return driver.Features{} }
func (noSandbox) Close() error                                 { return nil }
func (noSandbox) Sweep(context.Context, []string) error        { return nil }
func (noSandbox) Open(context.Context, driver.Spec) (*driver.Workspace, error) {
	return nil, errNotLinux
}
func (noSandbox) Resolve(context.Context, driver.Ref) (*driver.Workspace, error) {
	return nil, errNotLinux
}

// TestScripts runs the scripts in testdata/script: each is one story of the
// command line, with real processes on a data directory of its own.
//
//croft:slow-race ^(exec|sessions|events|server|up)
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.Getenv("WORK"))
			env.Setenv("CROFT_DATA", filepath.Join(env.Getenv("WORK"), "data"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": status,
			"up":     up,
			"down":   down,
			"http":   request,
			"id":     readWord,
			"leases": prolong,
		},
	})
}

// prolong extends the leases of processes that were killed, so that they do not run
// out before a script looks at them: leases HOURS
func prolong(ts *testscript.TestScript, neg bool, args []string) {
	hours, err := strconv.Atoi(args[0])
	ts.Check(err)
	db, err := sql.Open("sqlite", filepath.Join(ts.Getenv("CROFT_DATA"), "croft.db"))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(`UPDATE holders SET expires_at = ?`, time.Now().Add(time.Duration(hours)*time.Hour).UnixNano())
	ts.Check(err)
}

// readWord sets a variable to the first word of a file: id NAME FILE
func readWord(ts *testscript.TestScript, neg bool, args []string) {
	words := strings.Fields(ts.ReadFile(args[1]))
	if len(words) == 0 {
		ts.Fatalf("%s is empty", args[1])
	}
	ts.Setenv(args[0], words[0])
}

// status runs a program and checks its exit status: status N croft ...
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program args...")
	}
	want := args[0]
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := new(exec.ExitError); errorsAs(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != want {
		ts.Fatalf("exit status %d, want %s", got, want)
	}
}

func errorsAs(err error, target **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError) //nolint:errorlint // as os/exec returns it
	*target = e
	return ok
}

// up starts croft up on a free port and waits until it answers. Its URL and
// token are in $URL and $TOKEN, and what it printed in the file up.out.
func up(ts *testscript.TestScript, neg bool, args []string) {
	out, err := os.Create(ts.MkAbs("up.out"))
	ts.Check(err)
	defer out.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"up", "--addr", "127.0.0.1:0"}, args...)...)
	cmd.Args[0] = "croft"
	cmd.Path = croftBinary(ts)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = scriptEnv(ts)
	cmd.Stdout, cmd.Stderr = out, out
	ts.Check(cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ts.Defer(func() {
		cancel()
		<-done
	})
	servers.put(ts, &server{cmd: cmd, done: done})
	url, token := announced(ts, done)
	ts.Setenv("URL", url)
	ts.Setenv("TOKEN", token)
}

func croftBinary(ts *testscript.TestScript) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, "croft"); exists(p) {
			return p
		}
	}
	ts.Fatalf("no croft on the path")
	return ""
}

func exists(p string) bool { _, err := os.Stat(p); return err == nil }

func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, k := range []string{"HOME", "PATH", "CROFT_DATA", "CROFT_TOKEN", "CROFT_SERVER", "TMPDIR", "WORK"} {
		if v := ts.Getenv(k); v != "" {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// announced waits for what croft up prints and returns its URL and token.
func announced(ts *testscript.TestScript, done chan error) (url, token string) {
	for end := time.Now().Add(patience); ; {
		text := ts.ReadFile("up.out")
		for line := range strings.Lines(text) {
			switch f := strings.Fields(line); {
			case len(f) >= 2 && f[0] == "url":
				url = f[1]
			case strings.HasPrefix(line, "  token  stored in "):
				token = strings.TrimSpace(ts.ReadFile(f[len(f)-1]))
			}
		}
		if strings.Contains(text, "Ctrl-C") {
			return url, token
		}
		select {
		case err := <-done:
			done <- err
			ts.Fatalf("croft up ended: %v\n%s", err, ts.ReadFile("up.out"))
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			ts.Fatalf("croft up does not say where it serves: %s", text)
		}
	}
}

// down sends SIGTERM to the server and checks that it ends with status 0; down
// -kill ends it without notice.
func down(ts *testscript.TestScript, neg bool, args []string) {
	s := servers.take(ts)
	if len(args) == 1 && args[0] == "-kill" {
		ts.Check(s.cmd.Process.Kill())
		<-s.done
		s.done <- nil
		return
	}
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	err := <-s.done
	s.done <- nil
	ts.Check(err)
}

// request makes an HTTP request and checks its status; the body is in the file
// http.out: http STATUS METHOD URL [Header: value]...
func request(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: http STATUS METHOD URL [Header:value]...")
	}
	req, err := http.NewRequest(args[1], args[2], nil)
	ts.Check(err)
	for _, h := range args[3:] {
		k, v, _ := strings.Cut(h, ":")
		if k == "Host" {
			req.Host = strings.TrimSpace(v)
		}
		req.Header.Set(k, strings.TrimSpace(v))
	}
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	var body strings.Builder
	ts.Check(copyTo(&body, res))
	ts.Check(os.WriteFile(ts.MkAbs("http.out"), []byte(body.String()), 0o644))
	if got := fmt.Sprint(res.StatusCode); got != args[0] {
		ts.Fatalf("status %s, want %s: %s", got, args[0], body.String())
	}
}
