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

// A File is a file to write to a workspace.
type File struct {
	Path    string // in the workspace
	Content []byte
	Mode    fs.FileMode // permission bits; 0 is 0o644
}

// PutFiles writes files, with their parent directories, all or nothing. Each file
// gets the given mode, also if it existed. A symlink at a path is replaced, not
// followed.
func (s *Stage) PutFiles(ctx context.Context, files []File) (err error) {
	ctx, span := s.startSpan(ctx, SpanFiles, attribute.Int(AttrCount, len(files)))
	defer func() { endSpan(span, err) }()
	steps := make([]step, 0, len(files))
	targets := make([]string, 0, len(files))
	for _, f := range files {
		if f.Path == "" {
			return fmt.Errorf("stage: put files: %w: a path is empty", fault.InvalidArgument)
		}
		target, err := s.cleanTarget(f.Path)
		if err != nil {
			return fmt.Errorf("stage: put files: %w", err)
		}
		if err := driver.CheckMode(f.Mode); err != nil {
			return fmt.Errorf("stage: put %q: %w", f.Path, err)
		}
		steps = append(steps, step{target, s.writeStep(f)})
		targets = append(targets, target)
	}
	if err := checkDisjoint(targets); err != nil {
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

// PutFile is PutFiles of one file within a session.
func (h *Session) PutFile(ctx context.Context, f File) error {
	target, err := h.s.cleanTarget(f.Path)
	if err != nil {
		return fmt.Errorf("stage: put files: %w", err)
	}
	if err := driver.CheckMode(f.Mode); err != nil {
		return fmt.Errorf("stage: put %q: %w", f.Path, err)
	}
	if done, err := h.s.putOne(ctx, target, f); done || err != nil {
		return err
	}
	return h.transact(ctx, []step{{target, h.s.writeStep(f)}}, func() {})
}

// writeStep returns the step function that writes a file.
func (s *Stage) writeStep(f File) func(ctx context.Context, at string) error {
	return func(ctx context.Context, at string) error {
		_, err := s.ws.Write(ctx, at, bytes.NewReader(f.Content), &driver.WriteOptions{Mode: f.permMode(), SetMode: true, CreateOnly: true})
		return err
	}
}

func (f File) permMode() fs.FileMode {
	if f.Mode == 0 {
		return 0o644
	}
	return f.Mode
}

// putOne writes a single file directly if there is no entry, or a regular file:
// writing one file is atomic by itself.
func (s *Stage) putOne(ctx context.Context, target string, f File) (done bool, err error) {
	if target == MetaFile {
		return false, nil // whether metadata.json is our copy must be recorded
	}
	info, err := s.ws.Stat(ctx, target, &driver.StatOptions{NoFollow: true})
	if err == nil && info.Type != driver.TypeFile {
		return false, nil
	}
	_, err = s.ws.Write(ctx, target, bytes.NewReader(f.Content), &driver.WriteOptions{Mode: f.permMode(), SetMode: true, Parents: true})
	if err != nil {
		return true, fmt.Errorf("stage: put %q: %w", f.Path, err)
	}
	return true, nil
}
