package e2b

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "e2b"

// Config says where a provider keeps the state of its workspaces, and which server has them.
type Config struct {
	// Root is the directory of the workspaces' states. It is created if it does not
	// exist, and may be shared with providers of other kinds. Required.
	Root string

	// Options are those of workspaces that do not set them.
	Options Options

	// Secrets has the API keys. Required.
	Secrets egress.Secrets

	// Guest is the path of croft-guest for sandboxes of this host's architecture; "" looks
	// for it, see package guestbin.
	Guest string

	// Lease is how long a guest lives while no process has its workspace open;
	// 0 means 15 minutes.
	Lease time.Duration

	// Timeout bounds one request to the server; 0 means 2 minutes.
	Timeout time.Duration

	// Transport makes the HTTP requests; nil means http.DefaultTransport.
	Transport http.RoundTripper

	// Snapshots is the store of snapshots; nil means no snapshots.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent
}

// Options is Spec.Config of this provider.
type Options struct {
	// Server is the URL of the API; "" means DefaultServer.
	Server string `json:"server,omitempty"`

	// Sandboxes is the URL under which all sandboxes are reached, by headers; "" means one
	// host for each, https://PORT-ID.DOMAIN, with the domain that the server answers.
	Sandboxes string `json:"sandboxes,omitempty"`

	// Key is the name of the secret that is the API key; "" means DefaultKey.
	Key string `json:"key,omitempty"`

	// Template is the template of the sandbox; "" means DefaultTemplate.
	Template string `json:"template,omitempty"`

	// Timeout is how long a sandbox runs after the last process has closed it, in seconds;
	// 0 means DefaultTimeout. The server may bound it.
	Timeout int `json:"timeout,omitempty"`

	// Isolation is the level that the operator of the server promises. It can't be
	// verified from here; "" claims none.
	Isolation driver.Isolation `json:"isolation,omitempty"`

	// From is the snapshot that the workspace started from. The provider sets it: it
	// can't be configured.
	From string `json:"from,omitempty"`
}

// Defaults of Config and Options.
const (
	DefaultServer   = "https://api.e2b.app"
	DefaultKey      = "e2b_api_key"
	DefaultTemplate = "base"
	DefaultTimeout  = 15 * 60
	DefaultLease    = 15 * time.Minute
)

// withDefaults returns o with the fields that it does not set from d.
func (o Options) withDefaults(d Options) Options {
	for field, or := range map[*string][]string{
		&o.Server: {d.Server, DefaultServer}, &o.Sandboxes: {d.Sandboxes}, &o.Key: {d.Key, DefaultKey}, &o.Template: {d.Template, DefaultTemplate},
		(*string)(&o.Isolation): {string(d.Isolation)},
	} {
		for _, value := range or {
			if *field == "" {
				*field = value
			}
		}
	}
	for _, value := range []int{d.Timeout, DefaultTimeout} {
		if o.Timeout == 0 {
			o.Timeout = value
		}
	}
	return o
}

func (o *Options) check() error {
	for name, text := range map[string]string{"server": o.Server, "sandboxes": o.Sandboxes} {
		if text == "" && name == "sandboxes" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("%s: %w: it must be https://HOST or http://HOST, without a password", name, fault.InvalidArgument)
		}
	}
	const most = 30 * 24 * 3600
	if o.Timeout < 60 || o.Timeout > most {
		return fmt.Errorf("timeout %d: %w: it must be from 60 to %d seconds", o.Timeout, fault.InvalidArgument, most)
	}
	if o.Isolation != "" && !slices.Contains(driver.Isolations, o.Isolation) {
		return fmt.Errorf("isolation %q: %w: the levels are %v", o.Isolation, fault.InvalidArgument, driver.Isolations)
	}
	return nil
}
