package verifytool

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
)

// Limits of the failures that are shown.
const (
	defaultFailures = 50
	maxShownFailed  = 500
)

type runFailingInput struct {
	Limit    int    `json:"limit,omitempty" jsonschema:"maximum number of tests; default all"`
	Timeout  int    `json:"timeout,omitempty" jsonschema:"time limit in seconds; default 300, at most 1800"`
	Language string `json:"language,omitempty" jsonschema:"project, if several were tested"`
}

func runFailingTestsTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "run_failing_tests", Family: tool.Verify, Needs: commandCaps, Destructive: true, FanOut: true,
		Description: "Run again exactly the tests that failed in the last run_tests or run_failing_tests. A test that did not run is reported.",
	}, runFailing)
}

func runFailing(ctx context.Context, c *tool.Call, in runFailingInput) (reportsOutput, error) {
	seconds, err := tool.Seconds("timeout", in.Timeout, testSeconds, maxTestSeconds)
	if err != nil {
		return reportsOutput{}, err
	}
	if in.Limit < 0 {
		return reportsOutput{}, tool.Errorf(fault.InvalidArgument, "limit must be at least 1; without it all run")
	}
	m := historyOf(c)
	last := m.lastReports(in.Language)
	if len(last) == 0 {
		return reportsOutput{}, tool.Errorf(fault.WrongState, "no run_tests call yet in this session")
	}
	bad := slices.DeleteFunc(slices.Clone(last), func(r *verify.Report) bool { return r.OK() })
	if len(bad) == 0 {
		return reportsOutput{Reports: []*verify.Report{}, text: fmt.Sprintf("last run_tests had no failures — nothing to rerun (%s)\n", last[0].Language)}, nil
	}
	p, err := c.Profile(ctx)
	if err != nil {
		return reportsOutput{}, err
	}
	projects := testedProjects(p, bad)
	if len(projects) == 0 {
		return reportsOutput{}, tool.Errorf(fault.Unsupported, "%s: the last run was of no project; use run_tests with its command again", c.Tool)
	}
	o := testOptions(c, nil, seconds)
	o.Limit = in.Limit
	var out reportsOutput
	reports, notRun, text, err := forEachProject(projects, seconds, func(q profile.Project, left time.Duration) (*verify.Report, error) {
		o := *o
		o.Timeout = left
		at := slices.IndexFunc(bad, func(r *verify.Report) bool { return r.Language == string(q.Ecosystem) && r.Dir == q.Dir })
		return rerunFailures(ctx, c, q, bad[at], &o)
	}, func(r *verify.Report) string { return out.addReport(c, r, seconds) })
	if err != nil {
		return reportsOutput{}, err
	}
	// A project that could not be tested again keeps its failures.
	for _, r := range bad {
		if !slices.ContainsFunc(reports, func(n *verify.Report) bool { return n.Language == r.Language && n.Dir == r.Dir }) {
			reports = append(reports, r)
		}
	}
	m.addRun(reports)
	out.text, out.NotRun = text, notRun
	return out, nil
}

// testedProjects returns the present projects of reports.
func testedProjects(p profile.Profile, reports []*verify.Report) []profile.Project {
	var out []profile.Project
	for _, r := range reports {
		at := slices.IndexFunc(p.Projects, func(q profile.Project) bool { return string(q.Ecosystem) == r.Language && q.Dir == r.Dir })
		if at >= 0 {
			out = append(out, p.Projects[at])
		}
	}
	return out
}

// rerunFailures runs the failures of a report again.
func rerunFailures(ctx context.Context, c *tool.Call, p profile.Project, last *verify.Report, o *verify.Options) (*verify.Report, error) {
	if !last.Structured {
		return nil, tool.Errorf(fault.Unsupported, "%s: %s detector has no structured failures; rerun run_tests manually", c.Tool, last.Language)
	}
	r, err := verify.Rerun(ctx, c.Workspace, p, last, o)
	if err != nil {
		return nil, runError(c.Tool, err)
	}
	return r, nil
}
