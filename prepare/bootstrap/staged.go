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

// skillDoer stages a skill. It is not shown by a mount of its source, which may
// change or go at any time; one that is read-only is a mount of its copy where the
// provider can do that.
type skillDoer struct {
	r *Reconciler
	k Skill
}

// judge reads the skill only where it looks otherwise than the last time. It looks
// at both sides at once.
func (d *skillDoer) judge(ctx context.Context, rec stage.PreparedRecord) (verdict, error) {
	if d.k.Lost != nil {
		return verdict{}, d.k.Lost
	}
	var inside view
	var wg sync.WaitGroup
	if rec.Fingerprint != "" {
		wg.Go(func() { inside = d.look(ctx) })
	}
	look, names, err := d.source()
	wg.Wait()
	if err != nil {
		return verdict{}, err
	}
	next := rec
	if rec.Source != look {
		sum, err := stage.DirDigest(ctx, d.k.Dir)
		if err != nil {
			return verdict{}, err
		}
		next.Source, next.Digest = look, sum
	}
	v := verdict{fingerprint: fingerprint("skill", d.k.Name, next.Digest, strconv.FormatBool(d.k.ReadOnly))}
	if next != rec {
		v.refreshed = &next
	}
	if rec.Fingerprint == v.fingerprint {
		v.drift, err = d.drift(inside, names, rec)
	}
	return v, err
}

// source describes how the source looks, and what of it can be staged.
func (d *skillDoer) source() (look string, names []string, err error) {
	look, err = stage.LookEach(d.k.Dir, func(name string, mode fs.FileMode) {
		if mode.IsDir() || mode.IsRegular() {
			names = append(names, name)
		}
	})
	return look, names, err
}

// A view is what there is of a skill in the workspace.
type view struct {
	look string // of one that is read-only
	have map[string]struct{}
	err  error
}

func (d *skillDoer) look(ctx context.Context) (v view) {
	if d.k.ReadOnly {
		v.look, v.err = stage.LookInside(ctx, d.r.ws, d.k.target())
		return v
	}
	found, err := d.r.ws.Glob(ctx, "**", &workspace.GlobOptions{Path: d.k.target(), Hidden: true, Dirs: true})
	v.have, v.err = make(map[string]struct{}, len(found.Entries)), err
	for _, i := range found.Entries {
		v.have[i.Path] = struct{}{}
	}
	return v
}

// drift says what is not as it was staged. A working copy may be worked on: only
// what is gone counts there.
func (d *skillDoer) drift(v view, names []string, rec stage.PreparedRecord) (string, error) {
	if astray(v.err) {
		return d.k.target() + " is gone", nil
	}
	if v.err != nil {
		return "", v.err
	}
	if d.k.ReadOnly {
		if v.look != rec.Seen {
			return d.k.target() + " was changed", nil
		}
		return "", nil
	}
	gone := d.absent(v, names)
	if gone == rec.Made {
		return "", nil
	}
	for name := range strings.SplitSeq(gone, "\n") {
		if !strings.Contains("\n"+rec.Made+"\n", "\n"+name+"\n") && name != "" {
			return path.Join(d.k.target(), name) + " is gone", nil
		}
	}
	return "", nil
}

// astray reports whether an error says that what was made is not there, or that
// something else is in its place.
func astray(err error) bool {
	code := fault.Of(err)
	return code == fault.NotFound || code == fault.SandboxViolation || code == fault.InvalidArgument
}

// absent lists the names of a skill that its working copy does not have, one in a
// line.
func (d *skillDoer) absent(v view, names []string) string {
	var b strings.Builder
	prefix := d.k.target() + "/"
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

func (d *skillDoer) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	_, names, err := d.source()
	if err != nil {
		return nil, err
	}
	res, err := h.StageDirectory(ctx, d.k.Dir, d.k.target(), &stage.DirectoryOptions{ReadOnly: d.k.ReadOnly})
	if err != nil {
		return nil, err
	}
	h.Skills[d.k.Name] = stage.SkillMeta{
		Name: d.k.Name, RelPath: d.k.target(), Digest: rec.Digest, StagedAt: d.r.now().UTC(), Mounted: res.Method == driver.ImportMount,
	}
	rec.Made = ""
	if !d.k.ReadOnly {
		v := d.look(ctx)
		if v.err != nil {
			return leftOut(res), v.err
		}
		rec.Made = d.absent(v, names) // what can't be there
	}
	rec.Seen, err = stage.LookInside(ctx, d.r.ws, d.k.target())
	return leftOut(res), err
}
