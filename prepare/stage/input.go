package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// An Input says what to bring in, and to where.
type Input struct {
	// From is artifact://name[@version], host:///absolute/path,
	// workspace://path or skill://name/path.
	From string `json:"from"`
	To   string `json:"to,omitempty"`   // "" is work/inputs/ and the last element of From
	Mode string `json:"mode,omitempty"` // "copy", which is the default, or "link", which is a copy where no link can be
	Pin  bool   `json:"pin,omitempty"`  // an artifact without a version stays the one that was staged here first
}

// Modes of inputs.
const (
	ModeCopy = "copy"
	ModeLink = "link"
)

// Schemes of inputs.
const (
	schemeArtifact  = "artifact"
	schemeHost      = "host"
	schemeWorkspace = "workspace"
	schemeSkill     = "skill"
)

// source is an Input, parsed.
type source struct {
	Input
	scheme  string
	rest    string // what follows the scheme
	name    string // of an artifact
	version int    // of an artifact
	target  string
}

// parseInput judges the words of an input. It looks at nothing.
func (s *Stage) parseInput(in Input) (source, error) {
	bad := func(why string) error {
		return fmt.Errorf("stage: input %.200q: %w: %s", in.From, fault.InvalidArgument, why)
	}
	src := source{Input: in, version: Latest}
	var ok bool
	if src.scheme, src.rest, ok = strings.Cut(in.From, "://"); !ok || src.rest == "" {
		return source{}, bad("it is artifact://name[@version], host:///path, workspace://path or skill://name/path")
	}
	switch strings.ToLower(in.Mode) {
	case "", ModeCopy:
		src.Mode = ModeCopy
	case ModeLink:
		src.Mode = ModeLink
	default:
		return source{}, bad(fmt.Sprintf("mode %q is neither copy nor link", in.Mode))
	}
	base := path.Base(path.Clean("/" + src.rest))
	switch src.scheme {
	case schemeArtifact:
		var err error
		if src.name, src.version, err = ParseRef(src.rest); err != nil {
			return source{}, err
		}
		base = path.Base(src.name)
	case schemeHost:
		if !filepath.IsAbs(src.rest) {
			return source{}, bad("the path must be absolute")
		}
	case schemeSkill:
		rel, err := s.skillPath(src.rest)
		if err != nil {
			return source{}, err
		}
		src.rest = rel
	case schemeWorkspace:
		rel, err := s.target(src.rest)
		if err != nil {
			return source{}, err
		}
		src.rest = rel
	default:
		return source{}, bad("the schemes are artifact, host, workspace and skill")
	}
	if in.Pin && src.scheme != schemeArtifact {
		return source{}, bad("only artifacts have versions to pin")
	}
	if in.To == "" {
		in.To = path.Join(DirInputs, base)
	}
	var err error
	if src.target, err = s.target(in.To); err != nil {
		return source{}, fmt.Errorf("stage: input to: %w", err)
	}
	return src, nil
}

// skillPath is where a path of a skill is. It stays in that skill.
func (s *Stage) skillPath(rest string) (string, error) {
	name, rel, _ := strings.Cut(rest, "/")
	if err := CheckSkillName(name); err != nil {
		return "", err
	}
	clean, err := s.ws.Clean(path.Join(".", rel))
	if err != nil || strings.HasPrefix(rel, "/") {
		return "", fmt.Errorf("stage: skill path %q: %w: it leaves the skill", rest, fault.SandboxViolation)
	}
	return path.Join(DirSkills, name, clean), nil
}

// CheckSkillName refuses what can't name a skill: 1 to 64 of letters, digits, dot,
// dash and underscore, the first of them a letter or a digit.
func CheckSkillName(name string) error {
	const most = 64
	ok := name != "" && len(name) <= most
	for i, c := range []byte(name) {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		ok = ok && (alnum || i > 0 && strings.IndexByte("._-", c) >= 0)
	}
	if !ok {
		return fmt.Errorf("stage: skill name %.80q: %w: it is 1 to %d of letters, digits, '.', '-' and '_', and begins with a letter or a digit", name, fault.InvalidArgument, most)
	}
	return nil
}

// StageInputs brings inputs in: all of them or, where anything fails, none. The
// records say what each resolved to.
func (s *Stage) StageInputs(ctx context.Context, inputs []Input) (recs []InputRecord, err error) {
	ctx, span := s.span(ctx, SpanFiles, attribute.Int(AttrCount, len(inputs)))
	defer func() { end(span, err) }()
	if len(inputs) == 0 {
		return nil, nil
	}
	sources := make([]source, len(inputs))
	targets := make([]string, len(inputs))
	for i, in := range inputs {
		if sources[i], err = s.parseInput(in); err != nil {
			return nil, err
		}
		targets[i] = sources[i].target
	}
	if err := apart(targets); err != nil {
		return nil, err
	}
	if err := s.layout(ctx); err != nil {
		return nil, err
	}
	h, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer h.End()
	return h.StageInputs(ctx, inputs)
}

// StageInputs is that of the stage for who holds the memory.
func (h *Session) StageInputs(ctx context.Context, inputs []Input) ([]InputRecord, error) {
	st := &staging{h: h, recs: make([]InputRecord, len(inputs))}
	defer st.close()
	var steps []step
	for i, in := range inputs {
		src, err := h.s.parseInput(in)
		if err != nil {
			return nil, err
		}
		h.pin(&src)
		st.recs[i] = InputRecord{From: in.From, To: src.target, Mode: ModeCopy, Timestamp: h.s.opts.Now().UTC()}
		steps = append(steps, step{src.target, func(ctx context.Context, at string) error {
			return st.make(ctx, src, at, &st.recs[i])
		}})
	}
	if err := h.transact(ctx, steps, func() { h.Inputs = append(h.Inputs, st.recs...) }); err != nil {
		return nil, fmt.Errorf("stage: stage %d inputs: %w", len(inputs), err)
	}
	return st.recs, nil
}

// pin gives an input that is to stay as it was the version that it had.
func (h *Session) pin(src *source) {
	if !src.Pin || src.version != Latest {
		return
	}
	for _, r := range slices.Backward(h.Inputs) {
		rest, ok := strings.CutPrefix(r.From, schemeArtifact+"://")
		if !ok || r.To != src.target || r.Version == nil {
			continue
		}
		if name, _, err := ParseRef(rest); err == nil && name == src.name {
			src.version = *r.Version
			return
		}
	}
}

// A staging is the inputs of one call.
type staging struct {
	h    *Session
	recs []InputRecord
	open []io.Closer // held until the end, since paths refer to them
}

func (st *staging) close() {
	for _, c := range st.open {
		_ = c.Close() // only read from
	}
}

func (st *staging) make(ctx context.Context, src source, at string, rec *InputRecord) error {
	switch src.scheme {
	case schemeArtifact:
		return st.artifact(ctx, src, at, rec)
	case schemeHost:
		return st.host(ctx, src, at, rec)
	}
	return st.within(ctx, src, at, rec)
}

func (st *staging) artifact(ctx context.Context, src source, at string, rec *InputRecord) error {
	arts := st.h.s.artifacts(ctx)
	if arts == nil {
		return fmt.Errorf("stage: input %q: %w: there is no artifact store here", src.From, fault.Unsupported)
	}
	body, art, err := arts.Open(ctx, src.name, src.version)
	if err != nil {
		return err
	}
	defer body.Close()
	rec.Resolved, rec.Version = art.Ref(), &art.Version
	_, err = st.h.s.ws.Write(ctx, at, body, &driver.WriteOptions{Mode: 0o644, CreateOnly: true})
	return err
}

// host copies from the host. A link would lead out of the workspace, so there is
// none.
func (st *staging) host(ctx context.Context, src source, at string, rec *InputRecord) error {
	s := st.h.s
	root, rel, err := s.underRoot(src.rest)
	if err != nil {
		return err
	}
	st.open = append(st.open, root)
	info, err := hostInfo(root, src.rest, rel)
	if err != nil {
		return err
	}
	if !info.IsDir() && !info.Mode().IsRegular() { // a device is not even opened
		return fmt.Errorf("stage: host path %q: %w: it is neither a file nor a directory", src.rest, fault.InvalidArgument)
	}
	rec.Resolved = filepath.Join(root.Name(), rel)
	f, err := root.OpenFile(rel, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return fmt.Errorf("stage: host path %q: %w: %w", src.rest, fault.Of(err), err)
	}
	st.open = append(st.open, f)
	if info, err = f.Stat(); err != nil { // somebody may have put another in its place
		return fmt.Errorf("stage: host path %q: %w: %w", src.rest, fault.Of(err), err)
	}
	switch {
	case info.IsDir():
		_, err := s.ws.Import(ctx, opened(f, rec.Resolved), at, nil)
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("stage: host path %q: %w: it is neither a file nor a directory", src.rest, fault.InvalidArgument)
	}
	mode := info.Mode().Perm()
	_, err = s.ws.Write(ctx, at, f, &driver.WriteOptions{Mode: mode, SetMode: mode != 0, CreateOnly: true})
	return err
}

// opened is a path to a directory that is open, so that nobody can put another in
// its place.
func opened(f *os.File, name string) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	}
	return name
}

// within links or copies what is in the workspace already.
func (st *staging) within(ctx context.Context, src source, at string, rec *InputRecord) error {
	ws := st.h.s.ws
	rec.Resolved = src.rest
	info, err := ws.Stat(ctx, src.rest, nil)
	if err != nil {
		return err
	}
	if src.target == src.rest || strings.HasPrefix(src.target, src.rest+"/") || strings.HasPrefix(src.rest, src.target+"/") {
		return fmt.Errorf("stage: input %q to %q: %w: one is inside the other", src.From, src.target, fault.InvalidArgument)
	}
	if src.Mode == ModeLink {
		target, err := filepath.Rel(path.Dir(src.target), src.rest)
		if err != nil {
			return fmt.Errorf("stage: input %q: %w: %w", src.From, fault.InvalidArgument, err)
		}
		err = ws.Symlink(ctx, filepath.ToSlash(target), at)
		if !errors.Is(err, fault.Unsupported) {
			rec.Mode = ModeLink
			return err
		}
	}
	return ws.Copy(ctx, src.rest, at, &driver.CopyOptions{Recursive: info.Type == driver.TypeDir, CreateOnly: true})
}

type artifactsKey struct{}

// WithArtifacts returns a context under which calls use the given artifacts in
// place of those of the stage: for frameworks that have an artifact service for
// each session.
func WithArtifacts(ctx context.Context, a ArtifactStore) context.Context {
	return context.WithValue(ctx, artifactsKey{}, a)
}

// An ArtifactStore saves and opens artifacts. Artifacts is one.
type ArtifactStore interface {
	Save(ctx context.Context, name string, body io.Reader, mime string) (Artifact, error)
	Open(ctx context.Context, name string, version int) (io.ReadCloser, Artifact, error)
}

// artifacts returns the store for a call, nil for none.
func (s *Stage) artifacts(ctx context.Context) ArtifactStore {
	if a, ok := ctx.Value(artifactsKey{}).(ArtifactStore); ok {
		return a
	}
	if s.opts.Artifacts == nil {
		return nil
	}
	return s.opts.Artifacts
}

// Look describes how what an input comes from looks, without reading any of it:
// while it is the same, staging it again brings the same. Sources that are missing
// are an error.
func (s *Stage) Look(ctx context.Context, in Input) (string, error) {
	src, err := s.parseInput(in)
	if err != nil {
		return "", err
	}
	switch src.scheme {
	case schemeArtifact:
		return s.lookArtifact(ctx, src)
	case schemeHost:
		root, rel, err := s.underRoot(src.rest)
		if err != nil {
			return "", err
		}
		defer root.Close() //nolint:errcheck // only read from
		if _, err := hostInfo(root, src.rest, rel); err != nil {
			return "", err
		}
		return Fingerprint(filepath.Join(root.Name(), rel))
	}
	return FingerprintInside(ctx, s.ws, src.rest)
}

func (s *Stage) lookArtifact(ctx context.Context, src source) (string, error) {
	if src.version != Latest || src.Pin {
		return fmt.Sprintf("%s@%d", src.name, src.version), nil
	}
	store, ok := s.artifacts(ctx).(interface {
		Versions(ctx context.Context, name string) ([]int, error)
	})
	if !ok {
		return src.name, nil
	}
	list, err := store.Versions(ctx, src.name)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("stage: artifact %q: %w", src.name, fault.NotFound)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s@%d", src.name, list[len(list)-1]), nil
}

// FingerprintInside describes how a file or a tree of a workspace looks. Where the
// provider tells of each entry whether it was changed, nothing is read, and who sets
// times back does not hide a change; elsewhere files are read for it.
func FingerprintInside(ctx context.Context, ws *workspace.Workspace, name string) (string, error) {
	info, err := ws.Stat(ctx, name, &driver.StatOptions{ChangeToken: true})
	if err != nil {
		return "", err
	}
	h := driver.NewDigest()
	if info.Type != driver.TypeDir {
		line, err := FingerprintOf(ctx, ws, info)
		io.WriteString(h, line) //nolint:errcheck // a hash never fails
		return driver.SumDigest(h), err
	}
	err = eachInside(ctx, ws, name, -1, func(e workspace.Info) error {
		line, err := FingerprintOf(ctx, ws, e)
		io.WriteString(h, strconv.Quote(e.Path)+" "+line) //nolint:errcheck // a hash never fails
		return err
	})
	return driver.SumDigest(h), err
}

// FingerprintOf describes how one entry of a workspace looks, which was listed or asked for
// with its mark. Of a directory it does not count what is in it.
func FingerprintOf(ctx context.Context, ws *workspace.Workspace, i workspace.Info) (string, error) {
	when := i.ModTime.UnixNano()
	switch {
	case i.Type == driver.TypeDir:
		i.ChangeToken, when = "", 0 // both change with what is in it
	case i.Type == driver.TypeFile && i.ChangeToken == "":
		now, err := ws.Stat(ctx, i.Path, &driver.StatOptions{Digest: true})
		if err != nil {
			return "", err
		}
		i.ChangeToken = now.Digest
	}
	const decimal, octal = 10, 8
	buf := append(make([]byte, 0, 96), i.Type...)
	buf = strconv.AppendInt(append(buf, ' '), i.Size, decimal)
	buf = strconv.AppendUint(append(buf, ' '), uint64(i.Mode), octal)
	buf = strconv.AppendInt(append(buf, ' '), when, decimal)
	if i.Target != "" {
		buf = strconv.AppendQuote(append(buf, ' '), i.Target)
	}
	return string(append(append(append(buf, ' '), i.ChangeToken...), '\n')), nil
}

// eachInside visits what is below a directory of a workspace, with marks.
func eachInside(ctx context.Context, ws *workspace.Workspace, name string, depth int, visit func(workspace.Info) error) error {
	for after := ""; ; {
		page, err := ws.List(ctx, name, &driver.ListOptions{Depth: depth, Limit: driver.MaxListLimit, After: after, ChangeToken: true})
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if err := visit(e); err != nil {
				return err
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// ListInside lists what is below a directory of a workspace, to the given depth,
// with marks; -1 is all.
func ListInside(ctx context.Context, ws *workspace.Workspace, name string, depth int) ([]workspace.Info, error) {
	var list []workspace.Info
	err := eachInside(ctx, ws, name, depth, func(i workspace.Info) error {
		list = append(list, i)
		return nil
	})
	return list, err
}

// Inside returns the path of the workspace that an input comes from, "" where it
// comes from elsewhere.
func (s *Stage) Inside(in Input) string {
	src, err := s.parseInput(in)
	if err != nil || src.scheme != schemeWorkspace && src.scheme != schemeSkill {
		return ""
	}
	return src.rest
}

// Target returns where an input goes.
func (s *Stage) Target(in Input) (string, error) {
	src, err := s.parseInput(in)
	return src.target, err
}
