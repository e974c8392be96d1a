package bootstrap

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// fileHandler writes a file with given content.
type fileHandler struct {
	r *Reconciler
	f File
}

func (d *fileHandler) modeText() string { return strconv.FormatUint(uint64(d.f.Mode), 8) }

func (d *fileHandler) compare(ctx context.Context, rec stage.PreparedRecord) (comparison, error) {
	sum := driver.DigestBytes(d.f.Content)
	v := comparison{fingerprint: digestParts("file", d.f.Target, d.modeText(), sum)}
	if rec.Fingerprint != v.fingerprint {
		return v, nil
	}
	return d.r.compareRecord(ctx, d.f.Target, rec, v, sum)
}

// compareRecord compares the fingerprint of the result with the record and, if it
// differs, the content.
func (r *Reconciler) compareRecord(ctx context.Context, target string, rec stage.PreparedRecord, v comparison, sum string) (comparison, error) {
	now, err := stage.FingerprintInside(ctx, r.ws, target)
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

// modeChanged reports whether the mode of a file differs from the record.
func modeChanged(ctx context.Context, r *Reconciler, target string, rec stage.PreparedRecord) bool {
	info, err := r.ws.Stat(ctx, target, nil)
	_, mode, ok := strings.Cut(rec.Digest, "/")
	return err != nil || ok && mode != strconv.FormatUint(uint64(info.Mode), 8)
}

func (d *fileHandler) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	if err := h.PutFile(ctx, stage.File{Path: d.f.Target, Content: d.f.Content, Mode: d.f.Mode}); err != nil {
		return nil, err
	}
	rec.Source = driver.DigestBytes(d.f.Content)
	return nil, d.r.recordFingerprint(ctx, d.f.Target, rec)
}

// recordFingerprint records the fingerprint of the result.
func (r *Reconciler) recordFingerprint(ctx context.Context, target string, rec *stage.PreparedRecord) error {
	info, err := r.ws.Stat(ctx, target, nil)
	if err != nil {
		return err
	}
	rec.Digest = "/" + strconv.FormatUint(uint64(info.Mode), 8)
	rec.Seen, err = stage.FingerprintInside(ctx, r.ws, target)
	return err
}

// inputHandler stages a file from another source.
type inputHandler struct {
	r *Reconciler
	f File
}

// skillName returns the name of the skill that contains the input, or "".
func (d *inputHandler) skillName() string {
	rest, ok := strings.CutPrefix(d.r.st.InputPath(*d.f.Input), stage.DirSkills+"/")
	if !ok || !strings.HasPrefix(d.f.Input.From, "skill:") {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func (d *inputHandler) dependsOn() []string {
	if name := d.r.st.InputPath(*d.f.Input); name != "" {
		return []string{name}
	}
	return nil
}

func (d *inputHandler) compare(ctx context.Context, rec stage.PreparedRecord) (comparison, error) {
	in := d.f.Input
	look, err := d.r.st.InputFingerprint(ctx, *in)
	if err != nil {
		return comparison{}, err
	}
	v := comparison{fingerprint: digestParts("input", d.f.Target, in.From, in.Mode, strconv.FormatBool(in.Pin), look)}
	if rec.Fingerprint != v.fingerprint {
		return v, nil
	}
	return d.r.compareRecord(ctx, d.f.Target, rec, v, rec.Source)
}

func (d *inputHandler) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	in := *d.f.Input
	in.To = d.f.Target
	if _, err := h.StageInputs(ctx, []stage.Input{in}); err != nil {
		return nil, err
	}
	if err := d.r.recordFingerprint(ctx, d.f.Target, rec); err != nil {
		return nil, err
	}
	var err error
	rec.Source, err = d.r.ws.Digest(ctx, d.f.Target) // digest of the result: distinguishes a change from a touch
	return nil, err
}

// commandHandler runs a command.
type commandHandler struct {
	r *Reconciler
	c Command
}

func (d *commandHandler) dependsOn() []string { return d.c.FingerprintInputs }

func (d *commandHandler) compare(ctx context.Context, rec stage.PreparedRecord) (comparison, error) {
	if !d.r.ws.Capabilities().Has(driver.CapShell) {
		return comparison{}, fmt.Errorf("run %s: %w: this workspace has no shell", d.c.Cmd, fault.Unsupported)
	}
	look := ""
	for _, name := range d.c.FingerprintInputs {
		l, err := stage.FingerprintInside(ctx, d.r.ws, name)
		if err != nil && fault.Of(err) != fault.NotFound {
			return comparison{}, err
		}
		look += l + "\n"
	}
	next := rec
	if rec.Source != look || rec.Digest == "" {
		sum, err := d.inputsDigest(ctx)
		if err != nil {
			return comparison{}, err
		}
		next.Source, next.Digest = look, sum
	}
	v := comparison{fingerprint: digestParts("command", d.c.declarationFingerprint(), next.Digest)}
	if next != rec {
		v.refreshed = &next
	}
	for _, name := range append([]string{d.c.MarkerPath}, d.c.ObservedPaths...) {
		if name == "" {
			continue
		}
		gone, err := d.r.isMissing(ctx, name)
		if err != nil {
			return comparison{}, fmt.Errorf("path %q: %w", name, err)
		}
		if gone && v.drift == "" {
			v.drift = name + " is gone"
		}
	}
	return v, nil
}

// inputsDigest returns the digest of the FingerprintInputs.
func (d *commandHandler) inputsDigest(ctx context.Context) (string, error) {
	parts := []string{"inputs"}
	for _, name := range d.c.FingerprintInputs {
		sum, err := d.r.ws.Digest(ctx, name)
		if err != nil && fault.Of(err) != fault.NotFound {
			return "", err
		}
		parts = append(parts, name, sum)
	}
	return digestParts(parts...), nil
}

func (d *commandHandler) apply(ctx context.Context, _ *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	if err := d.c.run(ctx, d.r); err != nil {
		return nil, err
	}
	if err := d.makeMarker(ctx, rec); err != nil {
		return nil, fmt.Errorf("marker %q: %w", d.c.MarkerPath, err)
	}
	var notes []string
	for _, name := range d.c.ObservedPaths {
		gone, err := d.r.isMissing(ctx, name)
		if err != nil {
			return notes, fmt.Errorf("path %q: %w", name, err)
		}
		if gone {
			notes = append(notes, fmt.Sprintf("it was run and did not make %q, which is observed: it is run again each time", name))
		}
	}
	return notes, nil
}

// makeMarker creates the marker file if the command did not, and records its fingerprint:
// Prune removes only what is recorded.
func (d *commandHandler) makeMarker(ctx context.Context, rec *stage.PreparedRecord) error {
	if d.c.MarkerPath == "" {
		return nil
	}
	gone, err := d.r.isMissing(ctx, d.c.MarkerPath)
	if err != nil || !gone {
		return err
	}
	text := "reconciled at " + d.r.now().UTC().Format("2006-01-02T15:04:05Z07:00") + "\n"
	if _, err := d.r.ws.WriteFile(ctx, d.c.MarkerPath, []byte(text), &workspace.WriteOptions{Parents: true}); err != nil {
		return err
	}
	rec.Seen, err = stage.FingerprintInside(ctx, d.r.ws, d.c.MarkerPath)
	return err
}

// run runs the command. A failed command is an error.
func (c Command) run(ctx context.Context, r *Reconciler) error {
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
	return runError(c.Cmd, res)
}

// runError returns the error of a failed command, with its output.
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
	return fmt.Errorf("command %q %s: %w: stderr=%s stdout=%s", name, how, code, outputTail(res.Stderr), outputTail(res.Stdout))
}

// outputTail returns the end of the output, which usually has the reason.
func outputTail(out []byte) string {
	const most = 2048
	s := strings.TrimSpace(strings.ToValidUTF8(string(out), "?"))
	if len(s) > most {
		s = "..." + s[len(s)-most:]
	}
	return strconv.Quote(s)
}
