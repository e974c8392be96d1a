package guestproto

import (
	"fmt"
	"time"
)

// Names of descriptors of cgroup event files, through which the guest reads what the
// limits of the workload have counted.
const (
	EventsOOM  = "events-oom"  // a file with a line "oom_kill N"
	EventsPIDs = "events-pids" // a file with a line "max N"
)

// Names of descriptors of cgroup.procs files, where limits are kept by cgroup v2. A
// confined thread can't start a process in another cgroup, so the guest moves each
// process there after its start.
const (
	GroupWork  = "group-work"  // of the workload, to read and write
	GroupGuest = "group-guest" // of the guest, to read
)

// What the descriptors of the cgroup of one command are, see cgroup.Command: they come over
// the connection with the command, whose field group names them by FileKey.
const (
	CommandJoin    = "join-"  // and a controller of version 1
	CommandLeave   = "leave-" // likewise
	CommandMaxPIDs = "max-pids"
	CommandProcs   = "procs"
	CommandEvents  = "events"
)

// FileKey identifies a file on both sides of a connection that passed a descriptor of it.
func FileKey(dev, ino uint64) string { return fmt.Sprintf("%d:%d", dev, ino) }

// ContainerVerb is the first argument of croft-guest as the first process of a
// container; the second argument is the directory that it shares with the host.
const ContainerVerb = "container"

// Names in the directory of a guest in a container.
const (
	ContainerConfig = "config" // written by the host before the start: a Config
	ContainerReport = "report" // written by the guest: "ok", or a fault.Wire with the reason why it can't serve
	ContainerSocket = "sock"   // where the guest listens
	ContainerLog    = "log"    // directory for the logs of sessions
	ContainerEgress = "egress" // directory with the socket of the egress proxy; absent without one
)

// Arguments of croft-guest where the engine is on another host, and all bytes go through
// the engine.
const (
	StdioVerb   = "stdio"   // the guest; its one argument is a directory in which it creates files and which the workload can't list
	ConnectVerb = "connect" // a proxy between standard input and output and the guest's socket; on another machine with the directory of the workspace
	InstallVerb = "install" // prepares another container: copies the program to its first argument, and creates the directory for StdioVerb, its second
)

// Arguments of croft-guest on another machine, before the directory of a workspace there.
// The host speaks over standard input and output.
const (
	DaemonVerb = "daemon" // starts a guest that outlives the connection, and connects to it
	EndVerb    = "end"    // ends the guest
	RemoveVerb = "remove" // ends the guest and removes the directory

	// For a machine that ends the descendants of a program with it, and keeps a program
	// whose host is gone.
	ServeVerb  = "serve"  // the guest
	TunnelVerb = "tunnel" // as ConnectVerb; what the host sends is messages, see WriteMessage
)

// A tunnel ends when no message has come for TunnelTimeout; its host sends an empty one each
// TunnelKeepAlive.
const (
	TunnelKeepAlive = 5 * time.Second
	TunnelTimeout   = 30 * time.Second
)

// MaxTunnelMessage is the largest message to a tunnel, in bytes.
const MaxTunnelMessage = 8 << 20

// Names in the directory of a workspace on another machine.
const (
	MachineFiles  = "files" // the files
	MachineLog    = "log"   // directory for the logs of sessions
	MachineSocket = "sock"  // where the guest listens
	MachineLock   = "lock"  // flock of the guest while it lives, with its process id
)

// Arguments of croft-guest that make it exceed a limit, for a host that probes whether
// the kernel enforces it.
const (
	ExhaustMemory = "exhaust-memory" // allocates 64 MiB
	ExhaustPIDs   = "exhaust-pids"   // forks
	ExhaustCPU    = "exhaust-cpu"    // uses 50 ms of CPU time
)

// Refused is the exit status of a probe to which the kernel refused the fork.
const Refused = 9

// ProxySocket is the name of the egress proxy's socket in the directory of the
// descriptor "egress". The relay dials it by name for each connection, because the proxy
// may be replaced while the guest runs.
const ProxySocket = "proxy.sock"

// CACertsFile is the name of the file with Config.CACerts in the directory of a guest.
const CACertsFile = "roots.pem"

// RelayChunk is how many bytes of a relayed connection travel in one message, at most.
const RelayChunk = 256 << 10
