package bootstrap

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace"
)

// Options are the options of New.
type Options struct {
	Log *slog.Logger     // nil is silent
	Now func() time.Time // nil is time.Now
}

// A Reconciler brings one workspace to the state of a spec. It is safe for concurrent
// use.
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

// An Action says what is done with an entry.
type Action string

// Actions.
const (
	ActionNone   Action = "none"   // nothing to do
	ActionCreate Action = "create" // there is no record of it
	ActionUpdate Action = "update" // its declaration, or its source, changed
	ActionRepair Action = "repair" // its result drifted
	ActionPrune  Action = "prune"  // it is no longer wanted; its result is removed
	ActionForget Action = "forget" // it is no longer wanted; its result stays, for the given reason
	ActionFailed Action = "failed" // it failed; an optional entry is not tried again until its declaration changes
)

// A Step is what was done, or would be done, with one entry.
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
	Warnings []string `json:"warnings,omitempty"` // failed optional entries, files that were left out, and files that stay as the workspace has them
}

// Changed reports whether there is anything to do.
func (r Report) Changed() bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Action != ActionNone && s.Action != ActionFailed })
}

// A entryHandler implements one kind of entry.
type entryHandler interface {
	// compare compares the entry with the workspace. rec is the last record. compare may
	// update its Seen, Source and Digest, and then sets refreshed.
	compare(ctx context.Context, rec stage.PreparedRecord) (v comparison, err error)

	// apply does the entry, and fills the record, except its fingerprint. notes are
	// warnings for the caller.
	apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) (notes []string, err error)
}

// A comparison is the result of compare.
type comparison struct {
	fingerprint string
	drift       string   // what drifted; "" is nothing
	notes       []string // warnings for the caller in any case
	refreshed   *stage.PreparedRecord
}

// A pathDependent is an entryHandler that depends on paths of the workspace which other entries may
// create.
type pathDependent interface{ dependsOn() []string }

// Apply brings the workspace to the state of the spec. The report has what was done,
// also with an error. The error is that of the first required entry that failed, with
// the output of a failed command.
func (r *Reconciler) Apply(ctx context.Context, spec Spec) (Report, error) {
	return r.reconcile(ctx, spec, true)
}

// Plan returns what Apply would do, and changes nothing. Entries that depend on an
// entry which is yet to be done may differ.
func (r *Reconciler) Plan(ctx context.Context, spec Spec) (Report, error) {
	return r.reconcile(ctx, spec, false)
}

func (r *Reconciler) reconcile(ctx context.Context, spec Spec, apply bool) (Report, error) {
	report := Report{Steps: []Step{}}
	entries, err := spec.listEntries(r)
	if err != nil {
		return report, err
	}
	h, err := r.st.Begin(ctx)
	if err != nil {
		return report, err
	}
	defer h.End()
	stale := false // a record was updated, and nothing else
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return report, fmt.Errorf("bootstrap: %s: %w", e.key, err)
		}
		refreshed, err := r.reconcileEntry(ctx, h, e, apply, &report)
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

// reconcileEntry compares an entry and applies it if needed.
func (r *Reconciler) reconcileEntry(ctx context.Context, h *stage.Session, e entry, apply bool, report *Report) (refreshed bool, err error) {
	rec, known := h.Prepared[e.key]
	step := Step{Key: e.key, Kind: e.kind, Target: e.target}
	v, err := e.do.compare(ctx, rec)
	if !apply && fault.Of(err) == fault.NotFound && report.Changed() {
		step.Action, step.Reason = ActionCreate, "unless what is done before it changes that: "+err.Error()
		report.Steps = append(report.Steps, step)
		return false, nil
	}
	if err != nil {
		step.Action = ActionFailed
		report.Steps = append(report.Steps, step)
		return false, r.optionalFailure(ctx, h, e, "", apply, err, report)
	}
	step.Action, step.Reason = decideAction(rec, known, v)
	if !apply && step.Action == ActionNone {
		step.Action, step.Reason = predictAction(e, report.Steps)
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
	return false, r.applyEntry(ctx, h, e, rec, v, report)
}

// applyEntry applies an entry, and records it.
func (r *Reconciler) applyEntry(ctx context.Context, h *stage.Session, e entry, rec stage.PreparedRecord, v comparison, report *Report) error {
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
		return r.optionalFailure(ctx, h, e, v.fingerprint, true, err, report)
	}
	next.PreparedAt = r.now().UTC()
	h.Prepared[e.key] = next
	return h.Save(ctx)
}

// predictAction returns the action of an entry with nothing to do, if an earlier step
// changes a path that the entry depends on.
func predictAction(e entry, before []Step) (Action, string) {
	l, ok := e.do.(pathDependent)
	if !ok {
		return ActionNone, ""
	}
	for _, name := range l.dependsOn() {
		for _, s := range before {
			does := s.Action == ActionCreate || s.Action == ActionUpdate || s.Action == ActionRepair
			if does && s.Kind != KindCommand && s.Target != "" && (paths.InsideName(s.Target, name) || paths.InsideName(name, s.Target)) {
				return ActionUpdate, s.Target + " changes before it"
			}
		}
	}
	return ActionNone, ""
}

// decideAction compares the declaration with the record.
func decideAction(rec stage.PreparedRecord, known bool, v comparison) (Action, string) {
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

// optionalFailure turns the failure of an optional entry into a warning, which is recorded if
// the entry has a fingerprint.
func (r *Reconciler) optionalFailure(ctx context.Context, h *stage.Session, e entry, print string, apply bool, err error, report *Report) error {
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

// isMissing reports whether a path does not exist. A symlink that leaves the workspace,
// such as that to the interpreter of a virtual environment, exists.
func (r *Reconciler) isMissing(ctx context.Context, name string) (bool, error) {
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
