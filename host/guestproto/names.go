package guestproto

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
	GroupWork  = "group-work"  // of the workload, to write
	GroupGuest = "group-guest" // of the guest, to read
)

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
	ConnectVerb = "connect" // a proxy between standard input and output and the guest's socket
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
