package stage

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"

	"go.opentelemetry.io/otel/attribute"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A File is a file to put into a workspace.
type File struct {
	Path    string // in the workspace
	Content []byte
	Mode    fs.FileMode // permission bits; 0 is 0o644
}

// PutFiles puts files into the workspace, with the directories above them: all of
// them or, where anything fails, none. Each has exactly the mode that it asks for,
// whatever was there. A symlink at a path is replaced, not followed.
func (s *Stage) PutFiles(ctx context.Context, files []File) (err error) {
	ctx, span := s.span(ctx, SpanFiles, attribute.Int(AttrCount, len(files)))
	defer func() { end(span, err) }()
	steps := make([]step, 0, len(files))
	targets := make([]string, 0, len(files))
	for _, f := range files {
		if f.Path == "" {
			return fmt.Errorf("stage: put files: %w: a path is empty", fault.InvalidArgument)
		}
		target, err := s.target(f.Path)
		if err != nil {
			return fmt.Errorf("stage: put files: %w", err)
		}
		if err := driver.CheckMode(f.Mode); err != nil {
			return fmt.Errorf("stage: put %q: %w", f.Path, err)
		}
		steps = append(steps, step{target, s.writer(f)})
		targets = append(targets, target)
	}
	if err := apart(targets); err != nil {
		return err
	}
	if len(files) == 1 {
		if done, err := s.putOne(ctx, targets[0], files[0]); done || err != nil {
			return err
		}
	}
	h, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer h.End()
	if err := h.transact(ctx, steps, func() {}); err != nil {
		return fmt.Errorf("stage: put %d files: %w", len(files), err)
	}
	return nil
}

// PutFile is PutFiles of one file for who holds the memory.
func (h *Session) PutFile(ctx context.Context, f File) error {
	target, err := h.s.target(f.Path)
	if err != nil {
		return fmt.Errorf("stage: put files: %w", err)
	}
	if err := driver.CheckMode(f.Mode); err != nil {
		return fmt.Errorf("stage: put %q: %w", f.Path, err)
	}
	if done, err := h.s.putOne(ctx, target, f); done || err != nil {
		return err
	}
	return h.transact(ctx, []step{{target, h.s.writer(f)}}, func() {})
}

// writer returns what makes a file.
func (s *Stage) writer(f File) func(ctx context.Context, at string) error {
	return func(ctx context.Context, at string) error {
		_, err := s.ws.Write(ctx, at, bytes.NewReader(f.Content), &driver.WriteOptions{Mode: f.mode(), SetMode: true, CreateOnly: true})
		return err
	}
}

func (f File) mode() fs.FileMode {
	if f.Mode == 0 {
		return 0o644
	}
	return f.Mode
}

// putOne puts a single file where there is none, or a plain one: writing one file
// is all or nothing by itself.
func (s *Stage) putOne(ctx context.Context, target string, f File) (done bool, err error) {
	if target == MetaFile {
		return false, nil // it is to be known that this one is not ours
	}
	info, err := s.ws.Stat(ctx, target, &driver.StatOptions{NoFollow: true})
	if err == nil && info.Type != driver.TypeFile {
		return false, nil
	}
	_, err = s.ws.Write(ctx, target, bytes.NewReader(f.Content), &driver.WriteOptions{Mode: f.mode(), SetMode: true, Parents: true})
	if err != nil {
		return true, fmt.Errorf("stage: put %q: %w", f.Path, err)
	}
	return true, nil
}
