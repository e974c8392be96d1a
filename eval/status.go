package eval

// A Status says what became of an execution.
type Status string

// Statuses.
const (
	StatusPassed           Status = "passed"
	StatusFailed           Status = "failed"
	StatusExpectedFailed   Status = "expected-failed"   // it failed, as its case expects
	StatusUnexpectedPassed Status = "unexpected-passed" // it passed, and its case expects a failure
)

// An Origin says what failed.
type Origin string

// Origins of failures.
const (
	OriginAssertion     Origin = "assertion"   // an assertion did not hold
	OriginAssertHook    Origin = "assert-hook" // the case's own code broke
	OriginMaxSteps      Origin = "max-steps"
	OriginModelRejected Origin = "model-rejected"
	OriginRunner        Origin = "runner" // the agent
	OriginBootstrap     Origin = "workspace-bootstrap"
	OriginWorkspace     Origin = "workspace"
	OriginCollection    Origin = "collection"    // the session of the agent was not found
	OriginNormalization Origin = "normalization" // the session of the agent can't be read
	OriginSnapshot      Origin = "snapshot"      // it used more tokens than the baseline allows
)

// classLabels are the labels of the default classes, by id.
var classLabels = map[string]string{
	"assertion": "Assertion failure", "assert-hook": "Assert hook crash", "max-steps": "Max steps exceeded",
	"model-rejected": "Rejected model", "runner-crash": "Runner crash", "timeout": "Timeout",
	"workspace-bootstrap": "Workspace bootstrap", "workspace": "Workspace",
	"collection": "Artifact collection", "normalization": "Report normalization", "snapshot": "Snapshot verification",
	"unexpected-passed": "Unexpected pass",
}

// defaultClass is the default class of a failure.
func defaultClass(o Origin, timeout bool) *Class {
	id := string(o)
	switch {
	case o == OriginRunner && timeout:
		id = "timeout"
	case o == OriginRunner:
		id = "runner-crash"
	}
	return &Class{ID: id, Label: classLabels[id]}
}

// setStatus sets the status of a session whose outcome is known, by what its case
// expects. It changes e.
func setStatus(e *ExecutionResult, expectedFail bool) {
	switch {
	case !expectedFail && e.Passed:
		e.Status = StatusPassed
	case !expectedFail:
		e.Status = StatusFailed
	case e.Passed:
		e.Passed, e.Status = false, StatusUnexpectedPassed
		if e.FailureClass == nil {
			e.FailureClass = &Class{ID: string(StatusUnexpectedPassed), Label: classLabels[string(StatusUnexpectedPassed)]}
		}
	case e.FailureOrigin == OriginAssertion:
		e.Passed, e.Status = true, StatusExpectedFailed
	default:
		e.Status = StatusFailed
	}
}
