// Package verifytool has the tools that test, lint, type-check and format a project:
// run_tests, run_failing_tests, last_test_failures, tests_covering, run_lint,
// run_typecheck, check, format, install and run_script, and the effect after an edit.
//
// Package verify does the work; this package has the arguments, the texts of the answers,
// and the last run of each workspace. Names, arguments and the fixed parts of texts are
// those that prompts for CodeGen-Sandbox rely on.
package verifytool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Tools returns the tools of the family.
func Tools() []*tool.Tool {
	return []*tool.Tool{
		runTestsTool(), runFailingTestsTool(), lastTestFailuresTool(), testsCoveringTool(),
		runLintTool(), runTypecheckTool(), checkTool(), formatTool(), installTool(), runScriptTool(),
	}
}

// commandCaps are the capabilities of tools that run commands.
var commandCaps = []workspace.Capability{driver.CapFS, driver.CapShell}

// Limits of the output of a command; the session's log has the rest.
const (
	shownOutput   = 32 << 10 // each stream in an answer
	keptOutput    = 1 << 20  // each stream of a test run, which is kept for BashOutput
	progressPause = time.Second
)

// checkInput is the input of the tools that lint, type-check and format.
type checkInput struct {
	Language string   `json:"language,omitempty" jsonschema:"project to use if there are several: go, rust, node, python, java or another that profile names; all runs each"`
	Files    []string `json:"files,omitempty" jsonschema:"only these files: paths relative to the workspace; default everything" croft:"path"`
	Timeout  int      `json:"timeout,omitempty" jsonschema:"time limit in seconds; default 120, at most 600"`
}

// selectProjects returns the projects of a call.
func selectProjects(ctx context.Context, c *tool.Call, language string, files []string) ([]profile.Project, error) {
	p, err := c.Profile(ctx)
	if err != nil {
		return nil, err
	}
	if language == "" && len(files) > 0 {
		if list := owningProjects(p, files); len(list) > 0 {
			return list, nil
		}
	}
	list, err := verify.Select(p, language)
	if err != nil {
		return nil, withoutCodePrefix(err)
	}
	return list, nil
}

// owningProjects returns the projects that files belong to.
func owningProjects(p profile.Profile, files []string) []profile.Project {
	var out []profile.Project
	for _, f := range files {
		q, ok := p.For(f)
		if ok && !slices.ContainsFunc(out, func(o profile.Project) bool { return o.Dir == q.Dir && o.Ecosystem == q.Ecosystem }) {
			out = append(out, q)
		}
	}
	return out
}

// withoutCodePrefix returns an error with only the text after the code.
func withoutCodePrefix(err error) error {
	text, code := err.Error(), fault.Of(err)
	if _, rest, ok := strings.Cut(text, code.Error()+": "); ok {
		text = rest
	}
	return tool.Errorf(code, "%s", text)
}

// runError is the error of a command that could not be run.
func runError(name string, err error) error {
	switch code := fault.Of(err); code {
	case fault.NotFound, fault.InvalidArgument, fault.Unsupported, fault.WrongState:
		return tool.Errorf(code, "%s: %s", name, tool.ErrorText(withoutCodePrefix(err)))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// relPaths returns files relative to the workspace.
func relPaths(c *tool.Call, files []string) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = strings.TrimPrefix(strings.TrimPrefix(f, strings.TrimSuffix(c.Root(), "/")+"/"), "./")
	}
	return out
}

// verifyOptions returns options for verify that forward progress, at most once a second.
func verifyOptions(c *tool.Call, files []string, timeout time.Duration) *verify.Options {
	var last time.Time
	return &verify.Options{
		Files: relPaths(c, files), Timeout: timeout, MaxOutput: shownOutput,
		Progress: func(p verify.Progress) {
			if time.Since(last) < progressPause {
				return
			}
			last = time.Now()
			c.Progress(tool.Progress{Done: float64(p.Done), Message: p.Line})
		},
	}
}

// testOptions returns the options of a test run, whose output is kept.
func testOptions(c *tool.Call, files []string, seconds int) *verify.Options {
	o := verifyOptions(c, files, time.Duration(seconds)*time.Second)
	o.MaxOutput = keptOutput
	return o
}

// forEachProject runs a function for every project, with the time that is left of a limit in
// seconds, and joins the texts. notRun are the directories of the projects for which none is left.
// It returns an error only if all projects failed.
func forEachProject[T any](
	list []profile.Project, seconds int, run func(profile.Project, time.Duration) (T, error), text func(T) string,
) (out []T, notRun []string, joined string, err error) {
	var b strings.Builder
	var first error
	left := time.Duration(seconds) * time.Second
	deadline := time.Now().Add(left)
	for i, p := range list {
		if len(list) > 1 {
			fmt.Fprintf(&b, "=== %s (%s) ===\n", p.Dir, p.Ecosystem)
		}
		if i > 0 {
			left = time.Until(deadline).Round(leastTime)
		}
		if left < leastTime {
			notRun = append(notRun, p.Dir)
			fmt.Fprintf(&b, "not run: the %d s of the call were over; name fewer files or a language, or give a longer timeout\n", seconds)
			continue
		}
		r, err := run(p, left)
		if err != nil {
			if first == nil {
				first = err
			}
			fmt.Fprintf(&b, "%s\n", tool.ErrorText(err))
			continue
		}
		out = append(out, r)
		b.WriteString(text(r))
	}
	if len(out) == 0 {
		return nil, nil, "", first
	}
	return out, notRun, b.String(), nil
}

// leastTime is the least time that a project is given.
const leastTime = 100 * time.Millisecond

// runHistory has the last reports and coverage of a workspace.
type runHistory struct {
	mu       sync.Mutex
	runs     int                // the number of runs; guarded by mu
	reports  []numberedReport   // the last of each project; guarded by mu
	coverage []*verify.Coverage // guarded by mu
}

// A numberedReport is a report of a run.
type numberedReport struct {
	*verify.Report
	run int // its run may be of several projects
}

func historyOf(c *tool.Call) *runHistory {
	m, err := tool.PerWorkspace(c, func() (*runHistory, error) { return new(runHistory), nil })
	if err != nil {
		return new(runHistory) // can't happen: making it does not fail
	}
	return m
}

// addRun stores the reports of a run, replacing those of the same projects.
func (m *runHistory) addRun(list []*verify.Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs++
	for _, r := range list {
		m.reports = slices.DeleteFunc(m.reports, func(old numberedReport) bool { return old.Language == r.Language && old.Dir == r.Dir })
		m.reports = append(m.reports, numberedReport{r, m.runs})
	}
}

// lastReports returns the reports of the last run that was of a language, "" for any.
func (m *runHistory) lastReports(language string) []*verify.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	language = strings.ToLower(strings.TrimSpace(language))
	var out []*verify.Report
	last := 0
	for _, r := range m.reports {
		if language != "" && language != verify.All && r.Language != language || r.run < last {
			continue
		}
		if r.run > last {
			out, last = nil, r.run
		}
		out = append(out, r.Report)
	}
	return out
}

func (m *runHistory) addCoverage(c *verify.Coverage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.coverage = slices.DeleteFunc(m.coverage, func(old *verify.Coverage) bool { return old.Language == c.Language && old.Dir == c.Dir })
	m.coverage = append(m.coverage, c)
}

func (m *runHistory) coverages() []*verify.Coverage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.coverage)
}

// timeAgo returns how long ago t was.
func timeAgo(t time.Time) string {
	d := time.Since(t)
	switch {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	default:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
}

func limitOr(name string, asked, otherwise, most int) (int, error) {
	switch {
	case asked == 0:
		return otherwise, nil
	case asked < 0 || asked > most:
		return 0, tool.Errorf(fault.InvalidArgument, "%s must be between 1 and %d", name, most)
	}
	return asked, nil
}
