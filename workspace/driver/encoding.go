package driver

import (
	"encoding/json"
	"unicode/utf8"
)

// File names, link targets and lines of text are bytes, but JSON strings are UTF-8.
// Where such a value is not UTF-8, the usual key has a readable form, with U+FFFD for
// each invalid byte, and an additional key with the suffix B64 has the bytes in
// base64. A reader that knows the B64 key loses nothing.

// bytesIfNotUTF8 returns s as bytes if it is not UTF-8, and nil if it is.
func bytesIfNotUTF8(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// linesIfNotUTF8 returns all lines as bytes if one of them is not UTF-8.
func linesIfNotUTF8(lines []string) [][]byte {
	for _, line := range lines {
		if !utf8.ValidString(line) {
			raw := make([][]byte, len(lines))
			for i := range lines {
				raw[i] = []byte(lines[i])
			}
			return raw
		}
	}
	return nil
}

// setFromBytes overwrites *s with raw, unless raw is nil.
func setFromBytes(s *string, raw []byte) {
	if raw != nil {
		*s = string(raw)
	}
}

func setLinesFromBytes(lines *[]string, raw [][]byte) {
	if raw == nil {
		return
	}
	*lines = make([]string, len(raw))
	for i := range raw {
		(*lines)[i] = string(raw[i])
	}
}

// MarshalJSON adds pathB64 and targetB64 where path or target are not UTF-8. It
// leaves out size and mode of an entry without stat data (a match of Glob without
// Stat).
func (i Info) MarshalJSON() ([]byte, error) {
	type plain Info
	path, target := bytesIfNotUTF8(i.Path), bytesIfNotUTF8(i.Target)
	if i.Size == 0 && i.Mode == 0 && i.ModTime.IsZero() {
		return json.Marshal(struct {
			plain
			Size      int64  `json:"size,omitempty"` // hides that of plain, as Mode does
			Mode      int64  `json:"mode,omitempty"`
			PathB64   []byte `json:"pathB64,omitempty"`
			TargetB64 []byte `json:"targetB64,omitempty"`
		}{plain: plain(i), PathB64: path, TargetB64: target})
	}
	if path == nil && target == nil {
		return json.Marshal(plain(i))
	}
	return json.Marshal(struct {
		plain
		PathB64   []byte `json:"pathB64,omitempty"`
		TargetB64 []byte `json:"targetB64,omitempty"`
	}{plain(i), path, target})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (i *Info) UnmarshalJSON(data []byte) error {
	type plain Info
	v := struct {
		*plain
		PathB64   []byte `json:"pathB64"`
		TargetB64 []byte `json:"targetB64"`
	}{plain: (*plain)(i)}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	setFromBytes(&i.Path, v.PathB64)
	setFromBytes(&i.Target, v.TargetB64)
	return nil
}

// MarshalJSON adds nextB64 where next is not UTF-8.
func (l Listing) MarshalJSON() ([]byte, error) {
	type plain Listing
	return json.Marshal(struct {
		plain
		NextB64 []byte `json:"nextB64,omitempty"`
	}{plain(l), bytesIfNotUTF8(l.Next)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Listing) UnmarshalJSON(data []byte) error {
	type plain Listing
	v := struct {
		*plain
		NextB64 []byte `json:"nextB64"`
	}{plain: (*plain)(l)}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	setFromBytes(&l.Next, v.NextB64)
	return nil
}

// matchBytes are the keys that a Match gains where its text is not UTF-8.
type matchBytes struct {
	PathB64   []byte   `json:"pathB64,omitempty"`
	TextB64   []byte   `json:"textB64,omitempty"`
	BeforeB64 [][]byte `json:"beforeB64,omitempty"`
	AfterB64  [][]byte `json:"afterB64,omitempty"`
}

// MarshalJSON adds pathB64, textB64, beforeB64 and afterB64 where these are not UTF-8.
func (m Match) MarshalJSON() ([]byte, error) {
	type plain Match
	return json.Marshal(struct {
		plain
		matchBytes
	}{plain(m), matchBytes{bytesIfNotUTF8(m.Path), bytesIfNotUTF8(m.Text), linesIfNotUTF8(m.Before), linesIfNotUTF8(m.After)}})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (m *Match) UnmarshalJSON(data []byte) error {
	type plain Match
	v := struct {
		*plain
		matchBytes
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	setFromBytes(&m.Path, v.PathB64)
	setFromBytes(&m.Text, v.TextB64)
	setLinesFromBytes(&m.Before, v.BeforeB64)
	setLinesFromBytes(&m.After, v.AfterB64)
	return nil
}

// MarshalJSON adds pathB64 where path is not UTF-8.
func (s Skip) MarshalJSON() ([]byte, error) {
	type plain Skip
	return json.Marshal(struct {
		plain
		PathB64 []byte `json:"pathB64,omitempty"`
	}{plain(s), bytesIfNotUTF8(s.Path)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *Skip) UnmarshalJSON(data []byte) error {
	type plain Skip
	v := struct {
		*plain
		PathB64 []byte `json:"pathB64"`
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	setFromBytes(&s.Path, v.PathB64)
	return nil
}

// MarshalJSON adds pathB64 where path is not UTF-8.
func (c Change) MarshalJSON() ([]byte, error) {
	type plain Change
	return json.Marshal(struct {
		plain
		PathB64 []byte `json:"pathB64,omitempty"`
	}{plain(c), bytesIfNotUTF8(c.Path)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (c *Change) UnmarshalJSON(data []byte) error {
	type plain Change
	v := struct {
		*plain
		PathB64 []byte `json:"pathB64"`
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	setFromBytes(&c.Path, v.PathB64)
	return nil
}

// MarshalJSON adds oldB64 and newB64 where old or new are not UTF-8.
func (e Edit) MarshalJSON() ([]byte, error) {
	type plain Edit
	return json.Marshal(struct {
		plain
		OldB64 []byte `json:"oldB64,omitempty"`
		NewB64 []byte `json:"newB64,omitempty"`
	}{plain(e), bytesIfNotUTF8(e.Old), bytesIfNotUTF8(e.New)})
}

// UnmarshalJSON is the inverse of MarshalJSON. It decodes strictly, because an edit
// is input of a user or model.
func (e *Edit) UnmarshalJSON(data []byte) error {
	type plain Edit
	var v struct {
		plain
		OldB64 []byte `json:"oldB64"`
		NewB64 []byte `json:"newB64"`
	}
	if err := DecodeStrict(data, &v); err != nil {
		return err
	}
	*e = Edit(v.plain)
	setFromBytes(&e.Old, v.OldB64)
	setFromBytes(&e.New, v.NewB64)
	return nil
}
