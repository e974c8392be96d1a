package eval

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/eval/session"
)

// reportName is the HTML page of a run.
const reportName = "report.html"

//go:embed report.html.tmpl
var pageTemplate string

// htmlReporter writes report.html beside results.json: one file that loads nothing.
type htmlReporter struct {
	standard *standardReporter // prints progress; nil for none
	file     io.Writer         // gets a copy of the page; nil for none
}

// Report passes the event on, and writes the page at the end.
func (h *htmlReporter) Report(e Event) error {
	if h.standard != nil {
		if err := h.standard.Report(e); err != nil {
			return err
		}
	}
	r, ok := e.Result.(*Result)
	if e.Hook != OnSuiteFinish || !ok {
		return nil
	}
	path := filepath.Join(r.ArtifactDir, reportName)
	page, err := Page(r)
	if err != nil {
		return err
	}
	if err := writeAtomic(path, page); err != nil || h.standard == nil {
		if err == nil {
			_, err = h.file.Write(page)
		}
		return err
	}
	_, err = fmt.Fprintf(h.standard.out, "Report      %s\n", path)
	return err
}

// Page is a result as a page of HTML.
func Page(r *Result) ([]byte, error) {
	return renderPage("run", r, map[string]any{"Result": r, "Title": filepath.Base(r.SuitePath), "Plots": runCharts(r), "Failed": len(r.failedExecutions())})
}

// maxOpened is how many failed executions of a page are open at first.
const maxOpened = 20

// renderPage executes a template of the page. Links are relative to the directory of r,
// so that they hold where the whole directory is moved; r is nil without links.
func renderPage(name string, r *Result, data any) ([]byte, error) {
	anchors, opened := map[*ExecutionResult]string{}, map[*ExecutionResult]bool{}
	if r != nil {
		for i, c := range r.Cases {
			for j, e := range c.RunnerResults {
				anchors[e] = fmt.Sprintf("e%d-%d", i+1, j+1)
				if !e.Passed && len(opened) < maxOpened {
					opened[e] = true
				}
			}
		}
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"duration": formatDuration, "tokens": tokensText, "remark": statusRemark, "verdict": verdictText,
		"percent": func(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) },
		"usd":     func(x *float64) string { return formatUSD(x) },
		"agent":   agentName,
		"of": func(c CaseResult, runner string) *ExecutionResult {
			for _, e := range c.RunnerResults {
				if e.Runner.ID == runner {
					return e
				}
			}
			return nil
		},
		"class": func(e *ExecutionResult) string { return failedExecution{"", e}.failureClass().ID },
		"diff":  func(e *ExecutionResult) string { return readText(filepath.Join(e.ArtifactDir, diffName)) },
		"tail":  func(e *ExecutionResult) string { _, tail := e.failureTail(); return tail },
		"trace": errorTrace, "did": readActivity, "bytes": formatMiB,
		"anchor": func(e *ExecutionResult) string { return anchors[e] },
		"opened": func(e *ExecutionResult) bool { return opened[e] },
		"link":   func(path string) string { return relativeLink(r, path) },
		"name":   filepath.Base,
		"files":  sessionFiles, "sessions": earlierSessions,
		"exited": func(status int) string { return verdictText(status == 0) },
	}).Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// relativeLink is the link to a file of a run from its page.
func relativeLink(r *Result, path string) string {
	rel, err := filepath.Rel(r.ArtifactDir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return (&url.URL{Path: filepath.ToSlash(path)}).String()
	}
	return (&url.URL{Path: "./" + filepath.ToSlash(rel)}).String()
}

// sessionFiles lists the files of a session that are worth a link.
func sessionFiles(e *ExecutionResult) []string {
	var list []string
	for _, name := range []string{"report.json", "stdout.log", "stderr.log", explainName, diffName} {
		path := filepath.Join(e.ArtifactDir, name)
		if _, err := os.Stat(path); err == nil {
			list = append(list, path)
		}
	}
	return list
}

// earlierSessions lists the sessions of an execution before the last, which is shown.
func earlierSessions(e *ExecutionResult) []*ExecutionResult {
	all := e.allSessions()
	return all[:max(0, len(all)-1)]
}

func formatUSD(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f USD", *x)
}

// readText returns the beginning of a file, "" if it can't be read.
func readText(path string) string {
	const most = 64 << 10
	data, err := readOwnFile(path, most)
	if err != nil {
		return "" // an unreadable file is not shown
	}
	return strings.ToValidUTF8(string(data), "?")
}

// errorTrace is an error with its stack, which may begin with the message.
func errorTrace(e *ErrorInfo) string {
	head := e.Name + ": " + e.Message
	if e.Stack == "" {
		return head
	}
	if strings.Contains(e.Stack, e.Message) {
		return e.Stack
	}
	return head + "\n" + e.Stack
}

// An activity is what an agent did, as far as the page shows it.
type activity struct {
	*session.Report
	Tools  []string // with how often each was called
	Skills []string
	More   int // commands that are not shown
}

// readActivity reads the activity of a session from its report, nil if it can't be read.
func readActivity(e *ExecutionResult) *activity {
	const most, commands, requests = 8 << 20, 100, 50
	data, err := readOwnFile(filepath.Join(e.ArtifactDir, "report.json"), most)
	d := &activity{Report: new(session.Report)}
	if err != nil || json.Unmarshal(data, d.Report) != nil {
		return nil
	}
	calls := map[string]int{}
	for _, ev := range d.Events {
		if ev.Type == session.ToolCall {
			calls[ev.Tool]++
		}
	}
	for _, tool := range slices.Sorted(maps.Keys(calls)) {
		d.Tools = append(d.Tools, fmt.Sprintf("%s (%d)", tool, calls[tool]))
	}
	for _, s := range d.DetectedSkills {
		d.Skills = append(d.Skills, s.Skill)
	}
	d.More = max(0, len(d.Commands)-commands)
	d.Commands = d.Commands[:min(len(d.Commands), commands)]
	d.Network = d.Network[:min(len(d.Network), requests)]
	return d
}

func formatMiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
