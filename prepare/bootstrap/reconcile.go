package bootstrap

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
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
	ActionPrune  Action = "prune"  // it is no longer wanted, and removed
	ActionForget Action = "forget" // it is no longer wanted, and what it made stays, for the reason that is given
	ActionFailed Action = "failed" // it failed; an optional one that failed before is not tried again until it is changed
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
	Warnings []string `json:"warnings,omitempty"` // of optional entries that failed, and of what stayed out of a tree, or as others left it
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
	drift       string   // what is not as it was, "" for nothing
	notes       []string // what the caller should know in any case
	refreshed   *stage.PreparedRecord
}

// A looker is a doer that looks at paths of the workspace which others may make.
type looker interface{ looksAt() []string }

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
	if !apply && fault.Of(err) == fault.NotFound && report.Changed() {
		step.Action, step.Reason = ActionCreate, "unless what is done before it changes that: "+err.Error()
		report.Steps = append(report.Steps, step)
		return false, nil
	}
	if err != nil {
		step.Action = ActionFailed
		report.Steps = append(report.Steps, step)
		return false, r.failed(ctx, h, e, "", apply, err, report)
	}
	step.Action, step.Reason = decide(rec, known, v)
	if !apply && step.Action == ActionNone {
		step.Action, step.Reason = foresee(e, report.Steps)
	}
	report.Steps = append(report.Steps, step)
	for _, n := range v.notes {
		report.Warnings = append(report.Warnings, e.key+": "+n)
	}
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
	return false, r.do(ctx, h, e, rec, v, report)
}

// do does an entry, and records it.
func (r *Reconciler) do(ctx context.Context, h *stage.Session, e entry, rec stage.PreparedRecord, v verdict, report *Report) error {
	next := stage.PreparedRecord{
		Key: e.key, Kind: e.kind, Fingerprint: v.fingerprint, Target: e.target, Source: rec.Source, Digest: rec.Digest, Seen: rec.Seen, Made: rec.Made,
	}
	if v.refreshed != nil {
		next.Source, next.Digest, next.Made = v.refreshed.Source, v.refreshed.Digest, v.refreshed.Made
	}
	notes, err := e.do.apply(ctx, h, &next)
	for _, n := range notes {
		report.Warnings = append(report.Warnings, e.key+": "+n)
	}
	if err != nil {
		report.Steps[len(report.Steps)-1].Action = ActionFailed
		return r.failed(ctx, h, e, v.fingerprint, true, err, report)
	}
	next.PreparedAt = r.now().UTC()
	h.Prepared[e.key] = next
	return h.Save(ctx)
}

// foresee says what becomes of an entry with nothing to do, where what it looks at
// is to change before its turn.
func foresee(e entry, before []Step) (Action, string) {
	l, ok := e.do.(looker)
	if !ok {
		return ActionNone, ""
	}
	for _, name := range l.looksAt() {
		for _, s := range before {
			does := s.Action == ActionCreate || s.Action == ActionUpdate || s.Action == ActionRepair
			if does && s.Kind != KindCommand && s.Target != "" && (within(name, s.Target) || within(s.Target, name)) {
				return ActionUpdate, s.Target + " changes before it"
			}
		}
	}
	return ActionNone, ""
}

// within reports whether a path is another, or below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

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

// missing reports whether nothing is at a path. A symlink that leads out of the
// workspace, such as that to the interpreter of a virtual environment, is something.
func (r *Reconciler) missing(ctx context.Context, name string) (bool, error) {
	_, err := r.ws.Stat(ctx, name, nil)
	if fault.Of(err) == fault.SandboxViolation {
		_, err = r.ws.Stat(ctx, name, &workspace.StatOptions{NoFollow: true})
	}
	switch fault.Of(err) {
	case "":
		return false, nil
	case fault.NotFound:
		return true, nil
	}
	return false, err
}
