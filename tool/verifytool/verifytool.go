// Package verifytool is the family of tools by which an agent finds out whether its
// work is right: run_tests, run_failing_tests, last_test_failures, tests_covering,
// run_lint, run_typecheck, format and run_script, and what is told after an edit.
//
// The work is that of package verify; here are the arguments, the words of the
// answers, and what is remembered of the last run for each workspace. Names,
// arguments and the fixed parts of texts are those that prompts for CodeGen-Sandbox
// rely on.
package verifytool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/profile"
	"github.com/croft-run/croft/tool/verify"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Tools returns the tools of the family.
func Tools() []*tool.Tool {
	return []*tool.Tool{
		runTestsTool(), runFailingTestsTool(), lastTestFailuresTool(), testsCoveringTool(),
		runLintTool(), runTypecheckTool(), formatTool(), runScriptTool(),
	}
}

// commandCaps is what tools that run commands need.
var commandCaps = []workspace.Capability{driver.CapFS, driver.CapShell}

// shownOutput bounds each stream in an answer; the session's log has the rest.
const shownOutput = 32 << 10

// checkInput are the arguments of tools that look at the project without running it.
type checkInput struct {
	Language string   `json:"language,omitempty" jsonschema:"which project, where there are several: go, rust, node, python, java or another that profile names; all runs each"`
	Files    []string `json:"files,omitempty" jsonschema:"only what these files are about: paths relative to the workspace; default everything" croft:"path"`
	Timeout  int      `json:"timeout,omitempty" jsonschema:"seconds after which it is ended; default 120, at most 600"`
}

// selectProjects returns the projects that a call is about.
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

// owningProjects are the projects that files belong to.
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

// withoutCodePrefix makes the words after an error's code the whole message.
func withoutCodePrefix(err error) error {
	text, code := err.Error(), fault.Of(err)
	if _, rest, ok := strings.Cut(text, code.Error()+": "); ok {
		text = rest
	}
	return tool.Errorf(code, "%s", text)
}

// runError is the error of a tool whose command could not be run.
func runError(name string, err error) error {
	switch code := fault.Of(err); code {
	case fault.NotFound, fault.InvalidArgument, fault.Unsupported, fault.WrongState:
		return tool.Errorf(code, "%s: %s", name, tool.ErrorText(withoutCodePrefix(err)))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// relPaths returns files as the workspace names them.
func relPaths(c *tool.Call, files []string) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = strings.TrimPrefix(strings.TrimPrefix(f, strings.TrimSuffix(c.Root(), "/")+"/"), "./")
	}
	return out
}

// verifyOptions are what verify is told, with progress passed on.
func verifyOptions(c *tool.Call, files []string, timeout time.Duration) *verify.Options {
	return &verify.Options{
		Files: relPaths(c, files), Timeout: timeout, MaxOutput: shownOutput,
		Progress: func(p verify.Progress) {
			c.Progress(tool.Progress{Done: float64(p.Done), Message: p.Line})
		},
	}
}

// forEachProject runs something for every project and joins the texts where there are
// several. An error is the answer only where it is the only one.
func forEachProject[T any](list []profile.Project, run func(profile.Project) (T, error), text func(T) string) ([]T, string, error) {
	var out []T
	var b strings.Builder
	var first error
	for _, p := range list {
		r, err := run(p)
		if len(list) > 1 {
			fmt.Fprintf(&b, "=== %s (%s) ===\n", p.Dir, p.Ecosystem)
		}
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
		return nil, "", first
	}
	return out, b.String(), nil
}

// runHistory is what is known of a workspace's last runs.
type runHistory struct {
	mu       sync.Mutex
	reports  []*verify.Report   // guarded by mu
	coverage []*verify.Coverage // guarded by mu
}

func historyOf(c *tool.Call) *runHistory {
	m, err := tool.PerWorkspace(c, func() (*runHistory, error) { return new(runHistory), nil })
	if err != nil {
		return new(runHistory) // making one does not fail
	}
	return m
}

// addReports remembers a run of the tests, in place of those of the same projects.
func (m *runHistory) addReports(list []*verify.Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range list {
		m.reports = slices.DeleteFunc(m.reports, func(old *verify.Report) bool { return old.Language == r.Language && old.Dir == r.Dir })
		m.reports = append(m.reports, r)
	}
}

// lastReports returns the reports of a language, or of all.
func (m *runHistory) lastReports(language string) []*verify.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	language = strings.ToLower(strings.TrimSpace(language))
	var out []*verify.Report
	for _, r := range m.reports {
		if language == "" || language == verify.All || r.Language == language {
			out = append(out, r)
		}
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

// timeAgo says how long ago something was.
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
