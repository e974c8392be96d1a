package guestproto

import (
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// Protocol is the version of the protocol between host and guest: the messages of
// package guestpb, Config included. A change of either is a new version.
const Protocol = 10

// A Config is the configuration that a guest is started with. The host writes it, by
// Encode, to a descriptor that the guest reads to its end and closes. Nothing of the
// Config is in the environment or in argv, where a process of the workload could read
// it.
type Config struct {
	Version   string // of the build; a guest refuses hosts of another version
	Workspace string // id
	Level     driver.Isolation
	Root      string // path of the workspace as its processes see it

	// The namespaces and the rootfs, set up before the first process starts.
	NewRoot  string     // an empty directory to build the rootfs on, for pivot_root; "" keeps the present root
	Mounts   []Mount    // in order, targets below NewRoot
	Verify   []SameFile // checked when all mounts are in place
	Hostname string     // needs a UTS namespace
	Loopback bool       // bring lo up; needs a network namespace

	// The user, the environment and the limits of the workload.
	UID     int // inside; -1 keeps the guest's own
	GID     int
	Env     map[string]string // of every process
	Confine Confine
	Groups  []string      // names of descriptors (Descriptors) of cgroup v1 "tasks" files to join
	Limits  driver.Limits // of the workload; memory with BestEffort is no cgroup's: the guest limits each process

	// Descriptors maps names of the descriptors beyond standard input, output and
	// error to their numbers: "listen" (a socket to accept on), "stream" (a
	// connection), "log" (directory for the logs of sessions), "handoff" (a socket over
	// which the guest sends a descriptor of Root to the host, by SCM_RIGHTS), "egress"
	// (a directory with the proxy's socket), and those that Groups names.
	Descriptors map[string]int

	// GVisor makes the guest, once the rootfs is built, exec gVisor, whose first
	// process is another guest, the one that serves. nil runs without gVisor.
	GVisor *GVisor

	// Paths stand for descriptors that can't be passed into gVisor: "listen" (where to
	// make a socket), "log" and "egress".
	Paths map[string]string

	// RelayPort makes the guest listen on this loopback port and forward connections
	// to the socket of the egress proxy; 0 is no relay. With RemoteProxy the guest can't
	// reach that socket, and the host pulls the connections: see guest.Client.Relay.
	RelayPort   int
	RemoteProxy bool

	// Forwards are ports of the host's loopback interface, as "127.0.0.1:8080", that the
	// guest listens on inside, too, and forwards through the proxy, which decides.
	Forwards []string

	// CACerts are certificates, in PEM, that programs inside trust, for a guest into
	// which nothing of the host is mounted. The guest writes them to the file
	// CACertsFile in its directory.
	CACerts []byte

	// Lease is how long the guest goes on without a connected host; 0 ends the guest
	// with its stream.
	Lease     time.Duration
	Retain    time.Duration // how long exit statuses are kept; 0 is an hour
	Subreaper bool

	// Files makes the guest serve the files of the workspace, too, for a host that
	// can't reach them.
	Files    bool
	ReadOnly bool
	Sync     bool

	// Token authenticates hosts: each connection to the guest's socket begins with it.
	// Processes of the workload may be able to open the socket, and don't know the
	// token. "" asks for none.
	Token string

	// Threads is how many OS threads the guest creates at its start, and keeps, where
	// a limit of threads applies to guest and workload together.
	Threads int

	// WatchDisk reports a full disk as the cause of commands that fail, also without
	// a limit of disk space.
	WatchDisk bool
}

// A GVisor says how to run gVisor: its program, runsc, is the descriptor "kernel"; it
// runs a bundle whose first process is croft-guest, from the descriptor "program".
type GVisor struct {
	Args   []string // flags of runsc before "run"
	Bundle string   // path in the rootfs
	Inner  *Config  // of the guest in gVisor, which serves
}

// Confine lists what every process of the workload is denied beyond what namespaces
// hide from it: by no_new_privs, capabilities, seccomp and Landlock. See
// guestd's confineThread for how each is applied.
type Confine struct {
	NoNewPrivs bool
	DropCaps   bool
	Seccomp    bool
	NoNetwork  bool // seccomp: no sockets but AF_UNIX, no System V objects
	NoSetID    bool // seccomp: no file gets the set-user-ID or set-group-ID bit
	// BrokerConnect makes the guest connect the sockets of the workload, by seccomp user
	// notification: to Unix sockets with a path only below the directories ConnectBelow,
	// on the same mounts as those.
	BrokerConnect bool
	ConnectBelow  []string
	BoundNetlink  bool // the guest makes the netlink sockets of the workload, see SeccompNotifies
	// Landlock: paths that may be written, and that may be read and executed; with
	// none of both, no Landlock. A name with the prefix "fd:" is a descriptor.
	ReadWrite []string
	ReadOnly  []string
}

// A SameFile closes a TOCTOU race: the host checks a directory and keeps a descriptor of
// it, named File; the guest refuses to start unless Path, after all mounts, is the very
// same inode. So swapping the directory between check and mount has no effect. Later
// changes inside the directory are not prevented.
type SameFile struct {
	Path string
	File string
}

// MountKind says how a Mount is made.
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
	MountSelf    MountKind = "hold"    // self bind mount of Target: it can't be renamed or removed
	MountMask    MountKind = "cover"   // mask: hides a file behind one with the content Source, a directory behind an empty one
)

// A Mount is one entry of the rootfs: a mount, a directory, a file or a symlink.
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
	Dev      bool   // device nodes work; otherwise the mount is nodev
	Optional bool   // skipped if the source does not exist
	Mode     uint32 // of a directory or file made for it; 0 is 0755 or 0644
}
