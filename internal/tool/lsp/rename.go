package lsp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A FileEdit is the change of one file by a rename.
type FileEdit struct {
	Path   string
	Edits  int
	Before []byte
	After  []byte
}

// Rename returns the changes of renaming the symbol at a position, sorted by path, and the
// places that have its name as text and would not change; no changes if it can't be renamed.
func (s *Set) Rename(ctx context.Context, name string, line, col int, newName string) (list []FileEdit, also *Mentions, err error) {
	var found *workspaceEdit
	q := &symbolQuestion{name: name, line: line, col: col, method: "textDocument/rename", result: &found, whole: true}
	q.more = map[string]any{"newName": newName}
	known := knownLines{}
	q.then = func(ctx context.Context, c *client) error {
		edits, err := found.byURI()
		if err != nil || len(edits) == 0 {
			return err
		}
		if edits, err = c.keepShorthands(ctx, q, edits); err != nil {
			return err
		}
		for uri, of := range edits {
			for _, e := range of {
				for line := e.Range.Start.Line; line <= e.Range.End.Line; line++ { // some servers replace all of the text
					known.add(c.root, uri, line)
				}
			}
		}
		var more wireLocations
		if c.spec.renamesConfigured || c.spec.leavesUses {
			more, err = c.confirmMentions(ctx, q, known)
		}
		if c.spec.renamesConfigured {
			for _, m := range more {
				edits[m.URI] = append(edits[m.URI], textEdit{m.Range, newName})
			}
		}
		if err == nil {
			list, err = c.fileEdits(ctx, edits)
		}
		if err == nil && c.spec.leavesUses {
			err = c.checkUses(ctx, q.search.name, list, more)
		}
		return err
	}
	err = s.ask(ctx, q)
	var refused *rpcError
	switch {
	case errors.As(err, &refused):
		return nil, nil, &Error{"rename_symbol: " + refused.Message, fault.InvalidArgument}
	case err != nil:
		return nil, nil, err
	case len(list) == 0:
		return nil, nil, s.noSymbol(q)
	}
	return list, q.search.left(list), nil
}

// checkUses shows a rename to the server, without writing it, and refuses it if uses that it
// leaves then have definitions in other files: they keep the old name, which may be right, since
// "exports.old = renamed" exports the old name, or break the program.
func (c *client) checkUses(ctx context.Context, name string, list []FileEdit, uses wireLocations) error {
	if len(uses) == 0 || slices.ContainsFunc(list, func(f FileEdit) bool { return !sameLines(f) }) {
		return nil
	}
	before, err := c.definingFiles(ctx, uses)
	if err != nil {
		return err
	}
	c.docMu.Lock()
	defer c.docMu.Unlock()
	show := func(text func(FileEdit) []byte) (err error) {
		for _, f := range list {
			if doc := c.docs[f.Path]; doc != nil && err == nil {
				changed := *doc
				changed.text = text(f)
				_, err = c.sendLocked(f.Path, doc, &changed)
			}
		}
		return err
	}
	err = show(func(f FileEdit) []byte { return f.After })
	var after []string
	if err == nil {
		after, err = c.definingFiles(ctx, uses)
	}
	if err := errors.Join(err, show(func(f FileEdit) []byte { return f.Before })); err != nil {
		return err
	}
	var broken []string
	for i, use := range uses {
		if file, _ := nameOf(c.root, use.URI); before[i] != after[i] {
			broken = append(broken, fmt.Sprintf("%s:%d", file, use.Range.Start.Line+1))
		}
	}
	if len(broken) == 0 {
		return nil
	}
	const text = "rename_symbol: the language server would leave %d use(s) of %s, which would then mean nothing: %s; nothing was written. " +
		"Rename with Edit instead"
	return &Error{fmt.Sprintf(text, len(broken), name, firstFiles(broken)), fault.Unsupported}
}

// definingFiles returns the files with the definitions of each place.
func (c *client) definingFiles(ctx context.Context, places wireLocations) ([]string, error) {
	out := make([]string, len(places))
	for i, w := range places {
		name, _ := nameOf(c.root, w.URI)
		defs, err := c.definitionsAt(ctx, name, w.Range.Start)
		if err != nil {
			return nil, err
		}
		var files []string
		for d := range defs {
			file, _, _ := strings.Cut(d, " ")
			files = append(files, file)
		}
		slices.Sort(files)
		out[i] = strings.Join(slices.Compact(files), " ")
	}
	return out, nil
}

// byURI returns the edits by file.
func (edit *workspaceEdit) byURI() (map[string][]textEdit, error) {
	byURI := map[string][]textEdit{}
	if edit == nil {
		return byURI, nil
	}
	for uri, edits := range edit.Changes {
		byURI[uri] = append(byURI[uri], edits...)
	}
	if len(edit.DocumentChanges) > 0 {
		clear(byURI)
	}
	for _, d := range edit.DocumentChanges {
		if d.Kind != "" {
			return nil, &Error{fmt.Sprintf("rename_symbol: the language server wants to %s a file, which is not supported", d.Kind), fault.Unsupported}
		}
		byURI[d.TextDocument.URI] = append(byURI[d.TextDocument.URI], d.Edits...)
	}
	return byURI, nil
}

// fileEdits applies edits to the texts that the server has.
func (c *client) fileEdits(ctx context.Context, byURI map[string][]textEdit) ([]FileEdit, error) {
	var list []FileEdit
	for uri, edits := range byURI {
		if len(edits) == 0 {
			continue
		}
		name, inside := nameOf(c.root, uri)
		if !inside {
			return nil, &Error{fmt.Sprintf("rename_symbol: it would change %s, which is outside the workspace", name), fault.SandboxViolation}
		}
		before, err := c.documentText(ctx, name)
		if err != nil {
			return nil, err
		}
		after, err := applyEdits(before, edits)
		if err != nil {
			return nil, fmt.Errorf("lsp: rename in %s: %w", name, err)
		}
		list = append(list, FileEdit{Path: name, Edits: len(edits), Before: before, After: after})
	}
	slices.SortFunc(list, func(a, b FileEdit) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// undoTime bounds restoring files.
const undoTime = 30 * time.Second

// Apply writes a rename: all files, or none. A file that has changed since the server read
// it is a Conflict. It returns the new digests by path.
func (s *Set) Apply(ctx context.Context, list []FileEdit) (digests map[string]string, err error) {
	digests = map[string]string{}
	for _, f := range list { // check all files before the first write
		now, err := readText(ctx, s.ws, f.Path)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(now, f.Before) {
			return nil, fmt.Errorf("lsp: apply to %s: %w: it changed meanwhile", f.Path, fault.Conflict)
		}
	}
	for i, f := range list {
		res, err := s.ws.Write(ctx, f.Path, bytes.NewReader(f.After), &workspace.WriteOptions{IfMatch: driver.DigestBytes(f.Before)})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lsp: apply to %s: %w", f.Path, err), s.undoWrites(ctx, list[:i]))
		}
		digests[f.Path] = res.Digest
	}
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = f.Path
	}
	_ = s.NotifyChanged(ctx, names...) // a failure means a dead server, which the next request restarts
	return digests, nil
}

// undoWrites restores written files, except files that have changed since.
func (s *Set) undoWrites(ctx context.Context, list []FileEdit) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	var errs []error
	for _, f := range list {
		_, err := s.ws.Write(ctx, f.Path, bytes.NewReader(f.Before), &workspace.WriteOptions{IfMatch: driver.DigestBytes(f.After)})
		if err != nil {
			errs = append(errs, fmt.Errorf("lsp: put back %s: %w", f.Path, err))
		}
	}
	return errors.Join(errs...)
}
