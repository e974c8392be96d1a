package stage

import (
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
)

// An OutputSpec says what to take out of a workspace.
type OutputSpec struct {
	Globs         []string `json:"globs"`                     // none is out/**
	MaxFiles      int      `json:"max_files,omitempty"`       // 0 is 100
	MaxFileBytes  int64    `json:"max_file_bytes,omitempty"`  // of each; 0 is 4 MiB, or none where nothing is inlined or saved
	MaxTotalBytes int64    `json:"max_total_bytes,omitempty"` // of all; 0 is 64 MiB, likewise
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
	const none = math.MaxInt64 - 1 // one more is read to see that there is more
	ofFile, ofAll := int64(DefaultMaxFileBytes), int64(DefaultMaxTotalBytes)
	if !s.Inline && !s.Save {
		ofFile, ofAll = none, none
	}
	if s.MaxFileBytes == 0 {
		s.MaxFileBytes = ofFile
	}
	if s.MaxTotalBytes == 0 {
		s.MaxTotalBytes = ofAll
	}
	s.MaxFileBytes, s.MaxTotalBytes = min(s.MaxFileBytes, none), min(s.MaxTotalBytes, none)
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
	Name      string `json:"name"` // path in the workspace; JSON has nameB64, too, where it is not UTF-8
	MIMEType  string `json:"mime_type"`
	Content   string `json:"-"` // of Inline, as it is; JSON has it under content, or contentB64 where it is not UTF-8
	SavedAs   string `json:"saved_as,omitempty"`
	Version   int    `json:"version"`
	SizeBytes int64  `json:"size_bytes"`          // of the file
	Truncated bool   `json:"truncated,omitempty"` // it is larger than the limits, so Content is its beginning
	Error     string `json:"error,omitempty"`     // why it was not saved or written
}

// MarshalJSON adds the content in a form that JSON can hold, and the bytes of a name
// that it can't.
func (f FileRef) MarshalJSON() ([]byte, error) {
	type plain FileRef
	out := struct {
		plain
		NameB64    []byte `json:"nameB64,omitempty"`
		Content    string `json:"content,omitempty"`
		ContentB64 []byte `json:"contentB64,omitempty"`
	}{plain: plain(f)}
	out.NameB64 = odd(f.Name)
	if out.ContentB64 = odd(f.Content); out.ContentB64 == nil {
		out.Content = f.Content
	}
	return json.Marshal(out)
}

// odd returns the bytes of a text that is not UTF-8.
func odd(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// UnmarshalJSON is the way back.
func (f *FileRef) UnmarshalJSON(data []byte) error {
	type plain FileRef
	var in struct {
		plain
		NameB64    []byte `json:"nameB64"`
		Content    string `json:"content"`
		ContentB64 []byte `json:"contentB64"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*f = FileRef(in.plain)
	if f.Content = in.Content; len(in.ContentB64) > 0 {
		f.Content = string(in.ContentB64)
	}
	if len(in.NameB64) > 0 {
		f.Name = string(in.NameB64)
	}
	return nil
}

// Skipped is a match that could not be taken, or a pattern that leads through
// something that can't be passed.
type Skipped struct {
	Name   string     `json:"name"`
	Code   fault.Code `json:"code"`
	Reason string     `json:"reason"`
}
