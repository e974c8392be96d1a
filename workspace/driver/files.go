package driver

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"time"
)

// FS is the module for files. Files is required. Where a function is nil, package
// workspace does the same with Files alone, or returns Unsupported where that is
// impossible (Symlink, Chmod, Xattrs, SetXattrs, Watch).
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

	// Chmod sets the permission bits of a file or directory. It never follows a
	// symlink out of the workspace.
	Chmod func(ctx context.Context, name string, mode fs.FileMode) error

	// Xattrs returns the extended attributes user.* of a file or directory whose names
	// start with prefix, by the rest of their names. "user." is not part of prefix.
	Xattrs func(ctx context.Context, name, prefix string) (map[string]string, error)

	// SetXattrs replaces the extended attributes that Xattrs returns for prefix.
	SetXattrs func(ctx context.Context, name, prefix string, attrs map[string]string) error

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

	// Import copies or mounts the directory dir of this host, an absolute path, to
	// name, which must not exist. It is all or nothing. Unsupported means that
	// Import changed nothing; package workspace then copies with Write.
	Import func(ctx context.Context, dir, name string, opts *ImportOptions) (ImportResult, error)

	// Protect makes name, which was imported read-only, impossible to make writable
	// again: processes of the workspace can't undo it with chmod. Unsupported means
	// that the permission bits are the only protection.
	Protect func(ctx context.Context, name string) error

	// ChangedPaths lists the paths where the workspace may differ from the template or
	// snapshot that it started with (on overlayfs: what the upper layer has). All other paths are unchanged.
	// Unsupported means that the caller must compare the whole tree.
	ChangedPaths func(ctx context.Context) ([]ChangedPath, error)

	// GitDirs lists the private copies of Git directories that a workspace in place
	// uses instead of the host's. nil, or an empty list, means that there are no
	// private copies: a .git in the workspace is an ordinary directory.
	GitDirs func(ctx context.Context) ([]GitDir, error)
}

func (f *FS) core() any {
	if f == nil {
		return nil
	}
	return f.Files
}

// Files is the required part of FS. A missing path is an error (NotFound), and
// recursion is opt-in. Symlinks that stay inside the workspace are followed, except by
// ReadDir and Remove; a symlink that leaves it is a SandboxViolation.
type Files interface {
	// Stat describes name.
	Stat(ctx context.Context, name string, opts *StatOptions) (Info, error)

	// ReadDir lists the directory name, one level, sorted by name. Symlinks
	// are listed as such.
	ReadDir(ctx context.Context, name string) ([]Info, error)

	// Read opens the file name for reading. The Info describes the opened file
	// (fstat, so there is no TOCTOU race). Read refuses anything but a regular file
	// and never blocks on a FIFO.
	Read(ctx context.Context, name string, opts *ReadOptions) (io.ReadCloser, Info, error)

	// Write creates or replaces the file name with the content of body. It is
	// atomic unless opts.InPlace: every reader sees the old or the new content,
	// also after a crash. Mode, owner and extended attributes of a replaced file
	// are kept. If body fails, nothing changes.
	Write(ctx context.Context, name string, body io.Reader, opts *WriteOptions) (WriteResult, error)

	// Mkdir makes a directory.
	Mkdir(ctx context.Context, name string, opts *MkdirOptions) error

	// Remove removes a file, a symlink (not its target), or a directory, which
	// must be empty unless opts.Recursive. The workspace itself stays.
	Remove(ctx context.Context, name string, opts *RemoveOptions) error
}

// ValidName reports whether name is a cleaned slash path, as drivers get them: "." or
// elements that are not "", "." or ".." and have no NUL. Unlike fs.ValidPath it accepts
// names that are not UTF-8, because programs create such files.
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
	Mode    fs.FileMode `json:"mode"` // permission bits, as chmod takes them; files made outside Croft may have bits beyond MaxMode
	ModTime time.Time   `json:"mtime,omitzero"`
	Target  string      `json:"target,omitempty"` // of a symlink, as readlink returns it
	Digest  string      `json:"digest,omitempty"` // set only if requested

	// ChangeToken is an opaque value that differs whenever the entry may have been
	// modified or replaced (on POSIX: inode number and ctime, which programs cannot
	// set). Compare for equality only. It is set only if requested and supported.
	ChangeToken string `json:"changeToken,omitempty"`
}

// Name returns the last element of Path.
func (i Info) Name() string { return i.Path[strings.LastIndexByte(i.Path, '/')+1:] }

// StatOptions are the options of Stat.
type StatOptions struct {
	NoFollow    bool // describe a symlink itself
	Digest      bool // fill Info.Digest of a regular file
	ChangeToken bool // fill Info.ChangeToken, if the provider supports it
}

// ReadOptions are the options of Read. Info.Size of the answer is the size of the whole file: a reader that
// got fewer bytes has a part of it, and must not write it back.
type ReadOptions struct {
	Offset int64 // first byte; beyond the end reads as empty
	Limit  int64 // maximum number of bytes; 0 is all
}

// WriteOptions are the options of Write.
type WriteOptions struct {
	Mode       fs.FileMode // of a new file, and of a replaced one with SetMode; 0 is 0o644; see CheckMode
	SetMode    bool        // set Mode on a file that is replaced, too
	CreateOnly bool        // fail with AlreadyExists if name exists
	IfMatch    string      // Conflict unless the present content has this digest
	Parents    bool        // create missing parent directories
	InPlace    bool        // rewrite the same inode: keeps hard links, is not atomic
	Sync       bool        // fsync before Write returns
	MaxSize    int64       // ResourceExhausted, and nothing changed, beyond this many bytes; 0 is no limit
	ModTime    time.Time   // modification time of the file; zero is the present time
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
	Parents bool        // create missing parent directories, and accept an existing directory
	Mode    fs.FileMode // 0 is 0o755; see CheckMode
}

// RemoveOptions are the options of Remove.
type RemoveOptions struct {
	Recursive bool
}

// RenameOptions are the options of Rename.
type RenameOptions struct {
	CreateOnly bool // fail with AlreadyExists if the new name exists
	Parents    bool // create missing parent directories of the new name
}

// CopyOptions are the options of Copy.
type CopyOptions struct {
	Recursive  bool // copy a directory with its tree; symlinks are copied as symlinks
	CreateOnly bool
	Parents    bool
}

// A ChangedPath is a path where a workspace may differ from its template.
type ChangedPath struct {
	Path string

	// Replaced means that Path of the template, with its tree, was removed or
	// replaced. If false, Path is a directory of both, and changed paths below it are
	// listed separately.
	Replaced bool
}

// A GitDir is a private copy of a Git directory of the host, made when the workspace
// started. Paths are absolute paths of this host. Processes of the workspace write Dir:
// its configuration, hooks, attributes, refs and symlinks are not to be trusted, so no
// git may run with Dir as its repository. Take objects and refs from it as data.
type GitDir struct {
	Path string `json:"path"` // of the .git (a directory or a file) that the copy stands for
	Host string `json:"host"` // the Git directory of the host that was copied (of a linked worktree: the common directory)
	Dir  string `json:"dir"`  // the private copy; new objects are in Dir/objects

	// Objects is a directory of objects, as objects in a Git directory is one, that
	// processes of the workspace can't write: what the host had when the copy was
	// made. Inside it is an alternate of Dir/objects, under another path.
	Objects string `json:"objects"`

	// Worktree is the name of the linked worktree, if Path belongs to one: its HEAD is
	// Dir/worktrees/NAME/HEAD.
	Worktree string `json:"worktree,omitempty"`
}

// ListOptions are the options of List.
type ListOptions struct {
	Depth       int    // levels below name; 0 is 1, and -1 is all
	Limit       int    // maximum entries per page, up to MaxListLimit; 0 is 1000
	After       string // Listing.Next of the previous page
	ChangeToken bool   // fill Info.ChangeToken, if the provider supports it
}

// Listing is one page of List, parents before children, siblings sorted by name.
type Listing struct {
	Entries []Info `json:"entries"`
	Next    string `json:"next,omitempty"` // ListOptions.After of the next page; "" on the last
}

// GlobOptions are the options of Glob.
type GlobOptions struct {
	Path      string // directory where the pattern starts; "" is the workspace
	GitIgnore bool   // leave out .git and what .gitignore files list
	Hidden    bool   // match names that start with a dot, too
	Dirs      bool   // list directories as well as files and symlinks
	Stat      bool   // fill size, mode and time; otherwise only path and type
	Limit     int    // maximum entries, up to MaxGlobLimit; 0 is MaxGlobLimit
}

// Maximum values of ListOptions.Limit and GlobOptions.Limit. A larger value is
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
	IgnoreCase  bool          // match without regard to upper and lower case
	Multiline   bool          // a match may span lines, and . matches newlines
	Include     []string      // globs; with any, only files that match one are searched
	Exclude     []string      // globs; files that match one are not searched
	GitIgnore   bool          // leave out .git and what .gitignore files list
	Hidden      bool          // search files and directories whose name starts with a dot, too
	Before      int           // lines of context before a match, up to MaxContext
	After       int           // lines of context after a match, up to MaxContext
	MaxPerFile  int           // matches per file; 0 is no limit
	MaxMatches  int           // matches in total, up to MaxGrepMatches; 0 is DefaultMaxMatches
	MaxFileSize int64         // larger files are skipped and listed; 0 is DefaultMaxFileSize, -1 is MaxGrepFileSize
	MaxTime     time.Duration // for the whole search; 0 is no limit
}

// Defaults of GrepOptions.
const (
	DefaultMaxMatches  = 10_000
	DefaultMaxFileSize = 10 << 20
)

// Bounds of one Grep, so that a search can't exhaust the memory of the process that
// runs it. Options beyond the first two are InvalidArgument; larger files are skipped
// as too big; a result beyond the other bounds is truncated and marked so.
const (
	MaxContext      = 1000      // lines before, and lines after a match
	MaxGrepMatches  = 1_000_000 // matches in total
	MaxGrepFileSize = 512 << 20 // bytes of one file
	MaxMatchText    = 64 << 10  // bytes of Match.Text, and of each line of context
	MaxMatchContext = 1 << 20   // bytes of all context of one match
	MaxGrepBytes    = 16 << 20  // bytes of all matches, with their memory overhead
)

// GrepResult is what Grep found, sorted by path and line, and what Grep did not
// search, so that "no match" differs from "not searched".
type GrepResult struct {
	Matches   []Match `json:"matches"`
	Skipped   []Skip  `json:"skipped,omitempty"`      // the first MaxSkipsListed skipped files
	Skips     int     `json:"skippedTotal,omitempty"` // number of all skipped files
	Searched  int     `json:"searched"`               // files whose content was searched
	Truncated string  `json:"truncated,omitempty"`    // why the search ended early: "matches", "time" or "size" (MaxGrepBytes)
}

// MaxSkipsListed bounds GrepResult.Skipped.
const MaxSkipsListed = 1000

// A Match is one line that matches, or the lines of one match with Multiline.
// Cut means that the match is incomplete: Text or a line of context was truncated to
// MaxMatchText bytes, between two characters, or context beyond MaxMatchContext was
// dropped. Column may lie beyond a truncated Text.
type Match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`   // 1-based
	Column int      `json:"column"` // 1-based, in bytes, of the first match in the line
	Text   string   `json:"text"`   // without its line ending
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
	Cut    bool     `json:"cut,omitempty"`
}

// A Skip is a file or directory that Grep did not search or that a snapshot lacks,
// and why.
type Skip struct {
	Path   string     `json:"path"`
	Reason SkipReason `json:"reason"`
}

// SkipReason says why a file was left out.
type SkipReason string

// Reasons to leave a file out. Files that the caller excluded are not listed.
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
	Debounce  time.Duration // changes within this time are one batch; 0 is 50 ms
}

// A Watcher yields changes in batches until it is closed. Changes before Watch
// returned are not reported.
type Watcher interface {
	// Next waits for a batch. After Close it returns io.EOF.
	Next(ctx context.Context) (Changes, error)
	Close() error
}

// Changes is one batch: each path is listed once, with its latest change.
type Changes struct {
	Changes  []Change `json:"changes"`
	Overflow bool     `json:"overflow,omitempty"` // changes were lost: the caller must rescan
}

// A Change is one path that changed.
type Change struct {
	Path string   `json:"path"`
	Op   ChangeOp `json:"op"`

	// Moved says of a removal that the entry was given another name, inside or outside of what
	// is watched. A watcher that can't tell leaves it false.
	Moved bool `json:"moved,omitempty"`
}

// ChangeOp is the kind of a change.
type ChangeOp string

// Kinds of changes. A rename is a remove and a create.
const (
	OpCreate ChangeOp = "create"
	OpWrite  ChangeOp = "write"
	OpRemove ChangeOp = "remove"
	OpChmod  ChangeOp = "chmod"
)
