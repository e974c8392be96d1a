package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/textdiff"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Edits is the record of the edits of a workspace, in a directory of this host with a
// file per edit. It outlives the process and, for a directory that is used in place, the
// workspace. Any number of processes may use it.
type Edits string

// An Edit is what one step changed in files.
type Edit struct {
	ID      string       `json:"id"`
	Step    string       `json:"step"` // such as "Edit main.go"
	Created time.Time    `json:"created"`
	Files   []EditedFile `json:"files"`

	file string // name of its file; they sort by time
}

// An EditedFile is a file before and after an edit.
type EditedFile struct {
	Path   string    `json:"path"`
	Before FileState `json:"before"`
	After  FileState `json:"after"`
	Undone time.Time `json:"undone,omitzero"` // when it was undone

	// Reason says why the change can't be undone, such as "it is a directory"; "" if it
	// can.
	Reason string `json:"reason,omitempty"`
}

// A FileState is the state of a file.
type FileState struct {
	Digest  string      `json:"digest,omitempty"` // "" if there is no file
	Mode    fs.FileMode `json:"mode,omitempty"`
	Content []byte      `json:"content,omitempty"` // of the state after an edit only once the edit is undone
}

// An EditChoice selects what to undo or redo.
type EditChoice struct {
	ID    string   // the edit; "" is the last one
	Paths []string // only these files, and the last edit of one of them; none is all
	Redo  bool     // what was undone
}

// Add records an edit, and removes old records.
func (e Edits) Add(step string, files []EditedFile) error {
	now := time.Now().UTC()
	edit := Edit{ID: driver.NewID(), Step: stepLabel(step), Created: now, Files: files}
	edit.file = fmt.Sprintf("%020d-%s.json", now.UnixNano(), edit.ID)
	if err := os.MkdirAll(string(e), 0o700); err != nil {
		return fmt.Errorf("history: record an edit: %w", err)
	}
	return errors.Join(e.save(edit), e.prune(now))
}

func (e Edits) save(edit Edit) error {
	data, err := json.Marshal(edit)
	if err == nil {
		err = atomicfile.Write(filepath.Join(string(e), edit.file), data, atomicfile.Options{})
	}
	if err != nil {
		return fmt.Errorf("history: record an edit: %w", err)
	}
	return nil
}

// names returns the names of the records, oldest first.
func (e Edits) names() ([]string, error) {
	list, err := os.ReadDir(string(e))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("history: edits: %w", err)
	}
	var names []string
	for _, f := range list {
		if strings.HasSuffix(f.Name(), ".json") && !strings.HasPrefix(f.Name(), ".") {
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// prune removes records beyond DefaultCount and DefaultAge.
func (e Edits) prune(now time.Time) error {
	names, err := e.names()
	oldest := fmt.Sprintf("%020d", now.Add(-DefaultAge).UnixNano())
	for i, name := range names {
		if i >= len(names)-DefaultCount && name >= oldest {
			break
		}
		if removed := os.Remove(filepath.Join(string(e), name)); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// List returns the edits, newest first. A record that can't be read is left out.
func (e Edits) List() ([]Edit, error) {
	names, err := e.names()
	var list []Edit
	for _, name := range slices.Backward(names) {
		edit := Edit{file: name}
		if data, err := os.ReadFile(filepath.Join(string(e), name)); err == nil && json.Unmarshal(data, &edit) == nil {
			list = append(list, edit)
		}
	}
	return list, err
}

// Find returns the edit that a choice selects; false if there is none. Undo takes the
// newest edit, redo the one that was undone last.
func (e Edits) Find(c EditChoice) (found Edit, ok bool, err error) {
	list, err := e.List()
	var last time.Time
	for _, edit := range list {
		for _, i := range edit.chosen(c) {
			if f := edit.Files[i]; !ok || c.Redo && f.Undone.After(last) {
				found, ok, last = edit, true, f.Undone
			}
		}
	}
	return found, ok, err
}

// chosen returns the indices of the files that a choice selects.
func (edit *Edit) chosen(c EditChoice) []int {
	var out []int
	for i, f := range edit.Files {
		if (c.ID == "" || c.ID == edit.ID) && f.Undone.IsZero() != c.Redo &&
			(len(c.Paths) == 0 || slices.ContainsFunc(c.Paths, func(p string) bool { return isAtOrBelow(f.Path, p) })) {
			out = append(out, i)
		}
	}
	return out
}

func isAtOrBelow(name, dir string) bool {
	return name == dir || dir == "." || strings.HasPrefix(name, dir+"/")
}

// Move brings the files of an edit to the state before it or, with Redo, after it: all of
// those that the choice selects, or none. If one has changed since, the error is a Conflict
// that shows both states. It returns the edit with the files that it moved.
func (e Edits) Move(ctx context.Context, ws *workspace.Workspace, edit Edit, c EditChoice) (Edit, error) {
	verb, undone := "undo", time.Now().UTC()
	states := func(f *EditedFile) (from, to *FileState) { return &f.After, &f.Before }
	if c.Redo {
		verb, undone = "redo", time.Time{}
		states = func(f *EditedFile) (from, to *FileState) { return &f.Before, &f.After }
	}
	at := edit.chosen(c)
	moved := edit
	moved.Files = nil
	var conflicts []string
	for _, i := range at {
		f := &edit.Files[i]
		if f.Reason != "" {
			return Edit{}, fmt.Errorf("%s %s (%s): %w: %s: %s", verb, edit.ID, edit.Step, fault.Unsupported, f.Path, f.Reason)
		}
		from, to := states(f)
		now, err := ReadState(ctx, ws, f.Path)
		if err != nil {
			return Edit{}, err
		}
		if now.Digest != from.Digest {
			conflicts = append(conflicts, conflictText(verb, f.Path, now, *to))
			continue
		}
		from.Content = now.Content // of the state after the edit, for redo
	}
	if len(conflicts) > 0 {
		return Edit{}, fmt.Errorf("%s %s (%s): %w: changed since, and nothing was written\n%s", verb, edit.ID, edit.Step, fault.Conflict, strings.Join(conflicts, ""))
	}
	for n, i := range at {
		from, to := states(&edit.Files[i])
		if err := writeState(ctx, ws, edit.Files[i].Path, *from, *to); err != nil {
			back := context.WithoutCancel(ctx)
			for _, i := range at[:n] {
				from, to := states(&edit.Files[i])
				err = errors.Join(err, writeState(back, ws, edit.Files[i].Path, *to, *from))
			}
			return Edit{}, err
		}
	}
	for _, i := range at {
		edit.Files[i].Undone = undone
		moved.Files = append(moved.Files, edit.Files[i])
	}
	return moved, e.save(edit)
}

// conflictText shows a file as it is, and as it would be.
func conflictText(verb, name string, now, then FileState) string {
	head := fmt.Sprintf("%s (- is there now, + is what %s would restore):\n", name, verb)
	switch {
	case now.Digest == "":
		return head + "there is no file now\n"
	case then.Digest == "":
		return head + verb + " would remove the file\n"
	case now.Digest == then.Digest:
		return head + "both are the same\n"
	}
	return head + textdiff.Unified(name, now.Content, then.Content, 3)
}

// MaxEdit is the size of the largest file of which an edit can be undone.
const MaxEdit = 4 << 20

// ReadState returns the state of a file. What is no regular file is fault.Unsupported, one
// larger than MaxEdit fault.ResourceExhausted.
func ReadState(ctx context.Context, ws *workspace.Workspace, name string) (FileState, error) {
	info, err := ws.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
	switch {
	case fault.Of(err) == fault.NotFound:
		return FileState{}, nil
	case err != nil:
		return FileState{}, err
	case info.Type != driver.TypeFile:
		return FileState{}, fmt.Errorf("%s: %w: it is no regular file", name, fault.Unsupported)
	}
	data, err := ws.ReadFileMax(ctx, name, MaxEdit)
	if err != nil {
		return FileState{}, err
	}
	return FileState{Digest: driver.DigestBytes(data), Mode: info.Mode.Perm(), Content: data}, nil
}

// writeState brings a file from one state to another.
func writeState(ctx context.Context, ws *workspace.Workspace, name string, from, to FileState) error {
	if to.Digest == "" {
		return ws.Remove(ctx, name, nil)
	}
	opts := &driver.WriteOptions{Mode: to.Mode, SetMode: true, IfMatch: from.Digest, CreateOnly: from.Digest == "", Parents: true}
	_, err := ws.WriteFile(ctx, name, to.Content, opts)
	return err
}
