package sandbox

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "sandbox"

// Config says where a provider keeps its workspaces and how it fences them.
type Config struct {
	// Root is the directory that holds them, made where it does not exist. It
	// may be shared with providers of other kinds. Required.
	Root string

	// Forbidden are directories that no workspace may use in place, nor what is
	// in them or holds them, besides Root: those that Croft keeps its data in.
	Forbidden []string

	// Roots are directories of the host that a directory in place, one that is
	// shown besides, and a template must lie in; nil is any, and an empty list
	// lets none be used.
	Roots []string

	// Guest is the path of croft-guest; "" looks for it, see package guestbin.
	Guest string

	// Runsc is the path of gVisor's program; "" looks for runsc on PATH.
	Runsc string

	// Isolation is the least level for a policy that names none; "" is
	// namespaces or an equal.
	Isolation driver.Isolation

	// UIDBase is where ids inside begin outside, where this process is root: id
	// 0 inside is this one, and so on for 65536 ids, which must own nothing on
	// this host. 0 is 1<<30.
	UIDBase int

	// Lease is how long a guest lives without anyone who holds its workspace;
	// 0 is 15 minutes.
	Lease time.Duration

	// What the proxies of workspaces that may reach hosts work with; see the
	// fields of the same names in egress.Options.
	Secrets     egress.Secrets
	Credentials map[string]egress.Credential
	Events      event.Sink
	Resolver    egress.Resolver
	RootCAs     *x509.CertPool
	Inside      func(workspace string) http.Handler

	// Snapshots keeps the snapshots of workspaces; nil is none. Layers is the
	// directory for what workspaces that start from them share; "" is one in Root.
	Snapshots *snapshot.Store
	Layers    string

	Log *slog.Logger // nil is silent

	// BootID names the present boot of the host; "" is what the kernel says.
	BootID string
}

// DefaultLease is the default of Config.Lease.
const DefaultLease = 15 * time.Minute

// options is Spec.Config of this provider.
type options struct {
	// Throwaway makes the guest end with the process that started it.
	Throwaway bool `json:"throwaway,omitempty"`

	// Template is a directory, as an absolute path, that the workspace starts
	// with. It is not copied: it shows through until it is written to, and must
	// not change as long as there are workspaces on it.
	Template string `json:"template,omitempty"`

	// Binds are further directories of the host that are shown at their own
	// paths, beside the workspace. Module FS does not reach them.
	Binds []bind `json:"binds,omitempty"`

	// At is the absolute path that the workspace has for its processes, "" for
	// /workspace. It need not exist on the host, unless it lies in a bind.
	At string `json:"at,omitempty"`

	// From is the snapshot that the workspace started with, Layers are the upper
	// layers over Template that it started on, and Sealed those that it was sealed
	// into since; the topmost come first. The provider notes them: they can't be
	// configured.
	From   string   `json:"from,omitempty"`
	Layers []string `json:"layers,omitempty"`
	Sealed []string `json:"sealed,omitempty"`
}

// startDirs lists the directories that the workspace started on, the topmost first.
func (o *options) startDirs() []string {
	if o.Template == "" {
		return nil
	}
	return append(slices.Clone(o.Layers), o.Template)
}

// lowerDirs lists the directories that the files lie over now, the topmost first.
func (o *options) lowerDirs() []string { return append(slices.Clone(o.Sealed), o.startDirs()...) }

// A bind is a directory of the host that commands see where it is.
type bind struct {
	Dir      string `json:"dir"` // absolute
	ReadOnly bool   `json:"readOnly,omitempty"`

	// Empty shows an empty directory there, which is read-only: what is in it on the
	// host, and would be seen through another bind that holds it, is nobody's to see,
	// but for the workspace and further binds in it. Isolation process, which has no
	// mounts, can't hide it.
	Empty bool `json:"empty,omitempty"`
}

// A LevelReport says whether a level of isolation works on this host.
type LevelReport struct {
	Level  driver.Isolation `json:"level"`
	Works  bool             `json:"works"`
	Proof  string           `json:"proof,omitempty"`  // what was tried, where it works
	Reason string           `json:"reason,omitempty"` // why not, where it does not
	Lacks  []string         `json:"lacks,omitempty"`  // what it does not prevent
}

// capabilities are what a workspace has, without snapshots.
var capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell)
