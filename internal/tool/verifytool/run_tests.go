package verifytool

import (
	"context"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
)

// Limits of runs of tests, in seconds.
const (
	testSeconds    = 300
	maxTestSeconds = 1800
)

type runTestsInput struct {
	Language string   `json:"language,omitempty" jsonschema:"project to use if there are several: go, rust, node, python, java or another that profile names; all runs each"`
	Files    []string `json:"files,omitempty" jsonschema:"only the tests in these files, or that cover these source files: paths relative to the workspace; default all tests" croft:"path"`
	Command  string   `json:"command,omitempty" jsonschema:"command to run instead of the project's, in its directory" croft:"command"`
	Timeout  int      `json:"timeout,omitempty" jsonschema:"time limit in seconds; default 300, at most 1800"`
	Failed   bool     `json:"failed,omitempty" jsonschema:"only the tests that failed in the last run"`
	Coverage bool     `json:"coverage,omitempty" jsonschema:"also run each test alone to measure which lines it covers; later runs with files then choose by it"`
}

type reportsOutput struct {
	Reports []*verify.Report `json:"reports" jsonschema:"one for each project"`
	NotRun  []string         `json:"not_run,omitempty" jsonschema:"directories of the projects that did not run, as the time was over"`

	text string
}

func (o reportsOutput) Text() string { return o.text }

// addReport adds what an answer shows of a report, and returns its text.
func (o *reportsOutput) addReport(c *tool.Call, r *verify.Report, seconds int) string {
	short := shorten(c, r)
	o.Reports = append(o.Reports, short)
	return reportText(short, r, seconds)
}

func runTestsTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "run_tests", Family: tool.Verify, Needs: commandCaps, Destructive: true, FanOut: true,
		Description: "Run the project's tests: all, or those for some files. Shows the number of tests that passed and each failure with its " +
			"file, line, message and difference, and an id that reads the runner's output. Code that does not build is a failure. " +
			"With failed, all tests that failed in the last run, and no others, run again.",
	}, runTests)
}

func runTests(ctx context.Context, c *tool.Call, in runTestsInput) (reportsOutput, error) {
	if in.Failed {
		if len(in.Files) > 0 || in.Coverage {
			return reportsOutput{}, tool.Errorf(fault.InvalidArgument, "failed runs the tests of the last run: leave out files and coverage")
		}
		return runFailing(ctx, c, runFailingInput{Timeout: in.Timeout, Language: in.Language})
	}
	seconds, err := tool.Seconds("timeout", in.Timeout, testSeconds, maxTestSeconds)
	if err != nil {
		return reportsOutput{}, err
	}
	in.Command = strings.TrimSpace(in.Command)
	if in.Command != "" && (in.Coverage || len(in.Files) > 0) {
		return reportsOutput{}, tool.Errorf(fault.InvalidArgument, "run_tests: command can't be combined with files or coverage: name the files in the command, or leave out command")
	}
	list, err := selectProjects(ctx, c, in.Language, relPaths(c, in.Files))
	switch {
	case in.Command != "" && in.Language == "" && (err != nil || len(list) > 1):
		list = []profile.Project{{Dir: "."}} // no project is needed
	case err != nil:
		return reportsOutput{}, err
	}
	o := testOptions(c, in.Files, seconds)
	o.Command, o.Coverage = in.Command, historyOf(c).coverages()
	choices := map[string]*verify.Choice{} // by ecosystem and directory
	if len(in.Files) > 0 {
		if list, err = chooseTests(ctx, c, list, o, choices); err != nil {
			return reportsOutput{}, err
		}
	}
	var out reportsOutput
	reports, notRun, text, err := forEachProject(list, seconds, func(p profile.Project, left time.Duration) (*verify.Report, error) {
		o := *o
		o.Choice, o.Timeout = choices[projectKey(p)], left
		r, err := verify.Test(ctx, c.Workspace, p, &o)
		if err != nil {
			return nil, runError("run_tests", err)
		}
		if in.Coverage {
			measureCoverage(ctx, c, p, &o, r)
		}
		return r, nil
	}, func(r *verify.Report) string { return out.addReport(c, r, seconds) })
	if err != nil {
		return reportsOutput{}, err
	}
	historyOf(c).addRun(reports)
	out.text, out.NotRun = text, notRun
	return out, nil
}

// chooseTests returns the projects with tests that cover the files, and what runs of each.
func chooseTests(
	ctx context.Context, c *tool.Call, list []profile.Project, o *verify.Options, choices map[string]*verify.Choice,
) ([]profile.Project, error) {
	p, err := c.Profile(ctx)
	if err != nil {
		return nil, err
	}
	found, err := verify.Choose(ctx, c.Workspace, p, list, o)
	if err != nil {
		return nil, runError("run_tests", err)
	}
	var out []profile.Project
	for i := range found {
		out = append(out, found[i].Project)
		choices[projectKey(found[i].Project)] = &found[i]
	}
	return out, nil
}

func projectKey(p profile.Project) string { return string(p.Ecosystem) + " " + p.Dir }

// measureCoverage measures the coverage of each test. A failure is a note on the run.
func measureCoverage(ctx context.Context, c *tool.Call, p profile.Project, o *verify.Options, r *verify.Report) {
	cov, err := verify.Cover(ctx, c.Workspace, p, o)
	if err != nil {
		r.Notes = append(r.Notes, "coverage: "+tool.ErrorText(withoutCodePrefix(err)))
		return
	}
	r.Notes = append(r.Notes, cov.Notes...)
	historyOf(c).addCoverage(cov)
}
