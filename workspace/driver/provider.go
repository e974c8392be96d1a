package driver

import (
	"context"
	"crypto/rand"
	"encoding/json"
)

// A Provider opens and resolves workspaces of one kind. There is one Provider value
// per process. It keeps no state of a session: that state is in the Workspace values,
// or in storage named by an id. All methods are safe for concurrent use.
type Provider interface {
	// Kind names the provider: "memory", "sandbox". It equals Spec.Kind and
	// Ref.Provider.
	Kind() string

	// Features returns what the provider has besides its workspaces.
	Features() Features

	// Probe detects what the provider can enforce on this host, by trying it. An
	// error means that the provider can't work on this host, and says why.
	Probe(ctx context.Context) (Traits, error)

	// Open creates the workspace with the id spec.ID, or returns the existing one.
	// If the policy of an existing workspace differs from spec.Policy, Open applies
	// spec.Policy under a higher revision. Open fails before it creates anything if
	// the spec asks for what the provider can't do. The workspace has the capabilities
	// spec.Want and no others; see Workspace.Only.
	Open(ctx context.Context, spec Spec) (*Workspace, error)

	// Resolve attaches to the workspace that ref names. It creates nothing except
	// what this process needs to use the workspace (a lock, a connection). It refuses
	// a ref of another provider, of a schema version outside the window (see
	// DecodeRef), of capabilities that it can't build, and of a revision older than the
	// newest one issued. The workspace has the capabilities of the ref and no others.
	Resolve(ctx context.Context, ref Ref) (*Workspace, error)

	// Sweep removes whatever this provider created for ids that are not in live.
	// live is complete: no Open runs at the same time. Sweep never touches what the
	// provider did not create. Sweep is idempotent.
	Sweep(ctx context.Context, live []string) error

	// Close ends what the provider runs in this process, after the last of its workspaces is
	// closed. The workspaces stay.
	Close() error
}

// Features are what a program asks of a provider besides workspaces, before one is opened. The zero
// value has nothing: a provider sets what it has, and a decorator changes what it adds.
type Features struct {
	// Capabilities are what Open builds for a Spec without Config; nil is not known. A program
	// chooses a provider by them.
	Capabilities Capabilities

	// OnlyNamed keeps the provider out of every choice: it is used only where it is named,
	// whatever its traits, because its commands or files are not on this host or not isolated.
	OnlyNamed bool

	// Portable says that the workspaces are not on this host, so every process with the same
	// configuration reaches them. In a cluster of servers another one takes them over when theirs is
	// lost, and one sweeps for all. Other workspaces are bound to the host on which they were opened.
	Portable bool

	// ReplacesBuiltIn says that a program uses this provider instead of its own of the same kind.
	ReplacesBuiltIn bool

	// HasWorkspaces reports whether Sweep with an empty live set would remove a workspace. It
	// creates nothing. A program with a new or wrong database calls it before Sweep, so that it does
	// not delete workspaces which another database lists. nil: no workspace outlives the process.
	HasWorkspaces func(ctx context.Context) (bool, error)

	// HostDir returns the directory of this host with the files of the workspace with the given id,
	// also before it is opened; nil: the files are elsewhere. A workspace in place, or one over a template, has
	// others.
	HostDir func(id string) string

	// RunningSessions lists the sessions that run in a workspace, also in one that no process has
	// open. It opens and starts nothing; nil: that is not known.
	RunningSessions func(ctx context.Context, id string) ([]SessionInfo, error)

	// Levels says which levels of isolation work on this host; nil: there is at most one, that of Probe.
	Levels func(ctx context.Context) []Level

	// Reserve returns the id of a workspace that was created in advance and matches spec, whose id is
	// empty, or "". The registry calls it before it makes a new id; Open with a reserved id returns
	// that workspace, and Release returns an id that will not be opened. nil: nothing is created in
	// advance.
	Reserve func(spec Spec) string
	Release func(id string)
}

// A Level says whether a level of isolation works on this host.
type Level struct {
	Level  Isolation
	Works  bool
	Proof  string   // what was tried, where it works
	Reason string   // why it does not work, where it does not
	Lacks  []string // limitations: what it does not prevent, and what does not work with it
}

// Find returns the outermost provider that is a T: p, or a provider that p wraps
// (the result of its method Unwrap), and so on.
func Find[T any](p Provider) (T, bool) {
	for p != nil {
		if t, ok := p.(T); ok {
			return t, true
		}
		w, ok := p.(interface{ Unwrap() Provider })
		if !ok {
			break
		}
		p = w.Unwrap()
	}
	var none T
	return none, false
}

// A Spec is a request for a workspace.
type Spec struct {
	ID      string            `json:"id"`               // given by the registry
	Kind    string            `json:"kind"`             // Kind of the provider
	Session SessionRef        `json:"session,omitzero"` // session, agent and user that use the workspace
	Name    string            `json:"name,omitempty"`   // optional, unique per owner; see ValidWorkspaceName
	Want    Capabilities      `json:"want,omitempty"`   // capabilities to build, all required; empty is all that the provider has
	Config  json.RawMessage   `json:"config,omitempty"` // format of the provider; decoded strictly
	Policy  Policy            `json:"policy,omitzero"`  // requested isolation, network, limits
	From    Source            `json:"from,omitzero"`    // template or snapshot to start from; zero is empty
	Dir     string            `json:"dir,omitempty"`    // an existing directory of the host, used in place
	Labels  map[string]string `json:"labels,omitempty"` // free text; the provider may pass them to a container engine
}

// A SessionRef names the session, agent and user that use a workspace. User is the
// owner: names of workspaces are unique per user.
type SessionRef struct {
	ID    string `json:"id,omitempty"`
	Agent string `json:"agent,omitempty"`
	User  string `json:"user,omitempty"`
}

// A Source is what a workspace starts from: a template or a snapshot.
type Source struct {
	Template string `json:"template,omitempty"` // name or id of a template, or the absolute path of a directory
	Snapshot string `json:"snapshot,omitempty"` // id of a snapshot

	// Live uses a directory as it is. Otherwise a server captures it, so that later
	// changes of the directory do not reach the workspace.
	Live bool `json:"live,omitempty"`
	// Credentials includes credential files of a directory that is captured.
	Credentials bool `json:"credentials,omitempty"`

	// CrossSession permits a snapshot that another session took.
	CrossSession bool `json:"crossSession,omitempty"`
}

// IDLength is the length of a workspace id.
const IDLength = 20

const idAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// NewID returns a random id. It has 103 bits of entropy, which rules out collisions.
func NewID() string {
	id := make([]byte, 0, IDLength)
	var buf [2 * IDLength]byte
	for len(id) < IDLength {
		rand.Read(buf[:]) // never fails
		for _, b := range buf {
			// 252 is the largest multiple of 36 below 256: no letter is favoured.
			if b < 252 && len(id) < IDLength {
				id = append(id, idAlphabet[b%36])
			}
		}
	}
	return string(id)
}

// ValidID reports whether id has the form of a workspace id. Every function that takes
// an id checks it, because providers build paths and host names from ids.
func ValidID(id string) bool {
	return len(id) == IDLength && isLowerAlnum(id)
}

// ValidWorkspaceName reports whether name may name a workspace:
// [a-z0-9][a-z0-9-]{0,62}, and not of the form of an id, because a workspace is
// addressed by its name or its id.
func ValidWorkspaceName(name string) bool {
	if len(name) == 0 || len(name) > 63 || name[0] == '-' || ValidID(name) {
		return false
	}
	for _, c := range []byte(name) {
		if c != '-' && !isLowerAlnumByte(c) {
			return false
		}
	}
	return true
}

func isLowerAlnum(s string) bool {
	for _, c := range []byte(s) {
		if !isLowerAlnumByte(c) {
			return false
		}
	}
	return true
}

func isLowerAlnumByte(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
