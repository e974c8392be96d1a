package bootstrap

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/stage"
	"github.com/croft-run/croft/workspace"
)

// Options are the options of New.
type Options struct {
	Log *slog.Logger     // nil is silent
	Now func() time.Time // nil is time.Now
}

// A Reconciler brings one workspace to the state that a spec describes. It is safe
// for concurrent use.
type Reconciler struct {
	st  *stage.Stage
	ws  *workspace.Workspace
	log *slog.Logger
	now func() time.Time
}

// New returns the reconciler of a stage's workspace.
func New(st *stage.Stage, opts *Options) *Reconciler {
	r := &Reconciler{st: st, ws: st.Workspace(), log: slog.New(slog.DiscardHandler), now: time.Now}
	if opts != nil && opts.Log != nil {
		r.log = opts.Log
	}
	if opts != nil && opts.Now != nil {
		r.now = opts.Now
	}
	return r
}

// An Action says what is done about an entry.
type Action string

// Actions.
const (
	ActionNone   Action = "none"   // it is as it should be
	ActionCreate Action = "create" // it was never done here
	ActionUpdate Action = "update" // the entry, or what it comes from, changed
	ActionRepair Action = "repair" // what it made is not as it was
	ActionPrune  Action = "prune"  // it is no longer wanted
	ActionFailed Action = "failed" // optional, and it failed before; it is not tried again until it is changed
)

// A Step is what was, or would be, done about one entry.
type Step struct {
	Key    string `json:"key"`
	Kind   string `json:"kind"`
	Target string `json:"target,omitempty"`
	Action Action `json:"action"`
	Reason string `json:"reason,omitempty"`
}

// A Report says what Apply did, or Plan would do.
type Report struct {
	Steps    []Step   `json:"steps"`
	Warnings []string `json:"warnings,omitempty"` // of optional entries that failed, and of what stayed out of a tree
}

// Changed reports whether anything is to be done.
func (r Report) Changed() bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Action != ActionNone && s.Action != ActionFailed })
}

// A doer does one kind of entry.
type doer interface {
	// judge says what is to be done. rec is the record of the last time; its Seen,
	// Source and Digest may be brought up to date, which is told by refreshed.
	judge(ctx context.Context, rec stage.PreparedRecord) (v verdict, err error)

	// apply does it, and fills what the record needs beside the fingerprint. notes
	// are what the caller should know.
	apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) (notes []string, err error)
}

// A verdict is what judge found.
type verdict struct {
	fingerprint string
	drift       string // what is not as it was, "" for nothing
	refreshed   *stage.PreparedRecord
}

// Apply brings the workspace to the state of the spec. The report has what was
// done, also where it returns an error: that of the first required entry that
// failed, with the output of a command that did.
func (r *Reconciler) Apply(ctx context.Context, spec Spec) (Report, error) {
	return r.reconcile(ctx, spec, true)
}

// Plan says what Apply would do, and does nothing. What depends on an entry that
// is yet to be done may come out otherwise.
func (r *Reconciler) Plan(ctx context.Context, spec Spec) (Report, error) {
	return r.reconcile(ctx, spec, false)
}

func (r *Reconciler) reconcile(ctx context.Context, spec Spec, apply bool) (Report, error) {
	report := Report{Steps: []Step{}}
	entries, err := spec.entries(r)
	if err != nil {
		return report, err
	}
	h, err := r.st.Begin(ctx)
	if err != nil {
		return report, err
	}
	defer h.End()
	stale := false // a record was brought up to date, and nothing else
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return report, fmt.Errorf("bootstrap: %s: %w", e.key, err)
		}
		refreshed, err := r.one(ctx, h, e, apply, &report)
		stale = stale || refreshed
		if err != nil {
			return report, err
		}
	}
	if spec.Prune {
		if err := r.prune(ctx, h, entries, apply, &report); err != nil {
			return report, err
		}
	}
	if stale && apply {
		return report, h.Save(ctx)
	}
	return report, nil
}

// one judges an entry and does it where that is needed.
func (r *Reconciler) one(ctx context.Context, h *stage.Session, e entry, apply bool, report *Report) (refreshed bool, err error) {
	rec, known := h.Prepared[e.key]
	step := Step{Key: e.key, Kind: e.kind, Target: e.target}
	v, err := e.do.judge(ctx, rec)
	if !apply && fault.Of(err) == fault.NotFound && len(report.Steps) > 0 {
		step.Action, step.Reason = ActionCreate, "unless what is done before it changes that: "+err.Error()
		report.Steps = append(report.Steps, step)
		return false, nil
	}
	if err != nil {
		return false, r.failed(ctx, h, e, "", apply, err, report)
	}
	step.Action, step.Reason = decide(rec, known, v)
	report.Steps = append(report.Steps, step)
	switch step.Action {
	case ActionNone:
		if v.refreshed != nil {
			h.Prepared[e.key] = *v.refreshed
		}
		return v.refreshed != nil, nil
	case ActionFailed:
		report.Warnings = append(report.Warnings, fmt.Sprintf("%s: %s (not tried again until it is changed)", e.key, rec.Warning))
		return false, nil
	}
	if !apply {
		return false, nil
	}
	next := stage.PreparedRecord{Key: e.key, Kind: e.kind, Fingerprint: v.fingerprint, Target: e.target, Source: rec.Source, Digest: rec.Digest}
	if v.refreshed != nil {
		next.Source, next.Digest = v.refreshed.Source, v.refreshed.Digest
	}
	notes, err := e.do.apply(ctx, h, &next)
	for _, n := range notes {
		report.Warnings = append(report.Warnings, e.key+": "+n)
	}
	if err != nil {
		return false, r.failed(ctx, h, e, v.fingerprint, apply, err, report)
	}
	next.PreparedAt = r.now().UTC()
	h.Prepared[e.key] = next
	return false, h.Save(ctx)
}

// decide compares what is wanted with what is recorded.
func decide(rec stage.PreparedRecord, known bool, v verdict) (Action, string) {
	switch {
	case !known:
		return ActionCreate, ""
	case rec.Fingerprint != v.fingerprint:
		return ActionUpdate, "it changed"
	case rec.Warning != "":
		return ActionFailed, rec.Warning
	case v.drift != "":
		return ActionRepair, v.drift
	}
	return ActionNone, ""
}

// failed makes the failure of an optional entry a warning, which is remembered
// where the entry has a fingerprint.
func (r *Reconciler) failed(ctx context.Context, h *stage.Session, e entry, print string, apply bool, err error, report *Report) error {
	if !e.optional || ctx.Err() != nil {
		return fmt.Errorf("bootstrap: %s: %w", e.key, err)
	}
	r.log.Warn("bootstrap: an optional entry failed", "workspace", r.ws.ID(), "key", e.key, "error", err)
	report.Warnings = append(report.Warnings, e.key+": "+err.Error())
	if print == "" || !apply {
		return nil
	}
	h.Prepared[e.key] = stage.PreparedRecord{Key: e.key, Kind: e.kind, Fingerprint: print, Target: e.target, PreparedAt: r.now().UTC(), Warning: err.Error()}
	return h.Save(ctx)
}

// prune undoes what is recorded and no longer wanted.
func (r *Reconciler) prune(ctx context.Context, h *stage.Session, entries []entry, apply bool, report *Report) error {
	wanted := map[string]bool{}
	for _, e := range entries {
		wanted[e.key] = true
		if e.target != "" {
			wanted["target:"+e.target] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(h.Prepared)) {
		rec := h.Prepared[key]
		if wanted[key] {
			continue
		}
		step := Step{Key: key, Kind: rec.Kind, Target: rec.Target, Action: ActionPrune}
		remove := rec.Target != "" && !wanted["target:"+rec.Target] && rec.Warning == ""
		if remove && rec.Seen != "" {
			if now, err := stage.LookInside(ctx, r.ws, rec.Target); err == nil && now != rec.Seen {
				remove, step.Reason = false, "it was changed since, and stays"
				report.Warnings = append(report.Warnings, key+": "+rec.Target+" was changed since it was prepared, and stays")
			}
		}
		report.Steps = append(report.Steps, step)
		if !apply {
			continue
		}
		if remove {
			if err := r.st.Remove(ctx, rec.Target); err != nil {
				return fmt.Errorf("bootstrap: prune %s: %w", key, err)
			}
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

// missing reports whether nothing is at a path.
func (r *Reconciler) missing(ctx context.Context, name string) (bool, error) {
	_, err := r.ws.Stat(ctx, name, nil)
	switch fault.Of(err) {
	case "":
		return false, nil
	case fault.NotFound:
		return true, nil
	}
	return false, err
}
