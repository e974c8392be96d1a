// Package servercmd implements the commands that set croft up on a host and operate it: croft up,
// setup, doctor, key, events, backup, gc, uninstall and others.
package servercmd

import (
	"cmp"
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/daemon/telemetry"
)

// A command is what the commands of this package have.
type command struct{ *console.Console }

// Commands returns the commands that set croft up on a host and operate it.
func Commands(c *console.Console) []*cobra.Command {
	a := &command{c}
	return []*cobra.Command{
		upCommand(a), keyCommand(a), eventsCommand(a), doctorCommand(a), providerCommand(a), imageCommand(a), configCommand(a),
		gcCommand(a), backupCommand(a), restoreCommand(a), setupCommand(a), uninstallCommand(a),
	}
}

type upOptions struct {
	addr     string
	hosts    []string
	insecure bool
	tls      config.TLS
	log      config.Log

	drainDelay time.Duration
}

func upCommand(a *command) *cobra.Command {
	var opts upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Serve a data directory over HTTP",
		Long: `Serve a data directory over HTTP until SIGINT or SIGTERM. Every route except /healthz and /readyz
needs the token, which is made once and stored in the data directory, or an API key (croft key
create). At SIGHUP the configuration, keys and certificate are read again: policies, quotas of
tenants.

An address beyond loopback needs your own token, given with --token or CROFT_TOKEN, and a
certificate (--tls-cert, --tls-key), which is read again when its file changes. Without one it needs
--insecure-http: a proxy with TLS before a loopback address is safer. The host must be written out:
":7070" is refused.

/healthz says that the server answers, and /readyz whether database, provider and disk space allow
work. /metrics has metrics for Prometheus. Traces and metrics go to an OpenTelemetry collector by
the OTEL_* variables. SIGTERM drains the server: /readyz fails, no connection is accepted, requests
under way end within 10 s, and detached commands continue.

The policies of croft.yaml are ceilings for clients of the server, and clients may use the
providers of server.providers alone.`,
		Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error { return a.runUp(ctx, opts) }),
	}
	cmd.Flags().StringVar(&opts.addr, "addr", "", "HOST:PORT to listen on; port 0 is a free one (default server.addr of the configuration, else 127.0.0.1:7070)")
	cmd.Flags().StringArrayVar(&opts.hosts, "host", nil, "a further host name of this server; may be given several times")
	console.RegisterInsecureHTTP(cmd.Flags(), &opts.insecure, "")
	cmd.Flags().StringVar(&opts.tls.Cert, "tls-cert", "", "serve HTTPS with the certificate chain in this file (PEM)")
	cmd.Flags().StringVar(&opts.tls.Key, "tls-key", "", "file of the certificate's private key (PEM)")
	cmd.Flags().StringVar(&opts.log.Level, "log-level", "", "debug, info (one record per request), warn or error (default server.log.level of the configuration, else warn)")
	cmd.Flags().StringVar(&opts.log.Format, "log-format", "", "text or json (default server.log.format of the configuration, else text)")
	cmd.Flags().DurationVar(&opts.drainDelay, "drain-delay", 0, "time after SIGTERM in which /readyz answers 503 and requests are still accepted, for a load balancer")
	return cmd
}

func (a *command) runUp(ctx context.Context, opts upOptions) (err error) {
	if opts.drainDelay < 0 {
		return console.Usagef("--drain-delay %s: give a duration such as 10s", opts.drainDelay)
	}
	if a.Server != "" {
		return console.Usagef("up serves a data directory: leave out --server and CROFT_SERVER")
	}
	for _, host := range opts.hosts {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			return console.Usagef("--host %q is no name that clients use: give the address to listen on with --addr %s", host, net.JoinHostPort(host, "7070"))
		}
	}
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	log, err := a.serverLogger(settings.Server.Log, opts.log)
	if err != nil {
		return err
	}
	a.noteIgnoredConfig(settings)
	if opts.addr == "" {
		opts.addr = settings.Server.Addr
	}
	cert, err := loadCertificate(settings.Server.TLS, opts.tls, log)
	if err != nil {
		return err
	}
	if err := app.CheckAddr(opts.addr, a.GivenToken() != "", opts.insecure || cert != nil); err != nil {
		return err
	}
	metrics, err := telemetry.Start(ctx, console.Version())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutdownTelemetry(ctx, metrics)) }()
	sys, err := a.OpenSystem(ctx, app.Config{Token: a.GivenToken(), Hosts: console.AllowedHosts(opts.addr, opts.hosts),
		Beyond: !app.Loopback(opts.addr), Log: log, DrainDelay: opts.drainDelay, Telemetry: metrics, Self: a.selfCommand, Replica: true})
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
	reloads := []func() error{func() error { return a.reload(ctx, sys) }}
	if cert != nil {
		l = cert.Listener(l)
		reloads = append(reloads, cert.Reload)
	}
	defer reloadOnHangup(log, reloads)()
	a.warnPolicies(ctx, sys)
	if err := a.printServing(ctx, sys, reachableAt(l.Addr(), slices.Concat(opts.hosts, settings.Server.Hosts)), cert != nil); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := sys.Serve(ctx, l); err != nil {
		return err
	}
	a.Note("stopped")
	return nil
}

// selfCommand returns croft itself as a command on the same data directory and configuration.
func (a *command) selfCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	settings, err := a.Settings()
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find croft itself: %w: %w", fault.Of(err), err)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "CROFT_DATA="+settings.Data)
	if file := settings.File(); file != "" {
		cmd.Env = append(cmd.Env, "CROFT_CONFIG="+file)
	}
	return cmd, nil
}

// serverLogger returns the logger of a server: flags over the configuration.
func (a *command) serverLogger(settings, flags config.Log) (*slog.Logger, error) {
	if err := flags.Check(); err != nil {
		return nil, console.Usagef("--log-level and --log-format: %v", err)
	}
	name, format := cmp.Or(flags.Level, settings.Level, "warn"), cmp.Or(flags.Format, settings.Format)
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return nil, fmt.Errorf("log level %q: %w: %w", name, fault.InvalidArgument, err)
	}
	if format == "json" {
		a.Notes = slog.New(slog.NewJSONHandler(a.Err, nil)) // whatever the level: they are few
		return slog.New(slog.NewJSONHandler(a.Err, &slog.HandlerOptions{Level: level})), nil
	}
	return a.NewLogger(level), nil
}

// loadCertificate reads the certificate of a server: flags over the configuration. It is nil
// if there is none.
func loadCertificate(settings, flags config.TLS, log *slog.Logger) (*app.Certificate, error) {
	files := settings
	if flags != (config.TLS{}) {
		files = flags
	}
	if (files.Cert == "") != (files.Key == "") {
		return nil, console.Usagef("give both --tls-cert and --tls-key")
	}
	if files.Cert == "" {
		return nil, nil
	}
	return app.LoadCertificate(files.Cert, files.Key, log)
}

// reloadOnHangup reads files again on SIGHUP, until stop is called. What can't be read
// stays as it was.
func reloadOnHangup(log *slog.Logger, reloads []func() error) (stop func()) {
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Reset(syscall.SIGHUP) // it ends other commands, see Main
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for range signals {
			for _, reload := range reloads {
				if err := reload(); err != nil {
					log.Warn("reload", "error", err)
				}
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-ended
	}
}

// reload reads the configuration again. One with a mistake is reported, and the present one
// stays.
func (a *command) reload(ctx context.Context, sys *app.System) error {
	settings, err := a.LoadSettings()
	var restart []string
	if err == nil {
		restart, err = sys.Reload(ctx, settings)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the configuration stays as it was: %w", err)
	case len(restart) > 0:
		a.Note("croft: reload: done; changes of these sections need a restart: %s", strings.Join(restart, ", "))
	default:
		a.Note("croft: reload: done")
	}
	a.warnPolicies(ctx, sys)
	return nil
}

// warnPolicies warns of policies whose limits this host can't enforce.
func (a *command) warnPolicies(ctx context.Context, sys *app.System) {
	for _, text := range sys.Rules.PolicyWarnings(ctx) {
		a.Note("croft: warning: %s", console.Printable(console.OneLine(text)))
	}
}

// telemetryTimeout bounds the last export of traces and metrics.
const telemetryTimeout = 5 * time.Second

func shutdownTelemetry(ctx context.Context, t *telemetry.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryTimeout)
	defer cancel()
	return t.Shutdown(ctx)
}

// upAnswer is what croft up --json prints.
type upAnswer struct {
	URL       string   `json:"url"`
	Data      string   `json:"data"`
	Token     string   `json:"token,omitempty"` // absent if the user gave it
	TokenFile string   `json:"tokenFile,omitempty"`
	OpenAPI   string   `json:"openapi"`
	Page      string   `json:"page"` // for a browser
	Try       []string `json:"try"`
	E2B       string   `json:"e2b"` // command that sets the variables of E2B's SDKs
}

func (a *command) printServing(ctx context.Context, sys *app.System, addr string, secure bool) error {
	url := "http://" + addr
	if secure {
		url = "https://" + addr
	}
	out := upAnswer{URL: url, Data: sys.Dir, OpenAPI: url + "/v1/openapi.json", Page: pageURL(url)}
	token, key := "as given by --token or CROFT_TOKEN", `"$CROFT_TOKEN"`
	if a.GivenToken() == "" {
		out.Token, out.TokenFile = sys.Token, sys.TokenPath()
		token = "stored in " + sys.TokenPath()
		if _, ok := console.TerminalFile(a.Out); ok { // else the output is perhaps a log, which others read
			token = fmt.Sprintf("%s (%s)", sys.Token, token)
		}
		key = "$(cat " + console.ShellQuote(sys.TokenPath()) + ")"
	}
	name, err := freeName(ctx, sys)
	if err != nil {
		return err
	}
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	out.Try = a.tryCommands(sys, settings.File(), name, url)
	out.E2B = fmt.Sprintf("export E2B_API_KEY=%s E2B_API_URL=%s E2B_SANDBOX_URL=%s E2B_VOLUME_API_URL=%s", key, url, url, url)
	return a.PrintAnswer(out, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "croft %s serves workspaces\n\n  page   %s\n  url    %s\n  api    %s\n  data   %s\n  token  %s\n\n"+
			"Try in another terminal:\n\n  %s\n\nFor E2B's SDKs:\n\n  %s\n\nPress Ctrl-C to stop.\n",
			console.Version(), out.Page, out.URL, out.OpenAPI, out.Data, token, strings.Join(out.Try, "\n  "), out.E2B)
		return err
	})
}

// reachableAt returns the address of a server for its clients: one that listens on all interfaces is
// reached by its first name or, without one, on this host.
func reachableAt(addr net.Addr, hosts []string) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort(append(hosts, "127.0.0.1")[0], strconv.Itoa(tcp.Port))
}

// pageURL returns the address of the page. Cookies do not differ by port: under the name localhost
// they are not sent to ports that croft ws port-forward opens on 127.0.0.1.
func pageURL(url string) string { return strings.Replace(url, "//127.0.0.1:", "//localhost:", 1) + "/" }

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

// tryCommands returns three example commands for another terminal. Those for a replica name its
// URL: the variables that complete its configuration are not set there. file is the configuration file,
// absolute.
func (a *command) tryCommands(sys *app.System, file, name, url string) []string {
	croft := console.ShellQuote(a.programPath())
	flags := ""
	if a.Config != "" || os.Getenv(config.EnvFile) != "" {
		flags = " --config " + console.ShellQuote(file)
	}
	if dir, err := datadir.Default(); a.Data != "" || os.Getenv("CROFT_DATA") != "" || err != nil || dir != sys.Dir {
		flags += " --data " + console.ShellQuote(sys.Dir)
	}
	if sys.InCluster() {
		flags = " --server " + url
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
		return a.Program
	}
	base := filepath.Base(a.Program)
	if found, err := exec.LookPath(base); err == nil && sameFile(found, self) {
		return base
	}
	if strings.ContainsRune(a.Program, filepath.Separator) && sameFile(a.Program, self) {
		return a.Program
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
