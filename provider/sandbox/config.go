package sandbox

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "sandbox"

// Config says where a provider keeps its workspaces and how it isolates them.
type Config struct {
	// Root is the directory of the workspaces. It is created if it does not exist,
	// and may be shared with providers of other kinds. Required.
	Root string

	// Forbidden are directories, besides Root, that no workspace may use in place,
	// neither they nor a directory in them or above them: Croft's data directories.
	Forbidden []string

	// Roots are the directories of the host in which directories in place, binds and
	// templates must lie. nil allows any; an empty list allows no directory.
	Roots []string

	// Guest is the path of croft-guest; "" looks for it, see package guestbin.
	Guest string

	// Cache is a directory, which no workspace sees and no other user writes to, in which
	// later processes find the levels of isolation that passed their test (see the package)
	// and croft-guest. It is created when needed. "" makes each process test the levels.
	Cache string

	// Runsc is the path of gVisor's program; "" looks for runsc on PATH.
	Runsc string

	// Isolation is the lowest level for a policy that names none. "" means
	// namespaces or an equal.
	Isolation driver.Isolation

	// UIDBase is the id on the host of id 0 inside, where this process is root. 65536
	// ids from it on are used; they must own nothing on this host. 0 means 1<<30.
	UIDBase int

	// Lease is how long a guest lives while no process has its workspace open;
	// 0 means 15 minutes.
	Lease time.Duration

	// Options of the egress proxies; see the fields of the same names in egress.Options.
	Secrets      egress.Secrets
	Credentials  map[string]egress.Credential
	Events       event.Sink
	Resolver     egress.Resolver
	RootCAs      *x509.CertPool
	Upstream     *egress.UpstreamProxy
	LocalHandler func(workspace string) http.Handler

	// Snapshots is the store of snapshots; nil means no snapshots. Layers is the
	// directory of the layers that workspaces share; "" means one in Root.
	Snapshots *snapshot.Store
	Layers    string

	// Volumes is the directory of volumes, each a directory that any number of workspaces
	// may mount; "" means none.
	Volumes string

	Log *slog.Logger // nil is silent

	// BootID identifies the present boot of the host; "" reads it from the kernel.
	BootID string
}

// DefaultLease is the default of Config.Lease.
const DefaultLease = 15 * time.Minute

// Options are Spec.Config of this provider.
type Options struct {
	// Throwaway makes the guest end with the process that started it.
	Throwaway bool `json:"throwaway,omitempty"`

	// Template is the absolute path of a directory that the workspace starts with.
	// It is the lower layer of an overlayfs, not a copy, and must not change while
	// workspaces use it.
	Template string `json:"template,omitempty"`

	// Binds are further directories of the host, mounted at their own paths. Module
	// FS does not reach them.
	Binds []Bind `json:"binds,omitempty"`

	// Sockets are absolute paths of directories of the host that are shown, in place or by
	// a bind, or of directories in them: the workload may connect to Unix sockets there.
	// A program of the host that listens on one may run code for it. Isolation process and
	// gvisor can't allow it.
	Sockets []string `json:"sockets,omitempty"`

	// Caches are package and build caches of the host, each with a private layer over it.
	// Module FS does not reach them.
	Caches []Cache `json:"caches,omitempty"`

	// Volumes are directories of Config.Volumes. Module FS does not reach them.
	Volumes []Volume `json:"volumes,omitempty"`

	// Rootfs is a complete snapshot of the files of an image, which replace the programs
	// of the host.
	Rootfs string `json:"rootfs,omitempty"`

	// At is the absolute path of the workspace inside; "" means /workspace. It need
	// not exist on the host, unless it lies in a bind. If it is the home of User, the
	// workspace is the home.
	At string `json:"at,omitempty"`

	// User is the name of the workload's user inside, whose home is /home/NAME; ""
	// means croft.
	User string `json:"user,omitempty"`

	// Git says what a .git of a directory in place, or of a writable bind, is inside:
	// GitPrivate, a copy that the host does not see, or GitShared. "" is GitPrivate.
	Git string `json:"git,omitempty"`

	// From is the snapshot that the workspace started from, Layers are the layers over
	// Template that it started on, and Sealed those that it was sealed into since,
	// topmost first. The provider sets them: they can't be configured.
	From   string   `json:"from,omitempty"`
	Layers []string `json:"layers,omitempty"`
	Sealed []string `json:"sealed,omitempty"`

	// RootfsDir is the directory with the files of Rootfs. The provider sets it.
	RootfsDir string `json:"rootfsDir,omitempty"`
}

// Values of the option "git".
const (
	GitPrivate = "private"
	GitShared  = "shared" // the host's: objects and refs are writable, what Git runs or includes is read-only
)

// startDirs lists the lower directories that the workspace started on, topmost first.
func (o *Options) startDirs() []string {
	if o.Template == "" {
		return nil
	}
	return append(slices.Clone(o.Layers), o.Template)
}

// lowerDirs lists the lower directories of the overlayfs now, topmost first.
func (o *Options) lowerDirs() []string { return append(slices.Clone(o.Sealed), o.startDirs()...) }

// A Volume is a directory of Config.Volumes that commands see at a path.
type Volume struct {
	Name     string `json:"name"` // in Config.Volumes
	At       string `json:"at"`   // absolute path inside, outside of the workspace and the system's directories
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// A Bind is a directory of the host that commands see at its own path.
type Bind struct {
	Dir      string `json:"dir"` // absolute
	ReadOnly bool   `json:"readOnly,omitempty"`

	// Empty masks the directory with an empty, read-only one: what is in it on the
	// host is hidden, also where an outer bind would show it, except for the workspace
	// and further binds in it. Isolation process has no mounts and can't hide it.
	Empty bool `json:"empty,omitempty"`

	// HideCredentials masks the credential files in the directory, which is that of a
	// toolchain: see toolchain.CredentialFiles. It is then read-only.
	HideCredentials bool `json:"hideCredentials,omitempty"`

	// Optional leaves the directory out while it does not exist on the host.
	Optional bool `json:"optional,omitempty"`

	hide []string // paths in it that are masked
}

// A Cache is a directory of the host that commands see at its own path, as the lower layer
// of an overlayfs: they can change it, and the host's directory stays as it is. The upper
// layer lives as long as the workspace. The host may change its directory meanwhile: see
// package toolchain. A directory that does not exist is left out.
type Cache struct {
	Dir string `json:"dir"` // absolute

	// Home is a directory above Dir, of the program that uses the cache: it is private
	// and empty, but for caches and binds in it. "" without one.
	Home string `json:"home,omitempty"`

	// Var is a variable of every process, one of toolchain.CacheVars: Home, or Dir
	// without one.
	Var string `json:"var,omitempty"`

	// Hide are paths in Dir that are masked.
	Hide []string `json:"hide,omitempty"`

	// ReadOnly shows the directory read-only where there can be no layer: without
	// overlayfs (isolation bubblewrap and process) and with a limit of disk space, which
	// would not hold for the layer. Otherwise the cache is left out there.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// capabilities are what a workspace has, without snapshots.
var capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell)
