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

// An Input says what to stage, and where.
type Input struct {
	// From is artifact://name[@version], host:///absolute/path,
	// workspace://path or skill://name/path.
	From string `json:"from"`
	To   string `json:"to,omitempty"`   // default: work/inputs/ and the last element of From
	Mode string `json:"mode,omitempty"` // "copy" (default) or "link"; a link falls back to a copy
	Pin  bool   `json:"pin,omitempty"`  // an artifact without a version keeps the version that was staged first
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

// source is a parsed Input.
type source struct {
	Input
	scheme  string
	rest    string // what follows the scheme
	name    string // of an artifact
	version int    // of an artifact
	target  string
}

// parseInput validates the syntax of an input. It accesses no file.
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
		rel, err := s.cleanTarget(src.rest)
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
	if src.target, err = s.cleanTarget(in.To); err != nil {
		return source{}, fmt.Errorf("stage: input to: %w", err)
	}
	return src, nil
}

// skillPath returns the workspace path of a path of a skill. A path that leaves the
// skill is refused.
func (s *Stage) skillPath(rest string) (string, error) {
	name, rel, _ := strings.Cut(rest, "/")
	if err := CheckSkillName(name); err != nil {
		return "", err
	}
	clean, err := s.ws.Clean(path.Join(".", rel))
	if err != nil || strings.HasPrefix(rel, "/") {
		return "", fmt.Errorf("stage: skill path %q: %w: the path leaves the skill", rest, fault.SandboxViolation)
	}
	return path.Join(DirSkills, name, clean), nil
}

// CheckSkillName refuses invalid skill names. A valid name has 1 to 64 letters,
// digits, dots, dashes and underscores, and begins with a letter or a digit.
func CheckSkillName(name string) error {
	const most = 64
	ok := name != "" && len(name) <= most
	for i, c := range []byte(name) {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		ok = ok && (alnum || i > 0 && strings.IndexByte("._-", c) >= 0)
	}
	if !ok {
		return fmt.Errorf("stage: skill name %.80q: %w: a name has 1 to %d letters, digits, '.', '-' and '_', and begins with a letter or a digit", name, fault.InvalidArgument, most)
	}
	return nil
}

// StageInputs stages inputs, all or nothing. The records say what each input resolved
// to.
func (s *Stage) StageInputs(ctx context.Context, inputs []Input) (recs []InputRecord, err error) {
	ctx, span := s.startSpan(ctx, SpanFiles, attribute.Int(AttrCount, len(inputs)))
	defer func() { endSpan(span, err) }()
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
	if err := checkDisjoint(targets); err != nil {
		return nil, err
	}
	if err := s.ensureLayoutOnce(ctx); err != nil {
		return nil, err
	}
	h, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer h.End()
	return h.StageInputs(ctx, inputs)
}

// StageInputs is Stage.StageInputs within a session.
func (h *Session) StageInputs(ctx context.Context, inputs []Input) ([]InputRecord, error) {
	st := &inputStaging{h: h, recs: make([]InputRecord, len(inputs))}
	defer st.close()
	var steps []step
	for i, in := range inputs {
		src, err := h.s.parseInput(in)
		if err != nil {
			return nil, err
		}
		h.pinVersion(&src)
		st.recs[i] = InputRecord{From: in.From, To: src.target, Mode: ModeCopy, Timestamp: h.s.opts.Now().UTC()}
		steps = append(steps, step{src.target, func(ctx context.Context, at string) error {
			return st.stageInput(ctx, src, at, &st.recs[i])
		}})
	}
	if err := h.transact(ctx, steps, func() { h.Inputs = append(h.Inputs, st.recs...) }); err != nil {
		return nil, fmt.Errorf("stage: stage %d inputs: %w", len(inputs), err)
	}
	return st.recs, nil
}

// pinVersion sets the version of a pinned input to the version that was staged first.
func (h *Session) pinVersion(src *source) {
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

// A inputStaging stages the inputs of one call.
type inputStaging struct {
	h    *Session
	recs []InputRecord
	open []io.Closer // open until the end, because paths refer to their descriptors
}

func (st *inputStaging) close() {
	for _, c := range st.open {
		_ = c.Close() // read only
	}
}

func (st *inputStaging) stageInput(ctx context.Context, src source, at string, rec *InputRecord) error {
	switch src.scheme {
	case schemeArtifact:
		return st.stageArtifact(ctx, src, at, rec)
	case schemeHost:
		return st.stageHostPath(ctx, src, at, rec)
	}
	return st.stageWorkspacePath(ctx, src, at, rec)
}

func (st *inputStaging) stageArtifact(ctx context.Context, src source, at string, rec *InputRecord) error {
	arts := st.h.s.artifactStore(ctx)
	if arts == nil {
		return fmt.Errorf("stage: input %q: %w: this stage has no artifact store", src.From, fault.Unsupported)
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

// stageHostPath copies from the host. It never links, because a link would leave the
// workspace.
func (st *inputStaging) stageHostPath(ctx context.Context, src source, at string, rec *InputRecord) error {
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
		return fmt.Errorf("stage: host path %q: %w: the path is neither a file nor a directory", src.rest, fault.InvalidArgument)
	}
	rec.Resolved = filepath.Join(root.Name(), rel)
	f, err := root.OpenFile(rel, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return fmt.Errorf("stage: host path %q: %w: %w", src.rest, fault.Of(err), err)
	}
	st.open = append(st.open, f)
	if info, err = f.Stat(); err != nil { // TOCTOU: the path may have been replaced before the open
		return fmt.Errorf("stage: host path %q: %w: %w", src.rest, fault.Of(err), err)
	}
	switch {
	case info.IsDir():
		_, err := s.ws.Import(ctx, fdPath(f, rec.Resolved), at, nil)
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("stage: host path %q: %w: the path is neither a file nor a directory", src.rest, fault.InvalidArgument)
	}
	mode := info.Mode().Perm()
	_, err = s.ws.Write(ctx, at, f, &driver.WriteOptions{Mode: mode, SetMode: mode != 0, CreateOnly: true})
	return err
}

// fdPath returns a path to an open directory by its descriptor (/proc/self/fd), so
// that the directory can't be replaced meanwhile (TOCTOU).
func fdPath(f *os.File, name string) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	}
	return name
}

// stageWorkspacePath links or copies a path of the workspace itself.
func (st *inputStaging) stageWorkspacePath(ctx context.Context, src source, at string, rec *InputRecord) error {
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

// WithArtifacts returns a context under which calls use the given artifacts instead
// of those of the stage: for frameworks with an artifact service per session.
func WithArtifacts(ctx context.Context, a ArtifactStore) context.Context {
	return context.WithValue(ctx, artifactsKey{}, a)
}

// An ArtifactStore saves and opens artifacts. Artifacts is one.
type ArtifactStore interface {
	Save(ctx context.Context, name string, body io.Reader, mime string) (Artifact, error)
	Open(ctx context.Context, name string, version int) (io.ReadCloser, Artifact, error)
}

// artifactStore returns the store for a call, or nil.
func (s *Stage) artifactStore(ctx context.Context) ArtifactStore {
	if a, ok := ctx.Value(artifactsKey{}).(ArtifactStore); ok {
		return a
	}
	if s.opts.Artifacts == nil {
		return nil
	}
	return s.opts.Artifacts
}

// InputFingerprint returns the fingerprint of the source of an input, without reading
// content: while it is equal, staging again gives the same result. A missing source
// is an error.
func (s *Stage) InputFingerprint(ctx context.Context, in Input) (string, error) {
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
		defer root.Close() //nolint:errcheck // read only
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
	store, ok := s.artifactStore(ctx).(interface {
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

// FingerprintInside returns the fingerprint of a file or tree of a workspace. If the
// provider has change tokens, nothing is read, and a program that sets times back
// can't hide a change. Otherwise files are read.
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

// FingerprintOf returns the fingerprint of one entry of a workspace, which must have
// been listed with its change token. The content of a directory is not part of it.
func FingerprintOf(ctx context.Context, ws *workspace.Workspace, i workspace.Info) (string, error) {
	when := i.ModTime.UnixNano()
	switch {
	case i.Type == driver.TypeDir:
		i.ChangeToken, when = "", 0 // both change with the content of the directory
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

// eachInside visits the entries below a directory of a workspace, with change tokens.
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

// ListInside lists the entries below a directory of a workspace, to the given depth,
// with change tokens; -1 is all.
func ListInside(ctx context.Context, ws *workspace.Workspace, name string, depth int) ([]workspace.Info, error) {
	var list []workspace.Info
	err := eachInside(ctx, ws, name, depth, func(i workspace.Info) error {
		list = append(list, i)
		return nil
	})
	return list, err
}

// InputPath returns the path of an input in the workspace, or "" for another source.
func (s *Stage) InputPath(in Input) string {
	src, err := s.parseInput(in)
	if err != nil || src.scheme != schemeWorkspace && src.scheme != schemeSkill {
		return ""
	}
	return src.rest
}

// Target returns the path to which an input is staged.
func (s *Stage) Target(in Input) (string, error) {
	src, err := s.parseInput(in)
	return src.target, err
}
