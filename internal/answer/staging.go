package answer

import (
	"strconv"
	"time"
)

// Metadata is the state of staging of a workspace: what was staged, collected and
// prepared.
type Metadata struct {
	Version    int                       `json:"version"`
	CreatedAt  time.Time                 `json:"created_at"`
	UpdatedAt  time.Time                 `json:"updated_at"`
	LastAccess time.Time                 `json:"last_access"`
	Skills     map[string]SkillMeta      `json:"skills"`
	Inputs     []InputRecord             `json:"inputs,omitempty"`
	Outputs    []OutputRecord            `json:"outputs,omitempty"`
	Prepared   map[string]PreparedRecord `json:"prepared,omitempty"`

	// Pending is the journal of a transaction: its temporary paths.
	Pending []TempPath `json:"pending,omitempty"`

	// Copied means that metadata.json in the workspace is our copy, and not a file of
	// the user.
	Copied bool `json:"copied,omitempty"`
}

// SkillMeta describes a staged skill.
type SkillMeta struct {
	Name     string    `json:"name"`
	RelPath  string    `json:"rel_path"`
	Digest   string    `json:"digest"`
	Mounted  bool      `json:"mounted"`
	StagedAt time.Time `json:"staged_at"`
}

// An InputRecord says how an input was staged.
type InputRecord struct {
	From      string    `json:"from"`
	To        string    `json:"to"`
	Resolved  string    `json:"resolved,omitempty"`
	Version   *int      `json:"version,omitempty"`
	Mode      string    `json:"mode,omitempty"` // mode that was used
	Timestamp time.Time `json:"ts"`
}

// An OutputRecord describes one collection.
type OutputRecord struct {
	Globs     []string  `json:"globs"`
	SavedAs   []string  `json:"saved_as,omitempty"`
	Versions  []int     `json:"versions,omitempty"`
	LimitsHit bool      `json:"limits_hit"`
	Timestamp time.Time `json:"ts"`
}

// A PreparedRecord describes an entry that package bootstrap prepared.
type PreparedRecord struct {
	Key         string    `json:"key"`
	Kind        string    `json:"kind"`
	Fingerprint string    `json:"fingerprint"`
	Target      string    `json:"target,omitempty"`
	PreparedAt  time.Time `json:"prepared_at"`

	// Seen is the fingerprint of the result. While it is equal, the result is not
	// read again.
	Seen string `json:"seen,omitempty"`

	// Source is the fingerprint of the source, and Digest the digest of the source at
	// that time.
	Source string `json:"source,omitempty"`
	Digest string `json:"digest,omitempty"`

	// Made lists the created paths, if there are more than Target, in a format of
	// package bootstrap.
	Made string `json:"made,omitempty"`

	// Warning says why an optional entry could not be prepared.
	Warning string `json:"warning,omitempty"`
}

// A TempPath is a temporary path that a transaction uses beside a target.
type TempPath struct {
	Path   string `json:"path"`
	Target string `json:"target"`
	Old    bool   `json:"old,omitempty"`  // it is the former content of Target
	Done   bool   `json:"done,omitempty"` // the transaction is committed, so the path must be removed
}

// An Artifact describes a version.
type Artifact struct {
	Name    string    `json:"name"`
	Version int       `json:"version"`
	MIME    string    `json:"mime_type"`
	Size    int64     `json:"size_bytes"`
	Created time.Time `json:"created_at"`
}

// Ref returns the artifact in the form of Input.From: "artifact://name@version".
func (a Artifact) Ref() string {
	return "artifact://" + a.Name + "@" + strconv.Itoa(a.Version)
}

// A WorkspaceArtifact is an artifact with its workspace.
type WorkspaceArtifact struct {
	Workspace string `json:"workspace" doc:"id of the workspace, which may be gone"`
	Artifact
}
