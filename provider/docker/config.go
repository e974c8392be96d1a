package docker

import (
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "docker"

// Config says where a provider keeps its workspaces, and which engine runs them.
type Config struct {
	// Root is the directory that holds them, made where it does not exist. It
	// may be shared with providers of other kinds. An engine that does not see it
	// under the same path keeps the files of workspaces itself: see Files. Required.
	Root string

	// Cache is the directory for what all workspaces share: the guest's program,
	// and what was proven of the engine. Several roots may share one. "" is one in
	// Root.
	Cache string

	// Engine runs the containers. nil is the one at Host.
	Engine Engine

	// Host is where the engine listens, such as unix:///var/run/docker.sock,
	// tcp://10.0.0.2:2376 or ssh://user@host, which has ssh and the host's docker
	// command find it. "" is DOCKER_HOST, or else the first of the usual sockets that is there.
	Host string

	// Guest is the path of croft-guest; "" looks for it, see package guestbin.
	Guest string

	// Files says where the files of new workspaces are: FilesDirectory, below Root,
	// or FilesVolume, on a volume of the engine, where they are reached through the
	// guest. "" is a volume for an engine that is reached over a network (tcp://,
	// ssh://) and for one that was tried and does not see Root, as one in a virtual
	// machine; and else a directory.
	Files string

	// Image is for workspaces that name none; "" is DefaultImage.
	Image string

	// Runtime is for workspaces that name none; "" is the engine's default.
	Runtime string

	// UIDBase is where ids begin that own nothing on this host; the workload has
	// the id 1000 above it, where this process is root and the engine does not
	// map users by itself. 0 is 1<<30.
	UIDBase int

	// Lease is how long a guest lives without anyone who holds its workspace;
	// 0 is 15 minutes.
	Lease time.Duration

	// PullTimeout bounds the way of an image from its registry; 0 is 10 minutes.
	PullTimeout time.Duration

	// AnswerTimeout bounds what an engine may take for one call, such as the
	// start of a container; 0 is one minute.
	AnswerTimeout time.Duration

	// What the proxies of workspaces that may reach hosts work with; see the
	// fields of the same names in egress.Options.
	Secrets     egress.Secrets
	Credentials map[string]egress.Credential
	Events      event.Sink
	Resolver    egress.Resolver
	RootCAs     *x509.CertPool

	// Snapshots keeps the snapshots of workspaces; nil is none.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent

	// BootID names the present boot of the host; "" is what the kernel says.
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

// options is Spec.Config of this provider.
type options struct {
	// Image names what the container is made of.
	Image string `json:"image,omitempty"`

	// Runtime is the engine's name for what runs it, such as "runsc".
	Runtime string `json:"runtime,omitempty"`

	// Files says where the files are, as Config.Files does.
	Files string `json:"files,omitempty"`

	// Throwaway makes the container end soon after the process that started it.
	Throwaway bool `json:"throwaway,omitempty"`

	// From is the snapshot that the workspace started with, which the provider
	// notes: it can't be configured.
	From string `json:"from,omitempty"`
}

// DefaultImage is the image of workspaces that name none.
const DefaultImage = "debian:stable-slim"

// OwnImages is the repository of images that have the guest in them, for containers
// that nothing of this host can be mounted in.
const OwnImages = "croft/with-guest"

// capabilities are what a workspace has, without snapshots.
var capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell)

// Labels of what this provider makes in an engine.
const (
	LabelWorkspace = "run.croft.workspace" // id
	LabelRootID    = "run.croft.root-id"   // which data directory: an id that is kept in it
	LabelRoot      = "run.croft.root"      // where that is, on its host
	LabelHost      = "run.croft.host"      // which host
	LabelKey       = "run.croft.key"       // of how it runs
	LabelSource    = "run.croft.source"    // of an image: what it was made of
	LabelGuest     = "run.croft.guest"     // of an image: version of the guest in it
)

// A Leftover is a container or a volume that belongs to nobody any more.
type Leftover struct {
	Name      string `json:"name"`
	Volume    bool   `json:"volume,omitempty"` // it is a volume
	Workspace string `json:"workspace"`
	Root      string `json:"root"` // of the data directory that it was made for
}
