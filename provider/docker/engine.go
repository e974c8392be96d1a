package docker

import (
	"context"
	"io"
	"time"
)

// An Engine has the calls of a container engine that this package needs. Errors have codes:
// NotFound for an object that does not exist, AlreadyExists for a name in use, Unavailable
// for an engine that does not answer. Removing an object that does not exist succeeds.
type Engine interface {
	// Ping checks that the engine answers. It is cheap.
	Ping(ctx context.Context) error

	// Info describes the engine.
	Info(ctx context.Context) (Info, error)

	// Containers.
	Create(ctx context.Context, u ContainerSpec) (id string, err error)
	Start(ctx context.Context, id string) error
	Attach(ctx context.Context, id string) (io.ReadWriteCloser, error)                     // standard input and output
	Exec(ctx context.Context, id, user string, argv ...string) (io.ReadWriteCloser, error) // those of a further process
	Put(ctx context.Context, id, dir string, files io.Reader) error                        // unpacks a tar in it
	Remove(ctx context.Context, id string) error                                           // by force, with its anonymous volumes
	Inspect(ctx context.Context, id string) (State, error)
	Usage(ctx context.Context, id string) (Usage, error)                 // one measurement, in milliseconds
	List(ctx context.Context, labels map[string]string) ([]State, error) // those that do not run, too
	Pause(ctx context.Context, id string) error
	Unpause(ctx context.Context, id string) error

	// Volumes, by name. Creating a volume that exists succeeds, and so does removing one
	// that does not.
	CreateVolume(ctx context.Context, name string, uid int, labels map[string]string) error // for a user, where the engine can say that
	Volume(ctx context.Context, name string) error                                          // NotFound if it does not exist
	Volumes(ctx context.Context, labels map[string]string) ([]Volume, error)
	RemoveVolume(ctx context.Context, name string) error

	// Images.
	Image(ctx context.Context, name string) (Image, error)
	Images(ctx context.Context) ([]Image, error)
	Pull(ctx context.Context, name string) error
	Load(ctx context.Context, archive io.Reader) ([]string, error)            // as "docker save" writes it; returns names
	Import(ctx context.Context, files io.Reader, name string, c Commit) error // a tar of a root file system
	Build(ctx context.Context, files io.Reader, dockerfile, name string, labels map[string]string) error
	Commit(ctx context.Context, id, name string, labels map[string]string) error // what a container is now
	RemoveImage(ctx context.Context, name string) error

	Close() error
}

// Info describes an engine.
type Info struct {
	ID           string   // of this installation
	Name         string   // for display: "Docker 20.10.24"
	Architecture string   // as GOARCH names it
	Runtimes     []string // in alphabetical order
	UserNS       bool     // the engine maps users inside to other users of its host
	Rootless     bool     // the engine itself is not root
	Memory       bool     // it limits memory, and so on
	Swap         bool
	PIDs         bool
	CPU          bool
	Remote       bool // it is reached over a network
	Podman       bool // it is Podman, which speaks the API and differs here and there
}

// A ContainerSpec describes a container to create.
type ContainerSpec struct {
	Name       string
	Image      string
	Labels     map[string]string
	Command    []string // in place of the image's entry point
	User       string   // UID:GID
	Dir        string
	Hostname   string
	Runtime    string // "" is the engine's default
	Mounts     []Mount
	Tmpfs      map[string]string // options by path
	Memory     int64             // bytes, swap included; 0 is no limit
	PIDs       int64
	MilliCPUs  int64
	AutoRemove bool // the engine removes it when it ends
	Writable   bool // its root file system can be changed
	Stdin      bool // standard input stays open until the first attached client disconnects
}

// A Mount is a bind mount of a directory or file of the engine's host, or a named volume. A
// volume without a name is created with the container, with the files that the image has at
// its target, and removed with it.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
	Volume   bool
}

// A State is the state of a container.
type State struct {
	ID       string
	Name     string
	Labels   map[string]string
	Running  bool
	Paused   bool
	OOM      bool // the kernel killed for memory in it
	ExitCode int
	Error    string
	PID      int // on the engine's host, of its first process
}

// Usage is what the processes of a container use. A field that the engine does not measure is nil.
type Usage struct {
	CPU    *time.Duration
	Memory *int64 // bytes, without what the kernel can drop
	PIDs   *int64
}

// A Volume is a directory that the engine keeps.
type Volume struct {
	Name   string
	Labels map[string]string
}

// An Image is an image in the engine.
type Image struct {
	ID      string            `json:"id"`
	Names   []string          `json:"names,omitempty"`
	Size    int64             `json:"size"`
	Created time.Time         `json:"created"`
	Labels  map[string]string `json:"labels,omitempty"`
	Env     []string          `json:"-"` // NAME=VALUE, of one that was asked for by its name
	Volumes []string          `json:"-"` // paths that it declares as such, likewise
}

// A Commit is the configuration of an image that is imported from files.
type Commit struct {
	Env     []string
	Command []string
	Labels  map[string]string
}
