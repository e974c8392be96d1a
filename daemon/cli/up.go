package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/daemon/app"
	"github.com/croft-run/croft/fault"
)

type upOptions struct {
	addr     string
	hosts    []string
	insecure bool
}

func (a *command) upCommand() *cobra.Command {
	var opts upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Serve a data directory over HTTP",
		Long: `Serve a data directory over HTTP until SIGINT or SIGTERM. Every route except /healthz needs the
token, which is made once and stored in the data directory, or an API key (croft key create). At
SIGHUP the configuration is read again: policies, quotas of tenants, keys.

An address beyond loopback needs your own token, given with --token or CROFT_TOKEN, and
--insecure-http, because there is no TLS: a proxy with TLS before a loopback address is safer. The
host must be written out: ":7070" is refused.

The policies of croft.yaml are ceilings for clients of the server, and clients may use the
providers of server.providers alone.`,
		Args: cobra.NoArgs,
		RunE: run(func(ctx context.Context, _ []string) error { return a.runUp(ctx, opts) }),
	}
	cmd.Flags().StringVar(&opts.addr, "addr", "", "HOST:PORT to listen on; port 0 is a free one (default server.addr of the configuration, else 127.0.0.1:7070)")
	cmd.Flags().StringArrayVar(&opts.hosts, "host", nil, "a further host name of this server; may be given several times")
	registerInsecureHTTP(cmd.Flags(), &opts.insecure, "")
	return cmd
}

// registerInsecureHTTP adds the flag that allows plain HTTP beyond loopback.
func registerInsecureHTTP(f *pflag.FlagSet, value *bool, with string) {
	f.BoolVar(value, "insecure-http", false, with+"listen beyond loopback without TLS: the token and all files can be read on the way")
}

func (a *command) runUp(ctx context.Context, opts upOptions) (err error) {
	if a.server != "" {
		return usagef("up serves a data directory: leave out --server and CROFT_SERVER")
	}
	settings, err := a.settings()
	if err != nil {
		return err
	}
	a.noteIgnoredConfig(settings)
	if opts.addr == "" {
		opts.addr = settings.Server.Addr
	}
	if err := app.CheckAddr(opts.addr, a.givenToken() != "", opts.insecure); err != nil {
		return err
	}
	sys, err := a.openSystem(ctx, app.Config{Token: a.givenToken(), Hosts: allowedHosts(opts), Beyond: !app.Loopback(opts.addr), Log: a.newLogger(slog.LevelWarn)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close(ctx)) }()
	unlock, err := sys.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	l, err := app.Listen(ctx, opts.addr)
	if err != nil {
		return err
	}
	if err := sys.CheckToken(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := a.printServing(ctx, sys, l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	defer a.reloadOnHangup(ctx, sys)()
	if err := sys.Serve(ctx, l); err != nil {
		return err
	}
	a.note("stopped")
	return nil
}

// reloadOnHangup reads the configuration again at each SIGHUP, until stop is called. A
// configuration with a mistake is reported, and the present one stays.
func (a *command) reloadOnHangup(ctx context.Context, sys *app.System) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range signals {
			a.reload(ctx, sys)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

func (a *command) reload(ctx context.Context, sys *app.System) {
	settings, err := a.loadSettings()
	var restart []string
	if err == nil {
		restart, err = sys.Reload(ctx, settings)
	}
	switch {
	case err != nil:
		a.note("croft: reload: the configuration stays as it was: %v", err)
	case len(restart) > 0:
		a.note("croft: reload: done; changes of these sections need a restart: %s", strings.Join(restart, ", "))
	default:
		a.note("croft: reload: done")
	}
}

// allowedHosts returns the names that the Host header of requests may have.
func allowedHosts(opts upOptions) []string {
	hosts := opts.hosts
	if host, _, err := net.SplitHostPort(opts.addr); err == nil && net.ParseIP(host) == nil {
		hosts = append(hosts, host)
	}
	return hosts
}

// upAnswer is what croft up --json prints.
type upAnswer struct {
	URL       string   `json:"url"`
	Data      string   `json:"data"`
	Token     string   `json:"token,omitempty"` // absent if the user gave it
	TokenFile string   `json:"tokenFile,omitempty"`
	OpenAPI   string   `json:"openapi"`
	Try       []string `json:"try"`
}

func (a *command) printServing(ctx context.Context, sys *app.System, addr net.Addr) error {
	url := "http://" + addr.String()
	out := upAnswer{URL: url, Data: sys.Dir, OpenAPI: url + "/v1/openapi.json"}
	token := "as given by --token or CROFT_TOKEN"
	if a.givenToken() == "" {
		out.Token, out.TokenFile = sys.Token, sys.TokenPath()
		token = fmt.Sprintf("%s (stored in %s)", sys.Token, sys.TokenPath())
	}
	name, err := freeName(ctx, sys)
	if err != nil {
		return err
	}
	out.Try = a.tryCommands(sys, name)
	return a.printAnswer(out, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "croft %s serves workspaces\n\n  url    %s\n  api    %s\n  data   %s\n  token  %s\n\n"+
			"Try in another terminal:\n\n  %s\n\nPress Ctrl-C to stop.\n",
			version(), out.URL, out.OpenAPI, out.Data, token, strings.Join(out.Try, "\n  "))
		return err
	})
}

// freeName returns an unused name for a workspace.
func freeName(ctx context.Context, sys *app.System) (string, error) {
	for i := 1; ; i++ {
		name := "demo"
		if i > 1 {
			name = fmt.Sprintf("demo-%d", i)
		}
		_, err := sys.Registry.Lookup(ctx, "", name)
		if fault.Of(err) == fault.NotFound {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// tryCommands returns three example commands for another terminal.
func (a *command) tryCommands(sys *app.System, name string) []string {
	croft := shellQuote(a.programPath())
	flags := ""
	if a.config != "" {
		flags = " --config " + shellQuote(a.config)
	}
	if dir, err := app.DefaultDataDir(); a.data != "" || os.Getenv("CROFT_DATA") != "" || err != nil || dir != sys.Dir {
		flags += " --data " + shellQuote(sys.Dir)
	}
	return []string{
		fmt.Sprintf("%s ws open %s%s", croft, name, flags),
		fmt.Sprintf("echo 'hello, croft' | %s ws put %s - hello.txt%s", croft, name, flags),
		fmt.Sprintf("%s ws grep %s hello%s", croft, name, flags),
	}
}

// programPath returns the word to call this program with: its base name if $PATH
// leads to it, and else the path.
func (a *command) programPath() string {
	self, err := os.Executable()
	if err != nil {
		return a.program
	}
	base := filepath.Base(a.program)
	if found, err := exec.LookPath(base); err == nil && sameFile(found, self) {
		return base
	}
	if strings.ContainsRune(a.program, filepath.Separator) && sameFile(a.program, self) {
		return a.program
	}
	return self
}

func sameFile(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	bt, err := os.Stat(b)
	return err == nil && os.SameFile(at, bt)
}

// shellQuote quotes a word for a shell if necessary.
func shellQuote(s string) string {
	safe := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-+:@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
