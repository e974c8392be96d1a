package eval

import (
	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/secret"
)

// A Result is what results.json holds: skillgym's fields, and Croft's under
// "croft".
type Result struct {
	SuitePath    string          `json:"suitePath"`
	StartedAt    string          `json:"startedAt"`
	EndedAt      string          `json:"endedAt"`
	DurationMs   float64         `json:"durationMs"`
	ArtifactDir  string          `json:"suiteRunArtifactDir"`
	DeclaredTags []string        `json:"declaredTags"`
	SelectedTags []string        `json:"selectedTags"`
	Cases        []CaseResult    `json:"cases"`
	Runners      []RunnerSummary `json:"runners"`
	Croft        *About          `json:"croft,omitempty"`
}

// About is what Croft adds to the results of skillgym.
type About struct {
	Provider    string   `json:"provider"`          // kind of the workspaces
	Workspace   string   `json:"workspace"`         // mode
	Schedule    string   `json:"schedule"`          //
	MaxParallel int      `json:"maxParallel"`       //
	Repeat      int      `json:"repeat"`            //
	Interrupted bool     `json:"interrupted"`       // not all executions have a result
	CostUSD     float64  `json:"costUsd,omitempty"` // of all sessions with a known cost
	Notices     []string `json:"notices,omitempty"` // notes that were printed
}

// Passed reports whether every execution has passed.
func (r *Result) Passed() bool {
	for _, c := range r.Cases {
		if !c.Passed {
			return false
		}
	}
	return r.Croft == nil || !r.Croft.Interrupted
}

// A CaseResult is one case on all runners.
type CaseResult struct {
	CaseID        string             `json:"caseId"`
	Tags          []string           `json:"tags"`
	Passed        bool               `json:"passed"`
	RunnerResults []*ExecutionResult `json:"runnerResults"`
}

// An ExecutionResult is the result of one case on one runner: of all repetitions and
// retries, of one repetition, or of one session, depending on its fields.
type ExecutionResult struct {
	Runner         session.Runner  `json:"runner"`
	Passed         bool            `json:"passed"`
	Status         Status          `json:"status"`
	DurationMs     float64         `json:"durationMs"`
	ExecutionDir   string          `json:"executionArtifactDir"`
	ArtifactDir    string          `json:"artifactDir"`
	Report         *session.Report `json:"report"`
	Error          *ErrorInfo      `json:"error,omitempty"`
	FailureOrigin  Origin          `json:"failureOrigin,omitempty"`
	FailureClass   *Class          `json:"failureClass,omitempty"`
	FailureLogPath string          `json:"failureLogPath,omitempty"`

	// FailureStdoutPath is the log of standard output, if FailureLogPath is that of standard
	// error: some agents write there why they failed.
	FailureStdoutPath string `json:"failureStdoutPath,omitempty"`

	Session    int                `json:"session,omitempty"`
	Repetition int                `json:"repetition,omitempty"`
	Sessions   []*ExecutionResult `json:"sessions,omitempty"` // of a repetition; of an execution where there is one repetition

	// Of an execution.
	RepeatTarget          int                `json:"repeatTarget,omitempty"`
	CompletedRepetitions  int                `json:"completedRepetitions,omitempty"`
	SuccessfulRepetitions *int               `json:"successfulRepetitions,omitempty"`
	StoppedAtRepetition   int                `json:"stoppedAtRepetition,omitempty"`
	Repetitions           []*ExecutionResult `json:"repetitions,omitempty"`

	// What Croft adds: how long the workspace took, and where it is kept.
	PreparationMs float64 `json:"preparationMs,omitempty"`
	WorkspacePath string  `json:"workspacePath,omitempty"`

	// WorkspaceError says why the workspace of a failed session was not kept whole.
	WorkspaceError string `json:"workspaceError,omitempty"`

	diff     string           // unified diff of a session, until it is written
	scrubber *secret.Scrubber // of the credentials of a session; nil if no agent ran
}

// An ErrorInfo is an error in results.json.
type ErrorInfo struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// A Class groups failures of one kind.
type Class struct {
	ID    string `json:"id"`
	Label string `json:"label,omitempty"`
}

// A RunnerSummary is one runner over all cases.
type RunnerSummary struct {
	Runner                 session.Runner `json:"runner"`
	TotalCases             int            `json:"totalCases"`
	PassedCases            int            `json:"passedCases"`
	SuccessRate            float64        `json:"successRate"`
	AverageDurationMs      float64        `json:"averageDurationMs"`
	AverageInputTokens     *float64       `json:"averageInputTokens,omitempty"`
	AverageOutputTokens    *float64       `json:"averageOutputTokens,omitempty"`
	AverageReasoningTokens *float64       `json:"averageReasoningTokens,omitempty"`
	AverageCacheTokens     *float64       `json:"averageCacheTokens,omitempty"`
	AverageTotalTokens     *float64       `json:"averageTotalTokens,omitempty"`

	// What Croft adds.
	PassAtK map[string]float64 `json:"passAtK,omitempty"` // by k, over the repetitions of each case; see PassAtK
	CostUSD *float64           `json:"costUsd,omitempty"` // in all
}

// summarizeRunners sums up the results of each runner.
func summarizeRunners(cases []CaseResult, runners []session.Runner) []RunnerSummary {
	list := make([]RunnerSummary, 0, len(runners))
	for _, r := range runners {
		var results []*ExecutionResult
		for _, c := range cases {
			for _, e := range c.RunnerResults {
				if e.Runner.ID == r.ID {
					results = append(results, e)
				}
			}
		}
		list = append(list, summarizeRunner(r, results))
	}
	return list
}

func summarizeRunner(r session.Runner, results []*ExecutionResult) RunnerSummary {
	s := RunnerSummary{Runner: r, TotalCases: len(results)}
	var durations, cost []float64
	var reports []*session.Report
	for _, e := range results {
		if e.Passed {
			s.PassedCases++
		}
		durations = append(durations, e.DurationMs)
		reports = append(reports, e.Report)
		for _, one := range e.allSessions() {
			if one.Report != nil && one.Report.Cost != nil {
				cost = append(cost, one.Report.Cost.USD)
			}
		}
	}
	if len(results) > 0 {
		s.SuccessRate = float64(s.PassedCases) / float64(len(results))
		s.AverageDurationMs = mean(durations)
	}
	n := meanCounts(reports)
	s.AverageInputTokens, s.AverageOutputTokens, s.AverageReasoningTokens, s.AverageCacheTokens, s.AverageTotalTokens = n[0], n[1], n[2], n[3], n[4]
	if len(cost) > 0 {
		s.CostUSD = new(sum(cost))
	}
	s.PassAtK = passAtKs(results)
	return s
}

// allSessions lists the sessions of an execution, with retries.
func (e *ExecutionResult) allSessions() []*ExecutionResult {
	var all []*ExecutionResult
	for _, rep := range e.Repetitions {
		all = append(all, rep.Sessions...)
	}
	return all
}

// tokenCountNames are the names of tokenCounts.
var tokenCountNames = []string{"inputTokens", "outputTokens", "reasoningTokens", "cacheTokens", "totalTokens"}

// tokenCounts are the five counts of a report, as countNames names them.
func tokenCounts(r *session.Report) [5]*float64 {
	if r == nil {
		return [5]*float64{}
	}
	u := r.Usage
	return [5]*float64{u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CacheTokens, u.TotalTokens}
}

// meanCounts are the means of tokenCounts over the reports that have them.
func meanCounts(reports []*session.Report) (means [5]*float64) {
	var counts [5][]float64
	for _, r := range reports {
		for i, n := range tokenCounts(r) {
			if n != nil {
				counts[i] = append(counts[i], *n)
			}
		}
	}
	for i := range counts {
		means[i] = optionalMean(counts[i])
	}
	return means
}
