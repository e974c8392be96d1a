package stage

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
)

// An OutputSpec says what to collect.
type OutputSpec struct {
	Globs         []string `json:"globs"`                     // default: out/**
	MaxFiles      int      `json:"max_files,omitempty"`       // 0 is 100
	MaxFileBytes  int64    `json:"max_file_bytes,omitempty"`  // per file; 0 is 4 MiB, or no limit if nothing is inlined or saved
	MaxTotalBytes int64    `json:"max_total_bytes,omitempty"` // in total; 0 is 64 MiB, or no limit if nothing is inlined or saved
	Save          bool     `json:"save,omitempty"`            // save as artifacts
	NameTemplate  string   `json:"name_template,omitempty"`   // for artifacts; see Naming
	Inline        bool     `json:"inline,omitempty"`          // return content in the manifest
}

// Defaults of OutputSpec.
const (
	DefaultMaxFiles      = 100
	DefaultMaxFileBytes  = 4 << 20
	DefaultMaxTotalBytes = 64 << 20
)

// UnmarshalJSON accepts keys in snake case (max_files) and as Go spells them
// (MaxFiles); snake case has precedence.
func (s *OutputSpec) UnmarshalJSON(data []byte) error {
	type snake OutputSpec // without this method
	var spelled struct {  // as Go spells them; the same fields in the same order
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

// withDefaults validates the spec and returns it with defaults.
func (s OutputSpec) withDefaults() (OutputSpec, error) {
	if s.MaxFiles < 0 || s.MaxFileBytes < 0 || s.MaxTotalBytes < 0 {
		return s, fmt.Errorf("stage: output spec: %w: limits must not be negative", fault.InvalidArgument)
	}
	if s.MaxFiles == 0 {
		s.MaxFiles = DefaultMaxFiles
	}
	const none = math.MaxInt64 - 1 // one byte more is read to detect a larger file
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

// A Manifest lists what was collected.
type Manifest struct {
	Files     []FileRef `json:"files"`
	LimitsHit bool      `json:"limits_hit"`           // content was truncated or left out because of a limit
	Skipped   []Skipped `json:"skipped,omitempty"`    // matches that could not be collected: the first MaxSkipped
	Skips     int       `json:"skips,omitempty"`      // number of all skipped matches
	Left      int       `json:"left,omitempty"`       // number of matches beyond the limits
	SearchCut bool      `json:"search_cut,omitempty"` // more files match than a search returns; how many is unknown
}

// LeftOut returns a line about the matches that are not in Files, or whose content is
// truncated, "" if there are none.
func (m Manifest) LeftOut() string {
	cut := 0
	for _, f := range m.Files {
		if f.Truncated {
			cut++
		}
	}
	var parts []string
	if cut > 0 {
		parts = append(parts, fmt.Sprintf("files truncated at the limit: %d", cut))
	}
	if m.Left > 0 {
		parts = append(parts, fmt.Sprintf("files beyond the limits: %d", m.Left))
	}
	if m.SearchCut {
		parts = append(parts, "more files match than the search returns")
	}
	if m.Skips > 0 {
		parts = append(parts, fmt.Sprintf("files that could not be read: %d, the first is %s: %s", m.Skips, m.Skipped[0].Name, m.Skipped[0].Reason))
	}
	return strings.Join(parts, "; ")
}

// MaxSkipped bounds Manifest.Skipped.
const MaxSkipped = 100

// A FileRef is one file of a manifest.
type FileRef struct {
	Name      string `json:"name"` // path in the workspace; JSON also has nameB64 if it is not UTF-8
	MIMEType  string `json:"mime_type"`
	Content   string `json:"-"` // of Inline; JSON has content, or contentB64 if it is not UTF-8
	SavedAs   string `json:"saved_as,omitempty"`
	Version   int    `json:"version"`
	SizeBytes int64  `json:"size_bytes"`          // size of the file
	Truncated bool   `json:"truncated,omitempty"` // the file exceeds the limits, so Content is its beginning
	Error     string `json:"error,omitempty"`     // why the file was not saved or written
}

// MarshalJSON adds the content in base64 if it is not UTF-8, and likewise the name.
func (f FileRef) MarshalJSON() ([]byte, error) {
	type plain FileRef
	out := struct {
		plain
		NameB64    []byte `json:"nameB64,omitempty"`
		Content    string `json:"content,omitempty"`
		ContentB64 []byte `json:"contentB64,omitempty"`
	}{plain: plain(f)}
	out.NameB64 = bytesIfNotUTF8(f.Name)
	if out.ContentB64 = bytesIfNotUTF8(f.Content); out.ContentB64 == nil {
		out.Content = f.Content
	}
	return json.Marshal(out)
}

// bytesIfNotUTF8 returns the bytes of a text that is not UTF-8.
func bytesIfNotUTF8(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// UnmarshalJSON is the inverse of MarshalJSON.
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

// Skipped is a match that could not be collected, or a pattern that is not valid, leaves
// the workspace, or has a path that can't be followed.
type Skipped struct {
	Name   string     `json:"name"`
	Code   fault.Code `json:"code"`
	Reason string     `json:"reason"`
}
