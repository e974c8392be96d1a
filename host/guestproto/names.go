package guestproto

// Names of descriptors through which the guest reads what its limit groups
// have counted.
const (
	EventsOOM  = "events-oom"  // a file with a line "oom_kill N"
	EventsPIDs = "events-pids" // a file with a line "max N"
)

// Names of descriptors of cgroup.procs files, where limits are kept by groups of
// version 2, which a process can't be born into from a thread that is confined.
const (
	GroupWork  = "group-work"  // of the workload, to write
	GroupGuest = "group-guest" // of the guest, to read
)

// ContainerVerb is the first argument of a guest that an engine starts; the
// second is its directory.
const ContainerVerb = "container"

// Names in the directory of a guest in a container.
const (
	ContainerConfig = "config" // what the host writes before the start: a Config
	ContainerReport = "report" // what the guest answers: "ok", or why it can't serve as fault.Wire
	ContainerSocket = "sock"   // where it listens
	ContainerLog    = "log"    // directory for the logs of sessions
	ContainerEgress = "egress" // directory with the socket of the proxy, where there is one
)

// Verbs of a guest whose host is reached through its engine.
const (
	StdioVerb   = "stdio"   // the guest; its one argument is a directory that it can add to, and nobody list
	ConnectVerb = "connect" // passes standard input and output on to the guest
)

// What croft-guest tries where a host wants to know whether a limit holds. The
// program is called with one of these as its argument.
const (
	ExhaustMemory = "exhaust-memory" // takes memory until it is killed
	ExhaustPIDs   = "exhaust-pids"   // starts a process, and expects to be refused
	ExhaustCPU    = "exhaust-cpu"    // computes until it has had a processor for a moment
)

// Refused is the exit status of a program that was refused what it tried.
const Refused = 9

// ProxySocket is the name of the socket in the directory of the descriptor
// "egress". The proxy may be replaced while the guest runs, so it is dialled by
// name each time.
const ProxySocket = "proxy.sock"

// CACertsFile is the name of the file with what programs trust, in the directory of
// a guest that was given Config.Roots.
const CACertsFile = "roots.pem"

// RelayChunk is how much of a connection travels at once.
const RelayChunk = 64 << 10
