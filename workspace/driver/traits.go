package driver

// Traits say what is enforced, and by which mechanism. Traits are never a request:
// each is proven on this host, and package workspacetest tries to refute every claim.
type Traits struct {
	Isolation   Isolation    `json:"isolation"`
	IsolatedBy  Enforcement  `json:"isolatedBy"`
	Network     NetworkTrait `json:"network"`
	NetworkBy   Enforcement  `json:"networkBy"`
	Limits      LimitTraits  `json:"limits"`
	ReadOnly    Enforcement  `json:"readOnly"`              // what enforces a read-only workspace
	Durability  Durability   `json:"durability"`            // what acknowledged writes survive
	Streaming   bool         `json:"streaming"`             // output arrives while a command runs
	SessionsEnd bool         `json:"sessionsEnd,omitempty"` // sessions end with the process that started them, and no other can attach to them
	InPlace     bool         `json:"inPlace"`               // Spec.Dir is supported
	MaxDisk     int64        `json:"maxDisk,omitempty"`     // bytes a workspace can hold; 0 is unknown
	CopyOnWrite string       `json:"copyOnWrite,omitempty"` // how a template is used: overlay, reflink, copy
	Root        string       `json:"root,omitempty"`        // path of the workspace as its processes see it

	// Damaged says why the content of this workspace may be incomplete: the host
	// crashed after a write, and the policy was not durable. "" is no doubt.
	Damaged string `json:"damaged,omitempty"`
}

// Enforcement names the mechanism that enforces something or, if By is empty, the
// reason why nothing does.
type Enforcement struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Enforced reports whether there is a mechanism.
func (e Enforcement) Enforced() bool { return e.By != "" }

func (e Enforcement) reasonText() string {
	if e.Reason == "" {
		return "this provider can't enforce it"
	}
	return e.Reason
}

// NetworkTrait says what a workspace's processes can reach.
type NetworkTrait string

// What processes can reach.
const (
	NetworkNone   NetworkTrait = "none"   // nothing, or there are no processes
	NetworkPolicy NetworkTrait = "policy" // what the policy allows, and nothing else
	NetworkOpen   NetworkTrait = "open"   // everything that the host can reach
)

// Durability says what acknowledged writes survive.
type Durability string

// What acknowledged writes survive. Each includes those before it.
const (
	DurableNone    Durability = "none"    // lost when the process that holds the workspace ends
	DurableProcess Durability = "process" // the death of any process
	DurablePower   Durability = "power"   // power loss, where the policy asks for it
)

// Persists reports whether the workspace outlives the process that opened it.
func (t Traits) Persists() bool { return t.Durability != DurableNone && t.Durability != "" }
