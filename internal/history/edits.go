package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/paths"
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
	Already []string     `json:"-"` // of Move: files that had the wanted state before

	file   string    // name of its file; they sort by time
	chosen []int     // indices of the files that Find chose
	next   time.Time // of a move of this edit: later than all that was recorded
}

// An EditedFile is a file before and after an edit.
type EditedFile struct {
	Path   string    `json:"path"`
	Before FileState `json:"before"`
	After  FileState `json:"after"`
	Undone time.Time `json:"undone,omitzero"` // when it was undone; zero if it is not
	Redone time.Time `json:"redone,omitzero"` // when it was redone last

	// Reason says why the change can't be undone, such as "it is a directory"; "" if it
	// can.
	Reason string `json:"reason,omitempty"`
}

// A FileState is the state of a file or symlink.
type FileState struct {
	Digest  string      `json:"digest,omitempty"` // "" if there is no file
	Mode    fs.FileMode `json:"mode,omitempty"`
	Content []byte      `json:"content,omitempty"` // of the state after an edit only once the edit is undone
}

// NewFileState returns the state of a file or, with fs.ModeSymlink, of a symlink with a target.
func NewFileState(content []byte, mode fs.FileMode) FileState {
	if mode.Type() == fs.ModeSymlink {
		return FileState{Digest: "symlink:" + string(content), Mode: fs.ModeSymlink, Content: content}
	}
	return FileState{Digest: driver.DigestBytes(content), Mode: mode.Perm(), Content: content}
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

// Find returns the edit that a choice selects; false if there is none. Undo takes what was done
// or redone last. Redo takes what was undone last, if no edit was recorded since; an edit that
// the choice names by its id or by paths is redone after that, too. What one call of Move undid
// is redone by one call, and the other way round.
func (e Edits) Find(c EditChoice) (found Edit, ok bool, err error) {
	list, err := e.List()
	next := time.Now().UTC()
	var last time.Time
	for _, edit := range list {
		for i, f := range edit.Files {
			for _, t := range []time.Time{edit.Created, f.Undone, f.Redone} {
				if !t.Before(next) { // the clock was set back
					next = t.Add(1)
				}
			}
			at := edit.movedAt(i, c.Redo)
			isOutdated := c.Redo && c.ID == "" && len(c.Paths) == 0 && at.Before(list[0].Created)
			if edit.matches(i, c) && !isOutdated && (!ok || at.After(last)) {
				found, ok, last = edit, true, at
			}
		}
	}
	for i := range found.Files {
		if found.matches(i, c) && (c.ID != "" || found.movedAt(i, c.Redo).Equal(last)) {
			found.chosen = append(found.chosen, i)
		}
	}
	found.next = next
	return found, ok, err
}

// matches reports whether a choice may select a file of the edit.
func (edit *Edit) matches(i int, c EditChoice) bool {
	f := &edit.Files[i]
	return (c.ID == "" || c.ID == edit.ID) && f.Undone.IsZero() != c.Redo &&
		(len(c.Paths) == 0 || slices.ContainsFunc(c.Paths, func(p string) bool { return paths.InsideName(p, f.Path) }))
}

// movedAt returns when a file was brought to its present state: after the edit or, for redo,
// before it.
func (edit *Edit) movedAt(i int, redo bool) time.Time {
	f := &edit.Files[i]
	switch {
	case redo:
		return f.Undone
	case f.Redone.IsZero():
		return edit.Created
	}
	return f.Redone
}

// Explain reports whether edits alone led from a content of a file to its present one. They are
// digests, "" where there is no file.
func (e Edits) Explain(path, from, now string) (bool, error) {
	list, err := e.List()
	for _, edit := range list {
		for _, f := range edit.Files {
			switch {
			case f.Path != path || !f.Undone.IsZero():
				continue
			case f.Reason != "" || f.After.Digest != now:
				return false, err
			}
			if now = f.Before.Digest; now == from {
				return true, err
			}
		}
	}
	return false, err
}

// Move brings the files of an edit of Find to the state before it or, with redo, after it: all of
// those that were chosen, or none. If one has changed since, the error is a Conflict that shows
// both states, unless it has the wanted state already. It returns the edit with the files that it moved.
func (e Edits) Move(ctx context.Context, ws *workspace.Workspace, edit Edit, redo bool) (Edit, error) {
	verb := "undo"
	states := func(f *EditedFile) (from, to *FileState) { return &f.After, &f.Before }
	if redo {
		verb = "redo"
		states = func(f *EditedFile) (from, to *FileState) { return &f.Before, &f.After }
	}
	moved := edit
	moved.Files = nil
	var conflicts []string
	var write, already []int
	for _, i := range edit.chosen {
		f := &edit.Files[i]
		if f.Reason != "" {
			return Edit{}, fmt.Errorf("%s %s (%s): %w: %s: %s", verb, edit.ID, edit.Step, fault.Unsupported, f.Path, f.Reason)
		}
		from, to := states(f)
		now, err := ReadState(ctx, ws, f.Path)
		if err != nil {
			return Edit{}, err
		}
		switch now.Digest {
		case from.Digest:
		case to.Digest:
			already = append(already, i)
			moved.Already = append(moved.Already, f.Path)
			continue
		default:
			conflicts = append(conflicts, conflictText(verb, f.Path, now, *to))
			continue
		}
		if from.Mode == to.Mode {
			to.Mode = now.Mode // the edit did not change it, and someone else may have
		}
		*from = now // its content is not kept before, and is needed to go back
		write = append(write, i)
	}
	if len(conflicts) > 0 {
		return Edit{}, fmt.Errorf("%s %s (%s): %w: changed since, and nothing was written\n%s", verb, edit.ID, edit.Step, fault.Conflict, strings.Join(conflicts, ""))
	}
	for n, i := range write {
		from, to := states(&edit.Files[i])
		if err := writeState(ctx, ws, edit.Files[i].Path, *from, *to); err != nil {
			back := context.WithoutCancel(ctx)
			for _, i := range write[:n] {
				from, to := states(&edit.Files[i])
				err = errors.Join(err, writeState(back, ws, edit.Files[i].Path, *to, *from))
			}
			return Edit{}, err
		}
	}
	for _, i := range edit.chosen {
		f := &edit.Files[i]
		if f.Undone = edit.next; redo {
			f.Undone, f.Redone = time.Time{}, edit.next
		}
		if !slices.Contains(already, i) {
			moved.Files = append(moved.Files, *f)
		}
	}
	if !redo { // what the edit wrote there is not kept, so that it can't be redone
		for _, i := range slices.Backward(already) {
			edit.Files = slices.Delete(edit.Files, i, i+1)
		}
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

// ReadState returns the state of a file or symlink. What is neither is fault.Unsupported, one
// larger than MaxEdit fault.ResourceExhausted.
func ReadState(ctx context.Context, ws *workspace.Workspace, name string) (FileState, error) {
	info, err := ws.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
	switch {
	case fault.Of(err) == fault.NotFound || fault.Of(err) == fault.InvalidArgument: // something above it is no directory
		return FileState{}, nil
	case err != nil:
		return FileState{}, err
	case info.Type == driver.TypeSymlink:
		return NewFileState([]byte(info.Target), fs.ModeSymlink), nil
	case info.Type != driver.TypeFile:
		return FileState{}, fmt.Errorf("%s: %w: it is no file and no symlink", name, fault.Unsupported)
	}
	data, err := ws.ReadFileMax(ctx, name, MaxEdit)
	if err != nil {
		return FileState{}, err
	}
	return NewFileState(data, info.Mode.Perm()), nil
}

// writeState brings a file from one state to another.
func writeState(ctx context.Context, ws *workspace.Workspace, name string, from, to FileState) error {
	isLink := to.Mode.Type() == fs.ModeSymlink
	if to.Digest == "" || from.Digest != "" && (isLink || from.Mode.Type() == fs.ModeSymlink) { // a write would follow the link
		if err := ws.Remove(ctx, name, nil); err != nil || to.Digest == "" {
			return err
		}
		from = FileState{}
	}
	if isLink {
		if err := ws.Mkdir(ctx, path.Dir(name), &driver.MkdirOptions{Parents: true}); err != nil {
			return err
		}
		return ws.Symlink(ctx, string(to.Content), name)
	}
	opts := &driver.WriteOptions{Mode: to.Mode, SetMode: true, IfMatch: from.Digest, CreateOnly: from.Digest == "", Parents: true}
	_, err := ws.WriteFile(ctx, name, to.Content, opts)
	return err
}
