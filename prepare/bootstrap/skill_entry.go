package bootstrap

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// leftOut lists what Import left out of a tree, and why.
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

// skillHandler stages a skill. It is never a mount of its source, which may change or
// vanish at any time. A read-only skill is a read-only mount of its copy, if the
// provider supports that.
type skillHandler struct {
	r *Reconciler
	k Skill
}

// compare reads the skill only if a fingerprint changed. It computes both fingerprints
// concurrently.
func (d *skillHandler) compare(ctx context.Context, rec stage.PreparedRecord) (comparison, error) {
	if d.k.Lost != nil {
		return comparison{}, d.k.Lost
	}
	var inside skillView
	var wg sync.WaitGroup
	if rec.Fingerprint != "" {
		wg.Go(func() { inside = d.viewSkill(ctx) })
	}
	look, names, err := d.sourceFingerprint()
	wg.Wait()
	if err != nil {
		return comparison{}, err
	}
	next := rec
	if rec.Source != look {
		sum, err := stage.DirDigest(ctx, d.k.Dir)
		if err != nil {
			return comparison{}, err
		}
		next.Source, next.Digest = look, sum
	}
	v := comparison{fingerprint: digestParts("skill", d.k.Name, next.Digest, strconv.FormatBool(d.k.ReadOnly))}
	if next != rec {
		v.refreshed = &next
	}
	if rec.Fingerprint == v.fingerprint {
		v.drift, err = d.findDrift(inside, names, rec)
	}
	return v, err
}

// sourceFingerprint returns the fingerprint of the source, and the paths in it that can be
// staged.
func (d *skillHandler) sourceFingerprint() (look string, names []string, err error) {
	look, err = stage.FingerprintEach(d.k.Dir, func(name string, mode fs.FileMode) {
		if mode.IsDir() || mode.IsRegular() {
			names = append(names, name)
		}
	})
	return look, names, err
}

// A skillView is the present state of a skill in the workspace.
type skillView struct {
	look string // fingerprint of a read-only skill
	have map[string]struct{}
	err  error
}

func (d *skillHandler) viewSkill(ctx context.Context) (v skillView) {
	if d.k.ReadOnly {
		v.look, v.err = stage.FingerprintInside(ctx, d.r.ws, d.k.targetPath())
		return v
	}
	found, err := d.r.ws.Glob(ctx, "**", &workspace.GlobOptions{Path: d.k.targetPath(), Hidden: true, Dirs: true})
	v.have, v.err = make(map[string]struct{}, len(found.Entries)), err
	for _, i := range found.Entries {
		v.have[i.Path] = struct{}{}
	}
	return v
}

// findDrift returns what differs from what was staged. A working copy may be edited: only
// missing files count.
func (d *skillHandler) findDrift(v skillView, names []string, rec stage.PreparedRecord) (string, error) {
	if isMissingOrReplaced(v.err) {
		return d.k.targetPath() + " is gone", nil
	}
	if v.err != nil {
		return "", v.err
	}
	if d.k.ReadOnly {
		if v.look != rec.Seen {
			return d.k.targetPath() + " was changed", nil
		}
		return "", nil
	}
	gone := d.missingNames(v, names)
	if gone == rec.Made {
		return "", nil
	}
	for name := range strings.SplitSeq(gone, "\n") {
		if !strings.Contains("\n"+rec.Made+"\n", "\n"+name+"\n") && name != "" {
			return path.Join(d.k.targetPath(), name) + " is gone", nil
		}
	}
	return "", nil
}

// isMissingOrReplaced reports whether an error means that the result is missing, or was replaced
// by another type of entry.
func isMissingOrReplaced(err error) bool {
	code := fault.Of(err)
	return code == fault.NotFound || code == fault.SandboxViolation || code == fault.InvalidArgument
}

// missingNames lists the names of a skill that its working copy lacks, one per line.
func (d *skillHandler) missingNames(v skillView, names []string) string {
	var b strings.Builder
	prefix := d.k.targetPath() + "/"
	for _, name := range names {
		if _, ok := v.have[prefix+name]; !ok {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(strings.Trim(strconv.Quote(name), `"`))
		}
	}
	return b.String()
}

func (d *skillHandler) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	_, names, err := d.sourceFingerprint()
	if err != nil {
		return nil, err
	}
	res, err := h.StageDirectory(ctx, d.k.Dir, d.k.targetPath(), &stage.DirectoryOptions{ReadOnly: d.k.ReadOnly})
	if err != nil {
		return nil, err
	}
	h.Skills[d.k.Name] = stage.SkillMeta{
		Name: d.k.Name, RelPath: d.k.targetPath(), Digest: rec.Digest, StagedAt: d.r.now().UTC(), Mounted: res.Method == driver.ImportMount,
	}
	rec.Made = ""
	if !d.k.ReadOnly {
		v := d.viewSkill(ctx)
		if v.err != nil {
			return leftOut(res), v.err
		}
		rec.Made = d.missingNames(v, names) // what can't be staged
	}
	rec.Seen, err = stage.FingerprintInside(ctx, d.r.ws, d.k.targetPath())
	return leftOut(res), err
}
