package driver

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"time"
)

// FS is the module for files. Files is required; a nil function means that
// package workspace does the same with Files alone, or answers Unsupported where
// that can't be (Symlink, Chmod, Watch).
type FS struct {
	Files

	// List is ReadDir for more than one level, in pages.
	List func(ctx context.Context, name string, opts *ListOptions) (Listing, error)

	// Edit replaces text. It is all or nothing: see ApplyEdits.
	Edit func(ctx context.Context, name string, edits []Edit, opts *EditOptions) (EditResult, error)

	// Rename moves a file, symlink or directory. It replaces a file at to, as
	// rename(2) does, unless opts.CreateOnly.
	Rename func(ctx context.Context, from, to string, opts *RenameOptions) error

	// Copy copies a file or, where opts.Recursive, a tree.
	Copy func(ctx context.Context, from, to string, opts *CopyOptions) error

	// Chmod sets the permission bits of a file or directory, never of what a
	// symlink outside points to.
	Chmod func(ctx context.Context, name string, mode fs.FileMode) error

	// Symlink makes name point to target, which must stay inside when it is
	// resolved from where name is; a target that does not exist yet is fine.
	Symlink func(ctx context.Context, target, name string) error

	// Glob lists what matches a pattern.
	Glob func(ctx context.Context, pattern string, opts *GlobOptions) (GlobResult, error)

	// Grep searches the text of files.
	Grep func(ctx context.Context, pattern string, opts *GrepOptions) (GrepResult, error)

	// Watch reports changes at and below name.
	Watch func(ctx context.Context, name string, opts *WatchOptions) (Watcher, error)

	// Digest is the digest of a file, or of a tree (see TreeDigest).
	Digest func(ctx context.Context, name string) (string, error)

	// Import brings the directory dir of this host, an absolute path, to name,
	// where nothing may be: with all below it or, where anything fails, nothing.
	// Unsupported means that it made nothing, and leaves the work to Write.
	Import func(ctx context.Context, dir, name string, opts *ImportOptions) (ImportResult, error)

	// Protect keeps programs from making writable again what was brought to name
	// without permission to write. Unsupported leaves that to the modes.
	Protect func(ctx context.Context, name string) error

	// ChangedPaths lists where the workspace may differ from the template that it
	// started from; elsewhere it does not. Unsupported means that only a look at
	// everything tells.
	ChangedPaths func(ctx context.Context) ([]ChangedPath, error)
}

func (f *FS) core() any {
	if f == nil {
		return nil
	}
	return f.Files
}

// Files is the required part of FS. Missing things are errors (NotFound), and
// recursion is opt-in. Symlinks that stay inside are followed, except by
// ReadDir and Remove; those that leave are a SandboxViolation.
type Files interface {
	// Stat describes name.
	Stat(ctx context.Context, name string, opts *StatOptions) (Info, error)

	// ReadDir lists the directory name, one level, sorted by name. Symlinks
	// are listed as such.
	ReadDir(ctx context.Context, name string) ([]Info, error)

	// Read opens the file name for reading. The Info is of the very file that
	// is read. Anything that is not a regular file is refused, never waited for.
	Read(ctx context.Context, name string, opts *ReadOptions) (io.ReadCloser, Info, error)

	// Write makes or replaces the file name with what body yields. It is
	// atomic: whoever reads sees the old content or the new, whatever happens,
	// unless opts.InPlace. Mode, owner and extended attributes of a file that
	// is replaced are kept. If body fails, nothing changes.
	Write(ctx context.Context, name string, body io.Reader, opts *WriteOptions) (WriteResult, error)

	// Mkdir makes a directory.
	Mkdir(ctx context.Context, name string, opts *MkdirOptions) error

	// Remove removes a file, a symlink (not its target), or a directory, which
	// must be empty unless opts.Recursive. The workspace itself stays.
	Remove(ctx context.Context, name string, opts *RemoveOptions) error
}

// ValidName reports whether name is a slash path as drivers get them: "." or
// elements without "", ".", "..", NUL. Unlike fs.ValidPath it takes names that
// are not UTF-8, since programs make such files.
func ValidName(name string) bool {
	if name == "." {
		return true
	}
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return false
	}
	for elem := range strings.SplitSeq(name, "/") {
		if elem == "" || elem == "." || elem == ".." {
			return false
		}
	}
	return true
}

// FileType says what a directory entry is.
type FileType string

// Types of directory entries.
const (
	TypeFile    FileType = "file"
	TypeDir     FileType = "dir"
	TypeSymlink FileType = "symlink"
	TypeOther   FileType = "other" // FIFO, socket, device: listed, removable, never opened
)

// Info describes a directory entry.
type Info struct {
	Path    string      `json:"path"` // relative to the workspace
	Type    FileType    `json:"type"`
	Size    int64       `json:"size"`
	Mode    fs.FileMode `json:"mode"` // permission bits, as chmod takes them; what others made may have more than MaxMode
	ModTime time.Time   `json:"mtime,omitzero"`
	Target  string      `json:"target,omitempty"` // of a symlink, as it is written there
	Digest  string      `json:"digest,omitempty"` // where it was asked for

	// ChangeToken is other than it was where the entry may have been changed or replaced,
	// whatever times and sizes say: of an inode, its number and when it changed,
	// which programs can't set. It is there where it was asked for and the provider
	// has one, and means nothing else.
	ChangeToken string `json:"changeToken,omitempty"`
}

// Name returns the last element of Path.
func (i Info) Name() string { return i.Path[strings.LastIndexByte(i.Path, '/')+1:] }

// StatOptions are the options of Stat.
type StatOptions struct {
	NoFollow    bool // describe a symlink itself
	Digest      bool // fill Info.Digest of a regular file
	ChangeToken bool // fill Info.Mark, where the provider can
}

// ReadOptions are the options of Read.
type ReadOptions struct {
	Offset int64 // first byte; beyond the end reads as empty
	Limit  int64 // at most so many bytes; 0 is all
}

// WriteOptions are the options of Write.
type WriteOptions struct {
	Mode       fs.FileMode // of a new file, and of an old one where SetMode; 0 is 0o644; see CheckMode
	SetMode    bool        // Mode applies to a file that is replaced, too
	CreateOnly bool        // AlreadyExists if there is anything at name
	IfMatch    string      // Conflict unless the present content has this digest
	Parents    bool        // make missing directories above name
	InPlace    bool        // rewrite the same inode: keeps hard links, is not atomic
	Sync       bool        // on stable storage before it returns
	MaxSize    int64       // ResourceExhausted, and nothing changed, beyond so many bytes; 0 is no limit
	ModTime    time.Time   // of the file; zero is now
}

// WriteResult says what Write did.
type WriteResult struct {
	Info       Info   `json:"info"`
	Digest     string `json:"digest"`               // of the new content
	Created    bool   `json:"created,omitempty"`    // there was no such file before
	BrokeLinks bool   `json:"brokeLinks,omitempty"` // the old file had other hard links, which keep the old content
}

// MkdirOptions are the options of Mkdir.
type MkdirOptions struct {
	Parents bool        // make missing directories above, and accept one that exists
	Mode    fs.FileMode // 0 is 0o755; see CheckMode
}

// RemoveOptions are the options of Remove.
type RemoveOptions struct {
	Recursive bool
}

// RenameOptions are the options of Rename.
type RenameOptions struct {
	CreateOnly bool // AlreadyExists if there is anything at the new name
	Parents    bool // make missing directories above the new name
}

// CopyOptions are the options of Copy.
type CopyOptions struct {
	Recursive  bool // a directory with all below it; symlinks are copied as such
	CreateOnly bool
	Parents    bool
}

// A ChangedPath is a place where a workspace may differ from what it started from.
type ChangedPath struct {
	Path string

	// Replaced says that nothing which was at Path or below it shows any more: there
	// is something else now, or nothing. Otherwise Path is a directory, and what
	// differs below it is listed as well.
	Replaced bool
}

// ListOptions are the options of List.
type ListOptions struct {
	Depth       int    // levels below name; 0 is 1, and -1 is all
	Limit       int    // at most so many entries in a page; 0 is 1000, and MaxListLimit the most
	After       string // the Next of the page before
	ChangeToken bool   // fill Info.Mark, where the provider can
}

// Listing is one page of List, parents before children, siblings sorted by name.
type Listing struct {
	Entries []Info `json:"entries"`
	Next    string `json:"next,omitempty"` // where the next page begins; "" on the last
}

// GlobOptions are the options of Glob.
type GlobOptions struct {
	Path      string // directory where the pattern starts; "" is the workspace
	GitIgnore bool   // leave out what .gitignore files say, and .git
	Hidden    bool   // match names that start with a dot, too
	Dirs      bool   // list directories as well as files and symlinks
	Stat      bool   // fill size, mode and time; otherwise only path and type
	Limit     int    // at most so many; 0 is MaxGlobLimit, which is the most
}

// The most that ListOptions.Limit and GlobOptions.Limit may be; beyond is
// InvalidArgument.
const (
	MaxListLimit = 100_000
	MaxGlobLimit = 1_000_000
)

// GlobResult is what Glob found, sorted by path.
type GlobResult struct {
	Entries   []Info `json:"entries"`
	Truncated bool   `json:"truncated,omitempty"` // Limit was reached
}

// GrepOptions are the options of Grep.
type GrepOptions struct {
	Path        string        // a file, or a directory to search below; "" is the workspace
	Literal     bool          // the pattern is text, not a regular expression
	IgnoreCase  bool          //
	Multiline   bool          // a match may span lines, and . matches newlines
	Include     []string      // globs; with any, only files that match one are searched
	Exclude     []string      // globs; files that match one are not searched
	GitIgnore   bool          // leave out what .gitignore files say, and .git
	Hidden      bool          // search files and directories whose name starts with a dot, too
	Before      int           // lines of context before a match; MaxContext at most
	After       int           // and after; MaxContext at most
	MaxPerFile  int           // matches per file; 0 is no limit
	MaxMatches  int           // matches in all; 0 is 10,000, and 1,000,000 the most
	MaxFileSize int64         // larger files are skipped and listed; 0 is 10 MiB, -1 the most, which is 512 MiB
	MaxTime     time.Duration // for the whole search; 0 is no limit
}

// Defaults of GrepOptions.
const (
	DefaultMaxMatches  = 10_000
	DefaultMaxFileSize = 10 << 20
)

// What one Grep may ask for and answer, so that none exhausts the memory of
// whoever runs it. Options beyond the first two are InvalidArgument; larger files
// are skipped as too big; what exceeds the others is cut, and the answer says so.
const (
	MaxContext      = 1000      // lines before, and lines after a match
	MaxGrepMatches  = 1_000_000 // matches in all
	MaxGrepFileSize = 512 << 20 // bytes of one file
	MaxMatchText    = 64 << 10  // bytes of Match.Text, and of each line of context
	MaxMatchContext = 1 << 20   // bytes of all context of one match
	MaxGrepBytes    = 16 << 20  // bytes of all matches, with what it takes to hold them
)

// GrepResult is what Grep found, sorted by path and line, and what it did not
// look at, so that "no match" differs from "not searched".
type GrepResult struct {
	Matches   []Match `json:"matches"`
	Skipped   []Skip  `json:"skipped,omitempty"`      // the first MaxSkipsListed of them
	Skips     int     `json:"skippedTotal,omitempty"` // how many there were
	Searched  int     `json:"searched"`               // files whose content was searched
	Truncated string  `json:"truncated,omitempty"`    // why it ended early: "matches", "time" or "size" (MaxGrepBytes)
}

// MaxSkipsListed bounds GrepResult.Skipped.
const MaxSkipsListed = 1000

// A Match is one line that matches, or the lines of one match with Multiline.
// Cut says that it is not all of it: Text or a line of context was cut after
// MaxMatchText bytes, between two characters, or there is less context than asked
// for because it exceeds MaxMatchContext. Column may lie behind a text that was cut.
type Match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`   // 1-based
	Column int      `json:"column"` // 1-based, in bytes, of the first match in the line
	Text   string   `json:"text"`   // without its line ending
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
	Cut    bool     `json:"cut,omitempty"`
}

// A Skip is a file or directory that an operation left out, and why: Grep did not
// search it, or it is not in a snapshot.
type Skip struct {
	Path   string     `json:"path"`
	Reason SkipReason `json:"reason"`
}

// SkipReason says why a file was left out.
type SkipReason string

// Reasons to leave a file out. What the caller excluded is not listed.
const (
	SkipTooBig     SkipReason = "too big"
	SkipBinary     SkipReason = "binary"
	SkipTime       SkipReason = "time"
	SkipUnreadable SkipReason = "unreadable"
	SkipVanished   SkipReason = "vanished" // or replaced by something else since it was listed
)

// WatchOptions are the options of Watch.
type WatchOptions struct {
	Recursive bool
	Debounce  time.Duration // changes within it are one batch; 0 is 50 ms
}

// A Watcher yields changes in batches until it is closed. What happened before
// Watch returned is not reported.
type Watcher interface {
	// Next waits for a batch. After Close it answers io.EOF.
	Next(ctx context.Context) (Changes, error)
	Close() error
}

// Changes is one batch: a path is listed once, with the latest that happened.
type Changes struct {
	Changes  []Change `json:"changes"`
	Overflow bool     `json:"overflow,omitempty"` // changes were lost: look at everything again
}

// A Change is one path that changed.
type Change struct {
	Path string   `json:"path"`
	Op   ChangeOp `json:"op"`
}

// ChangeOp says what happened to a path.
type ChangeOp string

// What happens to paths. A rename is a remove and a create.
const (
	OpCreate ChangeOp = "create"
	OpWrite  ChangeOp = "write"
	OpRemove ChangeOp = "remove"
	OpChmod  ChangeOp = "chmod"
)
