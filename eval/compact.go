package eval

import (
	"strings"

	"github.com/croft-run/croft/eval/session"
)

// compactResult drops reports that expandResult can rebuild from the sessions, so that
// the journal stores each once.
func compactResult(r *ExecutionResult) *ExecutionResult {
	if len(r.Repetitions) == 0 {
		return r
	}
	c := *r
	c.Repetitions = make([]*ExecutionResult, len(r.Repetitions))
	for i, rep := range r.Repetitions {
		n := len(rep.Sessions)
		if n == 0 || rep.Sessions[n-1].Report != rep.Report {
			return r
		}
		compact := *rep
		compact.Report, c.Repetitions[i] = nil, &compact
	}
	c.Report = nil
	if r.RepeatTarget == 1 {
		c.Sessions = nil
	}
	return &c
}

// expandResult rebuilds the reports that compactResult dropped.
func expandResult(r *ExecutionResult) {
	if !r.isComplete() || len(r.Repetitions) == 0 {
		return
	}
	var good []*ExecutionResult
	for _, rep := range r.Repetitions {
		if n := len(rep.Sessions); rep.Report == nil && n > 0 {
			rep.Report = rep.Sessions[n-1].Report
		}
		if rep.Passed && rep.Report != nil {
			good = append(good, rep)
		}
	}
	if r.Sessions == nil && r.RepeatTarget == 1 {
		r.Sessions = r.Repetitions[0].Sessions
	}
	switch {
	case r.Report != nil:
	case len(good) > 0:
		_, r.Report = meanReport(good)
	default:
		r.Report = r.Repetitions[len(r.Repetitions)-1].Report
	}
}

// resultSummary is a result without its large parts, which are in the journal.
func resultSummary(r *ExecutionResult) *ExecutionResult {
	if r == nil {
		return nil
	}
	c := *r
	c.diff = ""
	c.Report = reportSummary(r.Report)
	c.Sessions, c.Repetitions = resultSummaries(r.Sessions), resultSummaries(r.Repetitions)
	return &c
}

func resultSummaries(list []*ExecutionResult) []*ExecutionResult {
	var out []*ExecutionResult
	for _, r := range list {
		out = append(out, resultSummary(r))
	}
	return out
}

func reportSummary(r *session.Report) *session.Report {
	if r == nil {
		return nil
	}
	const shown = 2000 // of a final output
	c := *r
	c.Events, c.DetectedSkills, c.Commands, c.Network = []session.Event{}, []session.DetectedSkill{}, nil, nil
	c.Files = session.Files{ObservedReads: []string{}, ObservedSkillReads: []string{}, Changed: r.Files.Changed[:min(len(r.Files.Changed), 20)]}
	c.FinalOutput = truncate(r.FinalOutput, shown)
	return &c
}

func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
