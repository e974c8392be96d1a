package guestproto

import (
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// Protocol is the version of what host and guest say to each other, this
// package's Config included. It changes with either.
const Protocol = 8

// A Config tells a guest what it is and what to put up around itself before it
// runs anything. The host writes it, by Encode, to a descriptor that the guest
// reads to its end and closes; nothing of it is in the environment or in argv,
// where a child could see it.
type Config struct {
	Version   string // made up by the host; the guest refuses hosts with another
	Workspace string // id
	Level     driver.Isolation
	Root      string // path of the workspace as its processes see it

	// What is made of the world before the first process starts.
	NewRoot  string     // an empty directory to build the file system on; "" keeps the present one
	Mounts   []Mount    // in order, targets below NewRoot
	Verify   []SameFile // looked at when all are in place
	Hostname string     // needs a UTS namespace
	Loopback bool       // bring lo up; needs a network namespace

	// What the workload is.
	UID     int // inside; -1 keeps the guest's own
	GID     int
	Env     map[string]string // of every process
	Confine Confine
	Groups  []string // names of descriptors (Descriptors) of cgroup v1 "tasks" files to join
	Limits  driver.Limits

	// Descriptors maps what the guest was given beyond standard input, output
	// and error to descriptor numbers: "listen" (a socket to accept on), "stream"
	// (a connection), "log" (directory for the logs of sessions), "handoff" (a
	// socket over which the descriptor of the root goes to the host), "egress" (a
	// directory with the proxy's socket), and those that Groups names.
	Descriptors map[string]int

	// GVisor makes the guest, once the world around it is built, hand over to a
	// kernel in user space, in which another guest serves. nil is none.
	GVisor *GVisor

	// Paths stand for descriptors that can't be had inside such a kernel: "listen"
	// (where to make a socket), "log" and "egress".
	Paths map[string]string

	// RelayPort makes the guest listen on this loopback port and pass connections
	// on to the proxy's socket; 0 is no relay. With Away the proxy is out of the
	// guest's reach, and the host asks for the connections: see Client.Relay.
	RelayPort   int
	RemoteProxy bool

	// CACerts, where nothing of the host is mounted, is what programs inside trust:
	// it becomes the file RootsName in the directory of the guest.
	CACerts []byte

	// Lease ends the guest when no host has been heard of for so long; 0 means
	// that it dies with its stream.
	Lease     time.Duration
	Retain    time.Duration // how long exit statuses are kept; 0 is an hour
	Subreaper bool

	// Files makes the guest serve the files of the workspace, too, for a host
	// that can't reach them.
	Files    bool
	ReadOnly bool
	Sync     bool

	// Token is what a host begins a connection with, where the guest listens: its
	// own workload, or one without mounts around it, may find the socket; "" is
	// nothing.
	Token string

	// Threads is how many threads the guest takes at its start, and keeps, where
	// it shares a limit of them with the workload.
	Threads int

	// WatchDisk makes a full disk the cause of commands that fail, also where there
	// is no limit of it.
	WatchDisk bool
}

// A GVisor is gVisor's program, by its descriptor "kernel", which runs a bundle
// whose first process is the program of the descriptor "program": a guest.
type GVisor struct {
	Args   []string // flags before the verb
	Bundle string   // directory inside
	Inner  *Config  // of the guest that serves
}

// Confine says what every process of the workload is denied, on top of what the
// namespaces do.
type Confine struct {
	NoNewPrivs bool
	DropCaps   bool
	Seccomp    bool
	NoNetwork  bool // seccomp: no sockets but AF_UNIX, no System V objects
	NoSetID    bool // seccomp: no file may be made to run as its owner
	// Landlock: paths that may be written, and that may be read and executed; with
	// none of both, no Landlock. A name with the prefix "fd:" is a descriptor.
	ReadWrite []string
	ReadOnly  []string
}

// A SameFile says that what is at Path inside must be the file that the host has
// judged, whose descriptor has the name File. Who can swap one directory for
// another between that judgement and the mount gains nothing by it.
type SameFile struct {
	Path string
	File string
}

// MountKind says what a Mount puts in place.
type MountKind string

// Kinds of mounts.
const (
	MountBind    MountKind = "bind"    // Source, a path of the host, with all below it
	MountFD      MountKind = "fd"      // a detached mount, by the name of its descriptor in Source
	MountTmpfs   MountKind = "tmpfs"   //
	MountProc    MountKind = "proc"    //
	MountDevPTS  MountKind = "devpts"  //
	MountMQueue  MountKind = "mqueue"  //
	MountOverlay MountKind = "overlay" // Lower, Upper and Work
	MountSymlink MountKind = "symlink" // a symlink to Source
	MountDir     MountKind = "dir"     // an empty directory
	MountFile    MountKind = "file"    // a file with the content Source
	MountSelf    MountKind = "hold"    // what is at Target, over itself: it can't be moved away
	MountMask    MountKind = "cover"   // a file with the content Source over one that is there, or nothing over a directory
)

// A Mount is one thing to put in place.
type Mount struct {
	Kind     MountKind
	Target   string // absolute, as seen inside
	Source   string
	Lower    []string // topmost first; a name with the prefix "fd:" is a descriptor
	Upper    string   // a path, or "fd:NAME/PATH": PATH below a descriptor's mount, as then Work is
	Work     string
	Data     string // options of the file system
	ReadOnly bool
	NoExec   bool
	Dev      bool   // device nodes work; otherwise they do not
	Optional bool   // a source that does not exist is left out
	Mode     uint32 // of a directory or file made for it; 0 is 0755 or 0644
}
