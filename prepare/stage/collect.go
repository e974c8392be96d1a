package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// CollectOutputs collects files of the workspace. A file that can't be collected is
// listed as skipped and never fails the rest: symlinks that leave the workspace,
// FIFOs, files that vanish meanwhile, patterns through such paths, and patterns that
// are not valid or leave the workspace. If an artifact could not be saved, the manifest is
// returned together with an error; it names that file and has the files that were saved.
func (s *Stage) CollectOutputs(ctx context.Context, spec OutputSpec) (Manifest, error) {
	return s.CollectTo(ctx, spec, nil)
}

// A Sink receives the content of a collected file. What the Sink does not read is not
// counted.
type Sink func(ref FileRef, info workspace.Info, body io.Reader) error

// CollectTo is CollectOutputs, and passes the content of each file to a sink, too. A
// file beyond the limits is not passed, and its FileRef says so. An error of the sink
// counts as a file that could not be saved.
func (s *Stage) CollectTo(ctx context.Context, spec OutputSpec, to Sink) (man Manifest, err error) {
	ctx, span := s.startSpan(ctx, SpanCollect, attribute.StringSlice(AttrPatterns, spec.Globs))
	defer func() {
		span.SetAttributes(attribute.Int(AttrCount, len(man.Files)))
		endSpan(span, err)
	}()
	c, err := s.newCollector(ctx, spec)
	if err != nil {
		return Manifest{}, err
	}
	c.sink = to
	if err := c.run(ctx); err != nil {
		return c.man, err
	}
	if err := s.recordOutput(ctx, c); err != nil {
		return c.man, errors.Join(fmt.Errorf("stage: the outputs were collected but not recorded: %w", err), c.saveError())
	}
	return c.man, c.saveError()
}

// Collect returns the files that match patterns, with their content: at most 4 MiB of
// each, 64 MiB and 10,000 files in total. The collection is not recorded.
func (s *Stage) Collect(ctx context.Context, patterns []string) (man Manifest, err error) {
	ctx, span := s.startSpan(ctx, SpanCollect, attribute.StringSlice(AttrPatterns, patterns))
	defer func() {
		span.SetAttributes(attribute.Int(AttrCount, len(man.Files)))
		endSpan(span, err)
	}()
	if len(patterns) == 0 {
		return Manifest{Files: []FileRef{}}, nil
	}
	const most = 10_000
	c, err := s.newCollector(ctx, OutputSpec{Globs: patterns, Inline: true, MaxFiles: most})
	if err == nil {
		err = c.run(ctx)
	}
	if err != nil {
		return Manifest{}, err
	}
	return c.man, nil
}

// A collector runs one collection.
type collector struct {
	s      *Stage
	spec   OutputSpec
	naming *Naming
	store  ArtifactStore
	sink   Sink
	found  []matchedFile
	left   int64           // bytes left of MaxTotalBytes
	taken  map[string]bool // resolved paths of files in the manifest
	man    Manifest
	failed error // the first failure to save or to write
	fails  int
}

func (s *Stage) newCollector(ctx context.Context, spec OutputSpec) (*collector, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &collector{s: s, spec: spec, left: spec.MaxTotalBytes, taken: map[string]bool{}, man: Manifest{Files: []FileRef{}}}
	if spec.NameTemplate != "" {
		if c.naming, err = ParseNaming(spec.NameTemplate); err != nil {
			return nil, err
		}
	}
	if spec.Save {
		if c.store = s.artifactStore(ctx); c.store == nil {
			return nil, fmt.Errorf("stage: save outputs: %w: this stage has no artifact store", fault.Unsupported)
		}
	}
	patterns := spec.Globs
	if len(patterns) == 0 {
		patterns = []string{DirOut + "/**"}
	}
	globs, skipped, err := s.cleanGlobs(ctx, patterns)
	if err != nil {
		return nil, err
	}
	c.spec.Globs = globs
	m, err := s.matchPatterns(ctx, c.spec.Globs)
	c.found, c.man.LimitsHit, c.man.SearchCut = m.found, m.cut, m.cut
	if s.opts.Exclude != nil {
		c.found = slices.DeleteFunc(c.found, func(f matchedFile) bool { return s.opts.Exclude(f.Path) })
	}
	for _, one := range slices.Concat(skipped, m.skipped) {
		c.addSkipped(one)
	}
	return c, err
}

// addSkipped records a match that could not be collected.
func (c *collector) addSkipped(s Skipped) {
	if c.man.Skips++; c.man.Skips <= MaxSkipped {
		c.man.Skipped = append(c.man.Skipped, s)
	}
}

func (c *collector) run(ctx context.Context) error {
	for i, f := range c.found {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stage: collect: %w", err)
		}
		if len(c.man.Files) >= c.spec.MaxFiles || c.left <= 0 {
			c.man.LimitsHit, c.man.Left = true, len(c.found)-i
			return nil
		}
		ref, err := c.collectFile(ctx, f)
		switch {
		case err == nil && ref != nil:
			c.man.Files = append(c.man.Files, *ref)
			c.taken[f.at] = true
		case err == nil:
		case ctx.Err() != nil:
			return fmt.Errorf("stage: collect: %w", ctx.Err())
		case fault.Of(err) == fault.NotFound && strings.Contains(f.at, asidePrefix): // a temporary path of a transaction that has ended meanwhile
		default:
			c.addSkipped(Skipped{Name: f.Path, Code: fault.Of(err), Reason: err.Error()})
		}
	}
	return nil
}

// wantsContent reports whether content goes into the manifest or the store.
func (c *collector) wantsContent() bool { return c.spec.Inline || c.spec.Save }

// collectFile collects one file. It returns nil for a file that is in the manifest already,
// and for a directory.
func (c *collector) collectFile(ctx context.Context, f matchedFile) (*FileRef, error) {
	if f.Type == driver.TypeSymlink {
		at, info, err := c.s.resolveSymlink(ctx, f.at)
		if err != nil {
			return nil, err
		}
		if info.Type == driver.TypeDir || c.taken[at] {
			return nil, nil
		}
		f.at = at
	}
	if f.Type == driver.TypeOther {
		return nil, fmt.Errorf("%w: the path is neither a file nor a symlink", fault.InvalidArgument)
	}
	ref := &FileRef{Name: f.Path}
	if !c.wantsContent() && c.sink == nil && f.Type == driver.TypeFile && knownType(f.Path) {
		ref.SizeBytes, ref.MIMEType = f.Size, MIMEType(f.Path, nil)
		c.countFile(ref)
		return ref, nil
	}
	body, info, err := c.s.ws.Read(ctx, f.at, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	ref.SizeBytes = info.Size
	if !c.wantsContent() {
		return ref, c.passToSink(ref, info, body)
	}
	if err := c.readContent(ctx, ref, body); err != nil || c.sink == nil || ref.Error != "" {
		return ref, err
	}
	again, info, err := c.s.ws.Read(ctx, f.at, nil)
	if err != nil {
		return nil, err
	}
	defer again.Close()
	c.recordFailure(ref, c.sink(*ref, info, &limitedReader{r: again, limit: ref.SizeBytes}))
	return ref, nil
}

// resolveSymlink resolves a symlink, and describes its target.
func (s *Stage) resolveSymlink(ctx context.Context, name string) (string, workspace.Info, error) {
	info, err := s.ws.Stat(ctx, name, nil)
	if err != nil && fault.Of(err) != fault.SandboxViolation {
		return "", info, err
	}
	at, ierr := s.resolveInside(ctx, name)
	if ierr != nil {
		return name, info, err
	}
	if err != nil {
		info, err = s.ws.Stat(ctx, at, nil)
	}
	return at, info, err
}

// countFile counts a file that is only listed, and marks it if it is beyond the limits.
func (c *collector) countFile(ref *FileRef) {
	limit := min(c.spec.MaxFileBytes, c.left)
	ref.Truncated = ref.SizeBytes > limit
	c.man.LimitsHit = c.man.LimitsHit || ref.Truncated
	c.left -= min(ref.SizeBytes, limit)
}

// passToSink lists a file, and passes its content to the sink if there is one.
func (c *collector) passToSink(ref *FileRef, info workspace.Info, body io.Reader) error {
	limit := min(c.spec.MaxFileBytes, c.left)
	head, err := readUpTo(body, SniffLen, ref.SizeBytes)
	if err != nil {
		return err
	}
	ref.MIMEType = MIMEType(ref.Name, head)
	if c.sink == nil || ref.SizeBytes > limit {
		c.countFile(ref)
		if c.sink != nil {
			ref.Error = limitText(ref.SizeBytes, limit)
		}
		return nil
	}
	counted := &limitedReader{r: io.MultiReader(bytes.NewReader(head), body), limit: limit}
	c.recordFailure(ref, c.sink(*ref, info, counted))
	c.left -= counted.n
	if ref.Error == "" {
		ref.SizeBytes = counted.n
	}
	return nil
}

func limitText(size, limit int64) string {
	return fmt.Sprintf("%s: the file has %d bytes; the limit is %d", fault.ResourceExhausted, size, limit)
}

// readContent reads a file up to the limits.
func (c *collector) readContent(ctx context.Context, ref *FileRef, body io.Reader) error {
	limit := min(c.spec.MaxFileBytes, c.left)
	if !c.spec.Inline && ref.SizeBytes <= limit {
		return c.saveStream(ctx, ref, body, limit)
	}
	data, err := readUpTo(body, limit+1, ref.SizeBytes)
	if err != nil {
		return err
	}
	// The size is that of the content that was read; the file may have changed since
	// it was listed.
	if ref.Truncated = int64(len(data)) > limit; ref.Truncated {
		ref.SizeBytes, data = max(ref.SizeBytes, int64(len(data))), data[:limit]
	} else {
		ref.SizeBytes = int64(len(data))
	}
	ref.MIMEType = MIMEType(ref.Name, data[:min(len(data), SniffLen)])
	c.left -= int64(len(data))
	c.man.LimitsHit = c.man.LimitsHit || ref.Truncated
	if c.spec.Inline {
		ref.Content = string(data)
	}
	switch {
	case ref.Truncated && (c.spec.Save || c.sink != nil):
		ref.Error = limitText(ref.SizeBytes, limit)
	case c.spec.Save:
		c.saveArtifact(ctx, ref, bytes.NewReader(data))
	}
	return nil
}

// readUpTo reads at most limit bytes, and allocates no more than needed.
func readUpTo(r io.Reader, limit, size int64) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, min(limit, max(size, 0))+bytes.MinRead))
	_, err := buf.ReadFrom(io.LimitReader(r, limit))
	return buf.Bytes(), err
}

// saveStream saves a file without holding it in memory.
func (c *collector) saveStream(ctx context.Context, ref *FileRef, body io.Reader, limit int64) error {
	head, err := readUpTo(body, min(SniffLen, limit), ref.SizeBytes)
	if err != nil {
		return err
	}
	ref.MIMEType = MIMEType(ref.Name, head)
	counted := &limitedReader{r: io.LimitReader(io.MultiReader(bytes.NewReader(head), body), limit+1), limit: limit}
	c.saveArtifact(ctx, ref, counted)
	c.left -= counted.n
	if ref.Error == "" {
		ref.SizeBytes = counted.n
	}
	return nil
}

// A limitedReader counts what is read, and fails beyond the limit.
type limitedReader struct {
	r        io.Reader
	n, limit int64
}

func (c *limitedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.n > c.limit {
		return 0, fmt.Errorf("%w: the file grew beyond the limit", fault.ResourceExhausted)
	}
	return n, err
}

func (c *collector) saveArtifact(ctx context.Context, ref *FileRef, body io.Reader) {
	name, err := c.naming.Name(outputName(ref.Name, len(c.man.Files), c.s.ws.ID()))
	var art Artifact
	if err == nil {
		art, err = c.store.Save(ctx, name, body, ref.MIMEType)
	}
	if c.recordFailure(ref, err); err == nil {
		ref.SavedAs, ref.Version = art.Name, art.Version
	}
}

// recordFailure records that a file could not be saved or written, if err is not nil.
func (c *collector) recordFailure(ref *FileRef, err error) {
	if err == nil {
		return
	}
	ref.Error = err.Error()
	if c.fails++; c.failed == nil {
		c.failed = err
	}
}

func (c *collector) saveError() error {
	if c.failed == nil {
		return nil
	}
	return fmt.Errorf("stage: collect: %d of %d files failed: %w", c.fails, len(c.man.Files), c.failed)
}

// recordOutput records a collection, also one whose saves failed in part. It takes no
// lock, because a call that prepares the workspace may hold the lock for minutes.
func (s *Stage) recordOutput(ctx context.Context, c *collector) error {
	rec := OutputRecord{Globs: c.spec.Globs, LimitsHit: c.man.LimitsHit, Timestamp: s.opts.Now().UTC()}
	for _, f := range c.man.Files {
		if f.SavedAs != "" {
			rec.SavedAs, rec.Versions = append(rec.SavedAs, f.SavedAs), append(rec.Versions, f.Version)
		}
	}
	if err := s.opts.State.Record(ctx, s.ws.ID(), rec, s.opts.History); err != nil {
		return err
	}
	if s.opts.NoCopy {
		return nil
	}
	return s.refreshCopy(ctx)
}

// copyWait bounds how long a collection waits for the lock to update the copy of the
// metadata. A process that holds the lock for longer updates the copy itself.
const copyWait = 100 * time.Millisecond

func (s *Stage) refreshCopy(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, copyWait)
	defer cancel()
	unlock, err := s.opts.State.Lock(wait, s.ws.ID())
	if wait.Err() != nil && ctx.Err() == nil {
		if err == nil {
			unlock()
		}
		return nil
	}
	if err != nil {
		return err
	}
	h, err := s.beginLocked(ctx, unlock)
	if err != nil {
		return err
	}
	defer h.End()
	if h.Copied {
		h.copyInside(ctx)
		return nil
	}
	if h.claimCopy(ctx); !h.Copied {
		return nil
	}
	return h.Save(ctx)
}

// SaveFile saves one file of the workspace as an artifact. limit is the maximum size;
// 0 is no limit. The default name is the path.
func (s *Stage) SaveFile(ctx context.Context, file, name string, limit int64) (Artifact, error) {
	store := s.artifactStore(ctx)
	if store == nil {
		return Artifact{}, fmt.Errorf("stage: save %q: %w: this stage has no artifact store", file, fault.Unsupported)
	}
	if strings.ContainsAny(file, "*?[{") {
		if _, err := s.ws.Stat(ctx, file, nil); err != nil {
			return Artifact{}, fmt.Errorf("stage: save %q: %w: give the path of one file, not a pattern", file, fault.InvalidArgument)
		}
	}
	body, info, err := s.ws.Read(ctx, file, nil)
	if err != nil {
		return Artifact{}, err
	}
	defer body.Close()
	if limit > 0 && info.Size > limit {
		return Artifact{}, fmt.Errorf("stage: save %q: %w: the file has %d bytes; at most %d are allowed", file, fault.ResourceExhausted, info.Size, limit)
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
		rest = &limitedReader{r: rest, limit: limit}
	}
	return store.Save(ctx, name, rest, MIMEType(info.Path, head))
}
