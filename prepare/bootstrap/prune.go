package bootstrap

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/prepare/stage"
)

// prune undoes recorded entries that the spec no longer has.
func (r *Reconciler) prune(ctx context.Context, h *stage.Session, entries []entry, apply bool, report *Report) error {
	keys, targets := map[string]bool{}, []string{}
	for _, e := range entries {
		keys[e.key] = true
		if e.target != "" {
			targets = append(targets, e.target)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(h.Prepared)) {
		if keys[key] {
			continue
		}
		p := &recordPruner{r: r, rec: h.Prepared[key], wanted: targets, apply: apply}
		err := p.run(ctx)
		report.Steps = append(report.Steps, p.step)
		if p.warning != "" {
			report.Warnings = append(report.Warnings, key+": "+p.warning)
		}
		if err != nil {
			report.Steps[len(report.Steps)-1].Action = ActionFailed
			return fmt.Errorf("bootstrap: prune %s: %w", key, err)
		}
		if !apply {
			continue
		}
		delete(h.Prepared, key)
		if name, ok := strings.CutPrefix(key, "skill:"); ok {
			delete(h.Skills, name)
		}
		if err := h.Save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A recordPruner removes one record. It removes only paths that Apply created and that are
// unchanged.
type recordPruner struct {
	r       *Reconciler
	rec     stage.PreparedRecord
	wanted  []string // targets of the present spec
	apply   bool
	step    Step
	warning string
}

func (p *recordPruner) run(ctx context.Context) error {
	rec := p.rec
	p.step = Step{Key: rec.Key, Kind: rec.Kind, Target: rec.Target, Action: ActionForget}
	switch {
	case rec.Warning != "":
		p.step.Reason = "it had failed"
		return nil
	case rec.Kind == KindTemplate:
		return p.pruneTemplate(ctx)
	case rec.Kind == KindCommand && rec.Seen == "":
		p.step.Reason = "what the command made stays"
		return nil
	case p.isWanted(rec.Target):
		p.step.Reason = rec.Target + " is wanted otherwise"
		return nil
	}
	same, err := p.r.isUnchanged(ctx, rec)
	switch {
	case fault.Of(err) == fault.NotFound:
		p.step.Reason = rec.Target + " is gone already"
		return nil
	case err != nil && fault.Of(err) != fault.SandboxViolation: // SandboxViolation: a symlink in its place
		return err
	case !same:
		p.step.Reason = "it was changed since, and stays"
		p.warning = rec.Target + " was changed since it was prepared, and stays"
		return nil
	}
	p.step.Action = ActionPrune
	if !p.apply {
		return nil
	}
	return p.r.st.Remove(ctx, rec.Target)
}

// isWanted reports whether a path equals, is below, or contains a target of the spec.
func (p *recordPruner) isWanted(name string) bool {
	return slices.ContainsFunc(p.wanted, func(t string) bool { return paths.InsideName(t, name) || paths.InsideName(name, t) })
}

// isUnchanged reports whether the result of a record is unchanged.
func (r *Reconciler) isUnchanged(ctx context.Context, rec stage.PreparedRecord) (bool, error) {
	now, err := stage.FingerprintInside(ctx, r.ws, rec.Target)
	if err != nil || rec.Seen == "" {
		return false, err
	}
	if now == rec.Seen {
		return true, nil
	}
	if rec.Kind != KindFile || rec.Source == "" {
		return false, nil
	}
	sum, err := r.ws.Digest(ctx, rec.Target) // it may only have been touched
	return err == nil && sum == rec.Source && !modeChanged(ctx, r, rec.Target, rec), err
}

// pruneTemplate removes the entries of a template, file by file.
func (p *recordPruner) pruneTemplate(ctx context.Context) error {
	m, err := decodeManifest(p.rec.Made)
	if err != nil || len(m) == 0 {
		p.step.Reason = "what it brought is not recorded, and stays"
		p.warning = "the files of the template stay: it is not recorded which they are"
		return err
	}
	there, err := p.r.fingerprints(ctx, m)
	if err != nil {
		return err
	}
	goes, stays := []string{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		now, ok := there[name]
		switch {
		case !ok:
		case !p.isWanted(name) && !m[name].theirs && m[name].look == now.look:
			goes = append(goes, name)
		case !now.dir:
			stays = append(stays, name)
		}
	}
	if len(goes) > 0 {
		p.step.Action = ActionPrune
	}
	if len(stays) > 0 {
		p.step.Reason = firstNames(stays) + " stays"
		p.warning = firstNames(stays) + " was changed since, or is wanted otherwise, and stays"
	}
	if !p.apply {
		return nil
	}
	return p.r.removeMade(ctx, goes, there)
}

// removeMade removes files, and then directories that are empty.
func (r *Reconciler) removeMade(ctx context.Context, names []string, there map[string]presentEntry) error {
	for _, name := range slices.Backward(names) { // children follow their directory
		err := r.ws.Remove(ctx, name, nil)
		if err != nil && fault.Of(err) != fault.NotFound && !there[name].dir {
			return err
		}
	}
	return nil
}

// firstNames returns the first of several names.
func firstNames(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s (and %d more)", names[0], len(names)-1)
}
