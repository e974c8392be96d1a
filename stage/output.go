package stage

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
)

// An OutputSpec says what to take out of a workspace.
type OutputSpec struct {
	Globs         []string `json:"globs"`                     // none is out/**
	MaxFiles      int      `json:"max_files,omitempty"`       // 0 is 100
	MaxFileBytes  int64    `json:"max_file_bytes,omitempty"`  // of each; 0 is 4 MiB
	MaxTotalBytes int64    `json:"max_total_bytes,omitempty"` // of all; 0 is 64 MiB
	Save          bool     `json:"save,omitempty"`            // as artifacts
	NameTemplate  string   `json:"name_template,omitempty"`   // of artifacts; see Naming
	Inline        bool     `json:"inline,omitempty"`          // content in the manifest
}

// Defaults of OutputSpec.
const (
	DefaultMaxFiles      = 100
	DefaultMaxFileBytes  = 4 << 20
	DefaultMaxTotalBytes = 64 << 20
)

// UnmarshalJSON takes keys in snake case (max_files) and as Go spells them
// (MaxFiles); the former win.
func (s *OutputSpec) UnmarshalJSON(data []byte) error {
	type snake OutputSpec // which has json's own way
	var spelled struct {  // as Go does; the same fields in the same order
		Globs         []string
		MaxFiles      int
		MaxFileBytes  int64
		MaxTotalBytes int64
		Save          bool
		NameTemplate  string
		Inline        bool
	}
	err := json.Unmarshal(data, &spelled)
	out := snake(spelled)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return fmt.Errorf("stage: output spec: %w: %w", fault.InvalidArgument, err)
	}
	*s = OutputSpec(out)
	return nil
}

// limits returns the spec with its defaults, after judging it.
func (s OutputSpec) limits() (OutputSpec, error) {
	if s.MaxFiles < 0 || s.MaxFileBytes < 0 || s.MaxTotalBytes < 0 {
		return s, fmt.Errorf("stage: output spec: %w: limits must not be negative", fault.InvalidArgument)
	}
	if s.MaxFiles == 0 {
		s.MaxFiles = DefaultMaxFiles
	}
	if s.MaxFileBytes == 0 {
		s.MaxFileBytes = DefaultMaxFileBytes
	}
	if s.MaxTotalBytes == 0 {
		s.MaxTotalBytes = DefaultMaxTotalBytes
	}
	return s, nil
}

// A Manifest is what was collected.
type Manifest struct {
	Files     []FileRef `json:"files"`
	LimitsHit bool      `json:"limits_hit"`        // something was cut or left out because of a limit
	Skipped   []Skipped `json:"skipped,omitempty"` // what matches, but could not be taken: the first MaxSkipped
	Skips     int       `json:"skips,omitempty"`   // how many of these there are
	Left      int       `json:"left,omitempty"`    // how many matches there were beyond the limits
}

// MaxSkipped is how much a manifest says of what could not be taken.
const MaxSkipped = 100

// A FileRef is one file of a manifest.
type FileRef struct {
	Name      string `json:"name"` // path in the workspace
	MIMEType  string `json:"mime_type"`
	Content   string `json:"-"` // of Inline, as it is; JSON has it under content, or content_base64 where it is not UTF-8
	SavedAs   string `json:"saved_as,omitempty"`
	Version   int    `json:"version"`
	SizeBytes int64  `json:"size_bytes"`          // of the file
	Truncated bool   `json:"truncated,omitempty"` // Content is its beginning
	Error     string `json:"error,omitempty"`     // why it was not saved
}

// MarshalJSON adds the content in a form that JSON can hold.
func (f FileRef) MarshalJSON() ([]byte, error) {
	type plain FileRef
	out := struct {
		plain
		Content string `json:"content,omitempty"`
		Base64  string `json:"content_base64,omitempty"`
	}{plain: plain(f)}
	if utf8.ValidString(f.Content) {
		out.Content = f.Content
	} else {
		out.Base64 = base64.StdEncoding.EncodeToString([]byte(f.Content))
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the way back.
func (f *FileRef) UnmarshalJSON(data []byte) error {
	type plain FileRef
	var in struct {
		plain
		Content string `json:"content"`
		Base64  []byte `json:"content_base64"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*f = FileRef(in.plain)
	if f.Content = in.Content; len(in.Base64) > 0 {
		f.Content = string(in.Base64)
	}
	return nil
}

// Skipped is a match that could not be taken.
type Skipped struct {
	Name   string     `json:"name"`
	Code   fault.Code `json:"code"`
	Reason string     `json:"reason"`
}
