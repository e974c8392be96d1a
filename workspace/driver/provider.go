package driver

import (
	"context"
	"crypto/rand"
	"encoding/json"
)

// A Provider opens and resolves workspaces of one kind. It is made once per
// process, serves every session, and holds nothing of any of them: what belongs
// to a session lives in the Workspace values, or in storage named by an id.
// All methods may be called from many goroutines.
type Provider interface {
	// Kind names the provider: "memory", "sandbox". It equals Spec.Kind and
	// Ref.Provider.
	Kind() string

	// Probe says what this host gives, proven by trying, before anything is
	// opened. An error means that the provider can't work here, and says why.
	Probe(ctx context.Context) (Traits, error)

	// Open makes the workspace with the id spec.ID, or returns it where it
	// exists; where its policy differs from spec.Policy the workspace is
	// brought to the latter, under a higher revision. It fails before making
	// anything if the spec asks for what the provider can't do.
	Open(ctx context.Context, spec Spec) (*Workspace, error)

	// Resolve attaches to the workspace that ref names. It makes nothing that
	// Open has not made, except what a process needs to hold it. It refuses a
	// ref of another provider, of a schema version outside the window (see
	// DecodeRef), and of a revision older than the newest one issued.
	Resolve(ctx context.Context, ref Ref) (*Workspace, error)

	// Sweep removes whatever this provider made for ids that are not in live,
	// which is the complete set; it is called while no Open is under way. It
	// never touches what it did not make. Sweeping twice is sweeping once.
	Sweep(ctx context.Context, live []string) error
}

// A CapabilityReporter is a provider, or what is wrapped around one, that knows which
// capabilities its workspaces have before one is opened. Who chooses a provider
// by need asks it.
type CapabilityReporter interface {
	// Capabilities is what Open builds for a spec that wants nothing special.
	Capabilities() Capabilities
}

// A Reserver is a provider, or what is wrapped around one, that has workspaces
// ready before anyone asks. Who gives out ids asks it for one before making one
// up: opening that id then finds the workspace there.
type Reserver interface {
	// Reserve returns the id of a workspace that is ready and like spec, whose id
	// is empty; "" where there is none.
	Reserve(spec Spec) string

	// Release gives back an id that was reserved and will not be opened.
	Release(id string)
}

// A Persistent is a provider, or what is wrapped around one, whose workspaces outlive
// the process. A program that opens storage with records that do not know them asks
// it, so that it does not sweep the workspaces of another one. A provider that is none
// is taken to keep nothing.
type Persistent interface {
	// HasWorkspaces reports whether there is a workspace of any id that Sweep would
	// remove if none was live. It makes nothing.
	HasWorkspaces(ctx context.Context) (bool, error)
}

// Find returns the outermost of p and the providers that it wraps (those that it
// returns from a method Unwrap) which is a T.
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

// A Spec is a wish for a workspace.
type Spec struct {
	ID      string            `json:"id"`               // given by the registry
	Kind    string            `json:"kind"`             // the provider's
	Session SessionRef        `json:"session,omitzero"` // on whose behalf
	Name    string            `json:"name,omitempty"`   // optional, unique per owner; see ValidWorkspaceName
	Want    Capabilities      `json:"want,omitempty"`   // what must be there; empty means whatever the provider has
	Config  json.RawMessage   `json:"config,omitempty"` // the provider's own; decoded strictly
	Policy  Policy            `json:"policy,omitzero"`  // what is asked for
	From    Source            `json:"from,omitzero"`    // what it starts with; zero is empty
	Dir     string            `json:"dir,omitempty"`    // an existing directory of the host, used in place
	Labels  map[string]string `json:"labels,omitempty"` // free; the provider may show them to an engine
}

// A SessionRef says on whose behalf a workspace is used. User owns it: names are
// unique per user.
type SessionRef struct {
	ID    string `json:"id,omitempty"`
	Agent string `json:"agent,omitempty"`
	User  string `json:"user,omitempty"`
}

// A Source is what a workspace starts from: at most one field is set.
type Source struct {
	Template string `json:"template,omitempty"` // name or id of a template
	Snapshot string `json:"snapshot,omitempty"` // id of a snapshot

	// CrossSession permits a snapshot that another session took.
	CrossSession bool `json:"crossSession,omitempty"`
}

// IDLength is the length of a workspace id.
const IDLength = 20

const idAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// NewID returns a fresh random id. It carries 103 bits, so that two never meet.
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

// ValidID reports whether id has the form of a workspace id. Providers build
// paths and host names from ids, so everything that takes one checks it.
func ValidID(id string) bool {
	return len(id) == IDLength && onlyLowerAlnum(id)
}

// ValidWorkspaceName reports whether name may name a workspace:
// [a-z0-9][a-z0-9-]{0,62}, and not the form of an id, since either addresses one.
func ValidWorkspaceName(name string) bool {
	if len(name) == 0 || len(name) > 63 || name[0] == '-' || ValidID(name) {
		return false
	}
	for _, c := range []byte(name) {
		if c != '-' && !lowerAlnum(c) {
			return false
		}
	}
	return true
}

func onlyLowerAlnum(s string) bool {
	for _, c := range []byte(s) {
		if !lowerAlnum(c) {
			return false
		}
	}
	return true
}

func lowerAlnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
