package eval

// A result names one report several times: a session's is that of its repetition, and
// what all repetitions have in common is that of the execution. The journal has it
// once, where the session is.

// once is a result without what can be made again of its sessions.
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
		light := *rep
		light.Report, c.Repetitions[i] = nil, &light
	}
	c.Report = nil
	if r.RepeatTarget == 1 {
		c.Sessions = nil
	}
	return &c
}

// again puts what once left out back.
func expandResult(r *ExecutionResult) {
	if !r.whole() || len(r.Repetitions) == 0 {
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
