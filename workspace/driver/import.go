package driver

// ImportOptions are the options of Import.
type ImportOptions struct {
	ReadOnly bool     // without write permission; a read-only mount if the provider supports it
	Mount    bool     // a mount may replace the copy; then the directory must not change while the workspace exists
	Exclude  []string // paths below the directory that are left out, with their trees
	MaxFiles int      // ResourceExhausted beyond this many entries; 0 is no limit
	MaxBytes int64    // ResourceExhausted beyond this many bytes of files; 0 is no limit

	// Make runs each step that creates an entry; nil runs the step directly. A
	// provider whose files belong to another user sets Make, to switch users.
	Make func(step func() error) error
}

// ImportResult says what Import copied or mounted.
type ImportResult struct {
	Files    int          `json:"files"`
	Dirs     int          `json:"dirs"`
	Symlinks int          `json:"symlinks"`
	Bytes    int64        `json:"bytes"`             // of files; not counted for a mount
	Method   ImportMethod `json:"method"`            // the weakest method that was used
	Skipped  []ImportSkip `json:"skipped,omitempty"` // the first MaxSkipsListed skipped entries
	Skips    int          `json:"skips,omitempty"`   // number of all skipped entries
}

// Skip records an entry that was left out.
func (r *ImportResult) Skip(path string, reason ImportReason) {
	r.Skips++
	if len(r.Skipped) < MaxSkipsListed {
		r.Skipped = append(r.Skipped, ImportSkip{path, reason})
	}
}

// ImportMethod says how Import brought content into a workspace.
type ImportMethod string

// Methods of import.
const (
	ImportCopy    ImportMethod = "copy"
	ImportReflink ImportMethod = "reflink" // the file system shares the blocks until one side writes
	ImportMount   ImportMethod = "mount"   // nothing was copied; writes stay in the workspace
)

// An ImportSkip is an entry that Import left out, and why.
type ImportSkip struct {
	Path   string       `json:"path"` // relative to the imported directory
	Reason ImportReason `json:"reason"`
}

// ImportReason says why an entry was left out.
type ImportReason string

// Reasons to leave an entry out.
const (
	ImportSpecial ImportReason = "neither a file, a directory nor a symlink"
	ImportLeaves  ImportReason = "a symlink that leaves the workspace"
	ImportNoLinks ImportReason = "a symlink, and this provider has none"
	ImportNamed   ImportReason = "a name that is reserved"
)
