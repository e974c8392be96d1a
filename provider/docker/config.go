package docker

import (
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "docker"

// Config says where a provider keeps its workspaces, and which engine runs them.
type Config struct {
	// Root is the directory of the workspaces. It is created if it does not exist, and
	// may be shared with providers of other kinds. An engine that does not see it under
	// the same path keeps files on volumes: see Files. Required.
	Root string

	// Cache is the directory of what all workspaces share: the guest's program and the
	// proofs of engines. Several roots may share one. "" means one in Root.
	Cache string

	// Engine runs the containers; nil means the engine at Host.
	Engine Engine

	// Host is the address of the engine, such as unix:///var/run/docker.sock,
	// tcp://10.0.0.2:2376 or ssh://user@host, which runs the docker command there. ""
	// means DOCKER_HOST, or else the first of the usual sockets that exists.
	Host string

	// Guest is the path of croft-guest; "" looks for it, see package guestbin.
	Guest string

	// Files says where the files of new workspaces are: FilesDirectory, below Root, or
	// FilesVolume, on a volume of the engine, where they are reached through the guest.
	// "" means a volume for an engine that is reached over a network (tcp://, ssh://) or
	// was tested and does not see Root, such as one in a virtual machine; else a directory.
	Files string

	// Image is the image of workspaces that name none; "" means DefaultImage.
	Image string

	// Runtime is the runtime of workspaces that name none; "" means the engine's default.
	Runtime string

	// UIDBase is the first of 65536 ids that own nothing on this host. The workload has
	// the id UIDBase+1000, if this process is root and the engine maps no users. 0 means
	// 1<<30.
	UIDBase int

	// Lease is how long a guest lives while no process has its workspace open;
	// 0 means 15 minutes.
	Lease time.Duration

	// PullTimeout bounds the pull of an image; 0 means 10 minutes.
	PullTimeout time.Duration

	// AnswerTimeout bounds one call of the engine, such as the start of a container; 0
	// means one minute.
	AnswerTimeout time.Duration

	// Options of the egress proxies; see the fields of the same names in egress.Options.
	Secrets     egress.Secrets
	Credentials map[string]egress.Credential
	Events      event.Sink
	Resolver    egress.Resolver
	RootCAs     *x509.CertPool
	Upstream    *egress.UpstreamProxy

	// Snapshots is the store of snapshots; nil means no snapshots.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent

	// BootID identifies the present boot of the host; "" reads it from the kernel.
	BootID string
}

// Defaults of Config.
const (
	DefaultLease         = 15 * time.Minute
	DefaultPullTimeout   = 10 * time.Minute
	DefaultAnswerTimeout = time.Minute
)

// Where the files of a workspace are.
const (
	FilesDirectory = "directory" // of this host, mounted in the container
	FilesVolume    = "volume"    // of the engine
)

// Options are Spec.Config of this provider.
type Options struct {
	// Image is the name of the image of the container.
	Image string `json:"image,omitempty"`

	// Runtime is the engine's name of the runtime, such as "runsc".
	Runtime string `json:"runtime,omitempty"`

	// Files says where the files are, as Config.Files does.
	Files string `json:"files,omitempty"`

	// Throwaway makes the container end soon after the process that started it.
	Throwaway bool `json:"throwaway,omitempty"`

	// From is the snapshot that the workspace started from. The provider sets it: it
	// can't be configured.
	From string `json:"from,omitempty"`
}

// DefaultImage is the image of workspaces that name none.
const DefaultImage = "debian:stable-slim"

// OwnImages is the repository of images that contain the guest, for containers that can't
// mount files of this host.
const OwnImages = "croft/with-guest"

// capabilities are what a workspace has, without snapshots.
var capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell)

// Labels of containers, volumes and images that this provider creates.
const (
	LabelWorkspace = "run.croft.workspace" // id
	LabelRootID    = "run.croft.root-id"   // id of the data directory, see rootIDName
	LabelRoot      = "run.croft.root"      // path of the data directory on its host
	LabelHost      = "run.croft.host"      // id of that host
	LabelKey       = "run.croft.key"       // digest of the launch settings
	LabelSource    = "run.croft.source"    // of an image: its source
	LabelGuest     = "run.croft.guest"     // of an image: version of the guest in it
)

// A Leftover is a container or volume whose workspace no longer exists.
type Leftover struct {
	Name      string `json:"name"`
	Volume    bool   `json:"volume,omitempty"` // it is a volume
	Workspace string `json:"workspace"`
	Root      string `json:"root"` // of the data directory that it was made for
}
