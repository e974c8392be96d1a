package bootstrap

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/stage"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// fileDoer does a file with its content.
type fileDoer struct {
	r *Reconciler
	f File
}

func (d *fileDoer) mode() string { return strconv.FormatUint(uint64(d.f.Mode), 8) }

func (d *fileDoer) judge(ctx context.Context, rec stage.PreparedRecord) (verdict, error) {
	sum := driver.DigestBytes(d.f.Content)
	v := verdict{fingerprint: fingerprint("file", d.f.Target, d.mode(), sum)}
	if rec.Fingerprint != v.fingerprint {
		return v, nil
	}
	return d.r.unchanged(ctx, d.f.Target, rec, v, sum)
}

// unchanged looks whether what was made still looks as it did and, where it does
// not, whether it is still the same.
func (r *Reconciler) unchanged(ctx context.Context, target string, rec stage.PreparedRecord, v verdict, sum string) (verdict, error) {
	now, err := stage.LookInside(ctx, r.ws, target)
	if code := fault.Of(err); code == fault.NotFound || code == fault.SandboxViolation {
		v.drift = target + " is gone"
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if now == rec.Seen {
		return v, nil
	}
	is, err := r.ws.Digest(ctx, target)
	if err != nil || is != sum || modeChanged(ctx, r, target, rec) {
		v.drift = target + " was changed"
		return v, nil
	}
	rec.Seen = now
	v.refreshed = &rec
	return v, nil
}

// modeChanged reports whether a file has another mode than the one that was noted.
func modeChanged(ctx context.Context, r *Reconciler, target string, rec stage.PreparedRecord) bool {
	info, err := r.ws.Stat(ctx, target, nil)
	_, mode, ok := strings.Cut(rec.Digest, "/")
	return err != nil || ok && mode != strconv.FormatUint(uint64(info.Mode), 8)
}

func (d *fileDoer) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	if err := h.PutFile(ctx, stage.File{Path: d.f.Target, Content: d.f.Content, Mode: d.f.Mode}); err != nil {
		return nil, err
	}
	return nil, d.r.seen(ctx, d.f.Target, rec)
}

// seen notes how what was made looks.
func (r *Reconciler) seen(ctx context.Context, target string, rec *stage.PreparedRecord) error {
	info, err := r.ws.Stat(ctx, target, nil)
	if err != nil {
		return err
	}
	rec.Digest = "/" + strconv.FormatUint(uint64(info.Mode), 8)
	rec.Seen, err = stage.LookInside(ctx, r.ws, target)
	return err
}

// inputDoer does a file that comes from elsewhere.
type inputDoer struct {
	r *Reconciler
	f File
}

func (d *inputDoer) judge(ctx context.Context, rec stage.PreparedRecord) (verdict, error) {
	in := d.f.Input
	look, err := d.r.st.Look(ctx, *in)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{fingerprint: fingerprint("input", d.f.Target, in.From, in.Mode, strconv.FormatBool(in.Pin), look)}
	if rec.Fingerprint != v.fingerprint {
		return v, nil
	}
	return d.r.unchanged(ctx, d.f.Target, rec, v, rec.Source)
}

func (d *inputDoer) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	in := *d.f.Input
	in.To = d.f.Target
	if _, err := h.StageInputs(ctx, []stage.Input{in}); err != nil {
		return nil, err
	}
	if err := d.r.seen(ctx, d.f.Target, rec); err != nil {
		return nil, err
	}
	var err error
	rec.Source, err = d.r.ws.Digest(ctx, d.f.Target) // of what was made, to tell a change from a touch
	return nil, err
}

// templateDoer fills the workspace, once for each state of the template.
type templateDoer struct {
	r   *Reconciler
	dir string
}

func (d *templateDoer) judge(context.Context, stage.PreparedRecord) (verdict, error) {
	look, err := stage.Look(d.dir)
	if err != nil {
		return verdict{}, err
	}
	return verdict{fingerprint: fingerprint("template", d.dir, look)}, nil
}

func (d *templateDoer) apply(ctx context.Context, h *stage.Session, _ *stage.PreparedRecord) ([]string, error) {
	res, err := h.FillWorkspace(ctx, d.dir, nil)
	return leftOut(res), err
}

// leftOut tells what of a tree stayed out, and why.
func leftOut(res workspace.ImportResult) []string {
	var notes []string
	for _, s := range res.Skipped {
		notes = append(notes, fmt.Sprintf("%q stays out: %s", s.Path, s.Reason))
	}
	if more := res.Skips - len(res.Skipped); more > 0 {
		notes = append(notes, fmt.Sprintf("%d more stay out", more))
	}
	return notes
}

// skillDoer stages a skill.
type skillDoer struct {
	r *Reconciler
	k Skill
}

func (d *skillDoer) target() string { return path.Join(stage.DirSkills, d.k.Name) }

// judge reads the skill only where it looks otherwise than the last time.
func (d *skillDoer) judge(ctx context.Context, rec stage.PreparedRecord) (verdict, error) {
	look, err := stage.Look(d.k.Dir)
	if err != nil {
		return verdict{}, err
	}
	next := rec
	if rec.Source != look {
		sum, err := stage.DirDigest(ctx, d.k.Dir, stage.AlgorithmCroft)
		if err != nil {
			return verdict{}, err
		}
		next.Source, next.Digest = look, sum
	}
	v := verdict{fingerprint: fingerprint("skill", d.k.Name, next.Digest, strconv.FormatBool(d.k.ReadOnly))}
	if next != rec {
		v.refreshed = &next
	}
	gone, err := d.r.missing(ctx, path.Join(d.target(), SkillFile))
	if err != nil && fault.Of(err) != fault.SandboxViolation {
		return verdict{}, err
	}
	if gone || err != nil {
		v.drift = SkillFile + " is gone"
	}
	return v, nil
}

func (d *skillDoer) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	res, err := h.StageDirectory(ctx, d.k.Dir, d.target(), &stage.DirectoryOptions{ReadOnly: d.k.ReadOnly})
	if err != nil {
		return nil, err
	}
	h.Skills[d.k.Name] = stage.SkillMeta{
		Name: d.k.Name, RelPath: d.target(), Digest: rec.Digest, StagedAt: d.r.now().UTC(), Mounted: res.Method == driver.ImportMount,
	}
	rec.Seen, err = stage.LookInside(ctx, d.r.ws, d.target()) // for prune: a working copy may be worked on
	return leftOut(res), err
}

// commandDoer runs a command.
type commandDoer struct {
	r *Reconciler
	c Command
}

func (d *commandDoer) judge(ctx context.Context, rec stage.PreparedRecord) (verdict, error) {
	look := ""
	for _, name := range d.c.FingerprintInputs {
		l, err := stage.LookInside(ctx, d.r.ws, name)
		if err != nil && fault.Of(err) != fault.NotFound {
			return verdict{}, err
		}
		look += l + "\n"
	}
	next := rec
	if rec.Source != look || rec.Digest == "" {
		sum, err := d.inputs(ctx)
		if err != nil {
			return verdict{}, err
		}
		next.Source, next.Digest = look, sum
	}
	v := verdict{fingerprint: fingerprint("command", d.c.base(), next.Digest)}
	if next != rec {
		v.refreshed = &next
	}
	for _, name := range append([]string{d.c.MarkerPath}, d.c.ObservedPaths...) {
		if name == "" {
			continue
		}
		gone, err := d.r.missing(ctx, name)
		if err != nil {
			return verdict{}, err
		}
		if gone && v.drift == "" {
			v.drift = name + " is gone"
		}
	}
	return v, nil
}

// inputs is the digest of the files whose content counts.
func (d *commandDoer) inputs(ctx context.Context) (string, error) {
	parts := []string{"inputs"}
	for _, name := range d.c.FingerprintInputs {
		sum, err := d.r.ws.Digest(ctx, name)
		if err != nil && fault.Of(err) != fault.NotFound {
			return "", err
		}
		parts = append(parts, name, sum)
	}
	return fingerprint(parts...), nil
}

func (d *commandDoer) apply(ctx context.Context, _ *stage.Session, _ *stage.PreparedRecord) ([]string, error) {
	return nil, d.c.apply(ctx, d.r)
}

// apply runs the command, and leaves its mark.
func (c Command) apply(ctx context.Context, r *Reconciler) error {
	cmd := driver.Command{
		Argv: append([]string{c.Cmd}, c.Args...), Env: c.Env, Dir: c.Cwd, Timeout: c.Timeout, Limits: c.Limits, Stdin: strings.NewReader(c.Stdin),
	}
	if cmd.Timeout == 0 {
		cmd.Timeout = DefaultTimeout
	}
	res, err := r.st.Run(ctx, cmd)
	if err != nil {
		return fmt.Errorf("run %s: %w", c.Cmd, err)
	}
	if err := runError(c.Cmd, res); err != nil || c.MarkerPath == "" {
		return err
	}
	gone, err := r.missing(ctx, c.MarkerPath)
	if err != nil || !gone {
		return err
	}
	text := "reconciled at " + r.now().UTC().Format("2006-01-02T15:04:05Z07:00") + "\n"
	_, err = r.ws.WriteFile(ctx, c.MarkerPath, []byte(text), &workspace.WriteOptions{Parents: true})
	return err
}

// runError is the error of a command that did not end well, with what it said.
func runError(name string, res driver.Result) error {
	if res.Succeeded() {
		return nil
	}
	code, how := fault.Failed, fmt.Sprintf("exited %d", res.ExitCode)
	switch {
	case res.Cause == driver.CauseTimeout:
		code, how = fault.DeadlineExceeded, "ran out of time after "+res.Duration.String()
	case res.Cause != "":
		how = "ended: " + string(res.Cause)
	case res.Signal != "":
		how = "was ended by " + res.Signal
	}
	return fmt.Errorf("command %q %s: %w: stderr=%s stdout=%s", name, how, code, cut(res.Stderr), cut(res.Stdout))
}

// cut is the end of what a program said, where the reason mostly is.
func cut(out []byte) string {
	const most = 2048
	s := strings.TrimSpace(strings.ToValidUTF8(string(out), "?"))
	if len(s) > most {
		s = "..." + s[len(s)-most:]
	}
	return strconv.Quote(s)
}
