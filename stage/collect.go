package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// CollectOutputs takes files out of the workspace. One that can't be taken is
// listed as skipped and never fails the rest: symlinks that lead out, FIFOs, files
// that go meanwhile. Where an artifact could not be saved, the manifest is
// returned together with an error, says of which file that is, and has those that
// were saved.
func (s *Stage) CollectOutputs(ctx context.Context, spec OutputSpec) (man Manifest, err error) {
	ctx, span := s.span(ctx, SpanCollect, attribute.StringSlice(AttrPatterns, spec.Globs))
	defer func() {
		span.SetAttributes(attribute.Int(AttrCount, len(man.Files)))
		end(span, err)
	}()
	c, err := s.collector(ctx, spec)
	if err != nil {
		return Manifest{}, err
	}
	if err := c.run(ctx); err != nil {
		return c.man, err
	}
	if err := s.recordOutput(ctx, c); err != nil {
		return c.man, errors.Join(fmt.Errorf("stage: collected, and not recorded: %w", err), c.saveError())
	}
	return c.man, c.saveError()
}

// Collect returns the files that patterns match, with their content: at most 4 MiB
// of each, 64 MiB and 10,000 files in all. It is not recorded.
func (s *Stage) Collect(ctx context.Context, patterns []string) (man Manifest, err error) {
	ctx, span := s.span(ctx, SpanCollect, attribute.StringSlice(AttrPatterns, patterns))
	defer func() {
		span.SetAttributes(attribute.Int(AttrCount, len(man.Files)))
		end(span, err)
	}()
	if len(patterns) == 0 {
		return Manifest{Files: []FileRef{}}, nil
	}
	const most = 10_000
	c, err := s.collector(ctx, OutputSpec{Globs: patterns, Inline: true, MaxFiles: most})
	if err == nil {
		err = c.run(ctx)
	}
	if err != nil {
		return Manifest{}, err
	}
	return c.man, nil
}

// A collector is one collection.
type collector struct {
	s      *Stage
	spec   OutputSpec
	naming *Naming
	store  ArtifactStore
	found  []workspace.Info
	left   int64 // bytes that may still be taken
	man    Manifest
	failed error // the first failure to save
	fails  int
}

func (s *Stage) collector(ctx context.Context, spec OutputSpec) (*collector, error) {
	spec, err := spec.limits()
	if err != nil {
		return nil, err
	}
	c := &collector{s: s, spec: spec, left: spec.MaxTotalBytes, man: Manifest{Files: []FileRef{}}}
	if spec.NameTemplate != "" {
		if c.naming, err = ParseNaming(spec.NameTemplate); err != nil {
			return nil, err
		}
	}
	if spec.Save {
		if c.store = s.artifacts(ctx); c.store == nil {
			return nil, fmt.Errorf("stage: save outputs: %w: there is no artifact store here", fault.Unsupported)
		}
	}
	patterns := spec.Globs
	if len(patterns) == 0 {
		patterns = []string{DirOut + "/**"}
	}
	if c.spec.Globs, err = s.globs(ctx, patterns); err != nil {
		return nil, err
	}
	c.found, err = s.match(ctx, c.spec.Globs)
	return c, err
}

func (c *collector) run(ctx context.Context) error {
	for i, info := range c.found {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stage: collect: %w", err)
		}
		if len(c.man.Files) >= c.spec.MaxFiles || c.takes() && c.left <= 0 {
			c.man.LimitsHit, c.man.Left = true, len(c.found)-i
			return nil
		}
		ref, err := c.take(ctx, info)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("stage: collect: %w", ctx.Err())
			}
			if c.man.Skips++; c.man.Skips <= MaxSkipped {
				c.man.Skipped = append(c.man.Skipped, Skipped{Name: info.Path, Code: fault.Of(err), Reason: err.Error()})
			}
			continue
		}
		if ref != nil {
			c.man.Files = append(c.man.Files, *ref)
		}
	}
	return nil
}

// takes reports whether content is taken, and not only listed.
func (c *collector) takes() bool { return c.spec.Inline || c.spec.Save }

// take takes one file; nil is one that was taken already, or a directory.
func (c *collector) take(ctx context.Context, info workspace.Info) (*FileRef, error) {
	if info.Type == driver.TypeSymlink {
		at, err := c.s.ws.Stat(ctx, info.Path, nil)
		if err != nil {
			return nil, err
		}
		if at.Type == driver.TypeDir || c.taken(ctx, info) {
			return nil, nil
		}
	}
	if info.Type == driver.TypeOther {
		return nil, fmt.Errorf("%w: it is neither a file nor a symlink", fault.InvalidArgument)
	}
	ref := &FileRef{Name: info.Path}
	if !c.takes() && info.Type == driver.TypeFile && knownType(info.Path) {
		ref.SizeBytes, ref.MIMEType = info.Size, MIMEType(info.Path, nil)
		return ref, nil
	}
	body, at, err := c.s.ws.Read(ctx, info.Path, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	ref.SizeBytes = at.Size
	return ref, c.content(ctx, ref, body)
}

// taken reports whether a symlink points to a file that is in the manifest.
func (c *collector) taken(ctx context.Context, info workspace.Info) bool {
	link, err := c.s.ws.Stat(ctx, info.Path, &driver.StatOptions{NoFollow: true})
	if err != nil {
		return false
	}
	at := path.Join(path.Dir(info.Path), link.Target)
	for _, f := range c.man.Files {
		if f.Name == at {
			return true
		}
	}
	return false
}

// content takes what a file holds, as far as the limits let it.
func (c *collector) content(ctx context.Context, ref *FileRef, body io.Reader) error {
	limit := min(c.spec.MaxFileBytes, c.left)
	if !c.takes() {
		limit = SniffLen
	}
	if c.spec.Save && !c.spec.Inline && ref.SizeBytes <= limit {
		return c.stream(ctx, ref, body, limit)
	}
	data, err := readUpTo(body, limit, ref.SizeBytes)
	if err != nil {
		return err
	}
	ref.MIMEType = MIMEType(ref.Name, data[:min(len(data), SniffLen)])
	if !c.takes() {
		return nil
	}
	c.left -= int64(len(data))
	ref.SizeBytes = max(ref.SizeBytes, int64(len(data)))
	ref.Truncated = ref.SizeBytes > int64(len(data))
	c.man.LimitsHit = c.man.LimitsHit || ref.Truncated
	if c.spec.Inline {
		ref.Content = string(data)
	}
	if c.spec.Save && ref.Truncated {
		ref.Error = fmt.Sprintf("%s: it has %d bytes, and %d may be taken", fault.ResourceExhausted, ref.SizeBytes, limit)
	} else if c.spec.Save {
		c.save(ctx, ref, bytes.NewReader(data))
	}
	return nil
}

// readUpTo reads at most limit bytes, into as much memory as that takes.
func readUpTo(r io.Reader, limit, size int64) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, min(limit, max(size, 0))+bytes.MinRead))
	_, err := buf.ReadFrom(io.LimitReader(r, limit))
	return buf.Bytes(), err
}

// stream saves a file without having it in memory.
func (c *collector) stream(ctx context.Context, ref *FileRef, body io.Reader, limit int64) error {
	head, err := readUpTo(body, min(SniffLen, limit), ref.SizeBytes)
	if err != nil {
		return err
	}
	ref.MIMEType = MIMEType(ref.Name, head)
	counted := &counter{r: io.LimitReader(io.MultiReader(bytes.NewReader(head), body), limit+1), limit: limit}
	c.save(ctx, ref, counted)
	c.left -= counted.n
	if ref.Error == "" {
		ref.SizeBytes = counted.n
	}
	return nil
}

// A counter counts what is read, and fails where it is more than the limit.
type counter struct {
	r        io.Reader
	n, limit int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.n > c.limit {
		return 0, fmt.Errorf("%w: the file grew beyond the limit", fault.ResourceExhausted)
	}
	return n, err
}

func (c *collector) save(ctx context.Context, ref *FileRef, body io.Reader) {
	name, err := c.naming.Name(outputName(ref.Name, len(c.man.Files), c.s.ws.ID()))
	var art Artifact
	if err == nil {
		art, err = c.store.Save(ctx, name, body, ref.MIMEType)
	}
	if err != nil {
		ref.Error = err.Error()
		if c.fails++; c.failed == nil {
			c.failed = err
		}
		return
	}
	ref.SavedAs, ref.Version = art.Name, art.Version
}

func (c *collector) saveError() error {
	if c.failed == nil {
		return nil
	}
	return fmt.Errorf("stage: save outputs: %d of %d failed: %w", c.fails, len(c.man.Files), c.failed)
}

// recordOutput remembers a collection, also one whose saves failed in part.
func (s *Stage) recordOutput(ctx context.Context, c *collector) error {
	rec := OutputRecord{Globs: c.spec.Globs, LimitsHit: c.man.LimitsHit, Timestamp: s.opts.Now().UTC()}
	for _, f := range c.man.Files {
		if f.SavedAs != "" {
			rec.SavedAs, rec.Versions = append(rec.SavedAs, f.SavedAs), append(rec.Versions, f.Version)
		}
	}
	h, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer h.End()
	h.Outputs = append(h.Outputs, rec)
	return h.Save(ctx)
}

// SaveFile saves one file of the workspace as an artifact, whatever its size up to
// limit; 0 is no limit. name "" is its path.
func (s *Stage) SaveFile(ctx context.Context, file, name string, limit int64) (Artifact, error) {
	store := s.artifacts(ctx)
	if store == nil {
		return Artifact{}, fmt.Errorf("stage: save %q: %w: there is no artifact store here", file, fault.Unsupported)
	}
	if strings.ContainsAny(file, "*?[{") {
		if _, err := s.ws.Stat(ctx, file, nil); err != nil {
			return Artifact{}, fmt.Errorf("stage: save %q: %w: it is one file, not a pattern", file, fault.InvalidArgument)
		}
	}
	body, info, err := s.ws.Read(ctx, file, nil)
	if err != nil {
		return Artifact{}, err
	}
	defer body.Close()
	if limit > 0 && info.Size > limit {
		return Artifact{}, fmt.Errorf("stage: save %q: %w: it has %d bytes; at most %d are allowed", file, fault.ResourceExhausted, info.Size, limit)
	}
	head, err := readUpTo(body, SniffLen, info.Size)
	if err != nil {
		return Artifact{}, err
	}
	if name == "" {
		name = SafeName(info.Path)
	}
	rest := io.MultiReader(bytes.NewReader(head), body)
	if limit > 0 {
		rest = &counter{r: rest, limit: limit}
	}
	return store.Save(ctx, name, rest, MIMEType(info.Path, head))
}
