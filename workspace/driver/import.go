package driver

// ImportOptions are the options of Import.
type ImportOptions struct {
	ReadOnly bool     // without any permission to write, by a mount where the provider can
	Mount    bool     // nothing need be copied: a mount may show the directory, which must not change then while the workspace is there
	Exclude  []string // paths below the directory that stay out, with all below them
	MaxFiles int      // ResourceExhausted beyond so many entries; 0 is no limit
	MaxBytes int64    // ResourceExhausted beyond so many bytes of files; 0 is no limit

	// Make is called with each step that makes an entry, and calls it; nil calls
	// it as it is. A provider whose files belong to another user sets it.
	Make func(step func() error) error
}

// ImportResult says what Import brought in.
type ImportResult struct {
	Files    int          `json:"files"`
	Dirs     int          `json:"dirs"`
	Symlinks int          `json:"symlinks"`
	Bytes    int64        `json:"bytes"`             // of files; not counted where a mount shows them
	Method   ImportMethod `json:"method"`            // of those, the weakest that was needed
	Skipped  []ImportSkip `json:"skipped,omitempty"` // the first MaxSkipsListed of them
	Skips    int          `json:"skips,omitempty"`   // how many there were
}

// Skip notes what was left out.
func (r *ImportResult) Skip(path string, reason ImportReason) {
	r.Skips++
	if len(r.Skipped) < MaxSkipsListed {
		r.Skipped = append(r.Skipped, ImportSkip{path, reason})
	}
}

// ImportMethod says how content entered a workspace.
type ImportMethod string

// How content enters.
const (
	ImportCopy    ImportMethod = "copy"
	ImportReflink ImportMethod = "reflink" // the file system shares the blocks until one side writes
	ImportMount   ImportMethod = "mount"   // nothing was copied; what is written stays in the workspace
)

// An ImportSkip is what Import left out, and why.
type ImportSkip struct {
	Path   string       `json:"path"` // below the directory
	Reason ImportReason `json:"reason"`
}

// ImportReason says why something was left out.
type ImportReason string

// Why something is left out.
const (
	ImportSpecial ImportReason = "neither a file, a directory nor a symlink"
	ImportLeaves  ImportReason = "a symlink that leaves the workspace"
	ImportNoLinks ImportReason = "a symlink, and this provider has none"
	ImportNamed   ImportReason = "a name that is reserved"
)
