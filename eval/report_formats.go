package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
)

// A finalReporter is a reporter that writes at the end of a run.
type finalReporter func(r *Result) error

// Report writes the report at the end of the run.
func (f finalReporter) Report(e Event) error {
	if r, ok := e.Result.(*Result); ok && e.Hook == OnSuiteFinish {
		return f(r)
	}
	return nil
}

// copyResults copies results.json.
func copyResults(out io.Writer, r *Result) error {
	f, err := os.Open(filepath.Join(r.ArtifactDir, ResultsName))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return errors.Join(err, f.Close())
}

// writeSummary writes the result without reports, as skillgym's json-summary.
func writeSummary(out io.Writer, r *Result) error {
	type caseSummary struct {
		CaseID        string            `json:"caseId"`
		Tags          []string          `json:"tags"`
		Passed        bool              `json:"passed"`
		RunnerResults []*executionBrief `json:"runnerResults"`
	}
	doc := struct {
		*Result
		Cases []caseSummary `json:"cases"`
	}{r, []caseSummary{}}
	for _, c := range r.Cases {
		doc.Cases = append(doc.Cases, caseSummary{c.CaseID, c.Tags, c.Passed, executionBriefs(c.RunnerResults)})
	}
	data, err := encodeDocument(doc)
	if err == nil {
		_, err = out.Write(data)
	}
	return err
}

// An executionBrief is an ExecutionResult in json-summary.
type executionBrief struct {
	Runner                *session.Runner   `json:"runner,omitempty"` // of an execution
	Repetition            int               `json:"repetition,omitempty"`
	Passed                bool              `json:"passed"`
	Status                Status            `json:"status"`
	Session               int               `json:"session,omitempty"`
	RepeatTarget          int               `json:"repeatTarget,omitempty"`
	CompletedRepetitions  int               `json:"completedRepetitions,omitempty"`
	SuccessfulRepetitions *int              `json:"successfulRepetitions,omitempty"`
	StoppedAtRepetition   int               `json:"stoppedAtRepetition,omitempty"`
	RetryCount            *int              `json:"retryCount,omitempty"` // not of a session
	DurationMs            float64           `json:"durationMs"`
	ExecutionDir          string            `json:"executionArtifactDir"`
	ArtifactDir           string            `json:"artifactDir"`
	Usage                 session.Usage     `json:"usage"`
	Sessions              []*executionBrief `json:"sessions,omitempty"`
	Repetitions           []*executionBrief `json:"repetitions,omitempty"`
	Error                 *ErrorInfo        `json:"error,omitempty"`
	FailureOrigin         Origin            `json:"failureOrigin,omitempty"`
	FailureClass          *Class            `json:"failureClass,omitempty"`
	WorkspacePath         string            `json:"workspacePath,omitempty"` // Croft's
}

func executionBriefs(list []*ExecutionResult) []*executionBrief {
	out := []*executionBrief{}
	for _, r := range list {
		b := &executionBrief{Repetition: r.Repetition, Passed: r.Passed, Status: r.Status, Session: r.Session, RepeatTarget: r.RepeatTarget,
			CompletedRepetitions: r.CompletedRepetitions, SuccessfulRepetitions: r.SuccessfulRepetitions, StoppedAtRepetition: r.StoppedAtRepetition,
			DurationMs: r.DurationMs, ExecutionDir: r.ExecutionDir, ArtifactDir: r.ArtifactDir, Sessions: executionBriefs(r.Sessions),
			Repetitions: executionBriefs(r.Repetitions), FailureOrigin: r.FailureOrigin, FailureClass: r.FailureClass, WorkspacePath: r.WorkspacePath}
		switch {
		case r.RepeatTarget > 0:
			b.Runner, b.RetryCount = &r.Runner, new(len(r.allSessions())-len(r.Repetitions))
		case r.Repetition > 0:
			b.RetryCount = new(max(0, len(r.Sessions)-1))
		}
		if r.Report != nil {
			b.Usage = r.Report.Usage
		}
		if r.Error != nil {
			b.Error = &ErrorInfo{Name: r.Error.Name, Message: r.Error.Message}
		}
		out = append(out, b)
	}
	return out
}

// ReadResult reads a results.json, or that of a run directory, without its large parts:
// events, commands and requests.
func ReadResult(path string) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, ResultsName)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("eval: read results: %w", err)
	}
	defer f.Close() // only read
	var r Result
	if err := json.NewDecoder(bufio.NewReader(f)).Decode(&r); err != nil {
		return nil, fmt.Errorf("eval: read %s: %w: %w", path, fault.InvalidArgument, err)
	}
	for _, c := range r.Cases {
		for i := range c.RunnerResults {
			if !c.RunnerResults[i].isComplete() {
				return nil, fmt.Errorf("eval: read %s: %w: a result of the case %q is null", path, fault.InvalidArgument, c.CaseID)
			}
			c.RunnerResults[i] = resultSummary(c.RunnerResults[i])
		}
	}
	return &r, nil
}

// isComplete reports whether a result that was read has no null entries.
func (r *ExecutionResult) isComplete() bool {
	if r == nil {
		return false
	}
	for _, x := range slices.Concat(r.Sessions, r.Repetitions) {
		if !x.isComplete() {
			return false
		}
	}
	return true
}

// githubReporter writes workflow commands that GitHub turns into annotations, and a job
// summary.
type githubReporter struct {
	standard *standardReporter
	out      io.Writer
	summary  string
}

// Report passes the event on, and writes annotations and the summary at the end.
func (g *githubReporter) Report(e Event) error {
	err := g.standard.Report(e)
	r, ok := e.Result.(*Result)
	if e.Hook != OnSuiteFinish || !ok {
		return err
	}
	var b bytes.Buffer
	for _, f := range r.failedExecutions() {
		writeAnnotation(&b, f)
	}
	_, werr := g.out.Write(b.Bytes())
	err = errors.Join(err, werr)
	if g.summary == "" {
		return err
	}
	var md bytes.Buffer
	const most = 10 // failures, as skillgym
	writeMarkdown(&md, r, most)
	file, oerr := os.OpenFile(g.summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if oerr != nil {
		return errors.Join(err, oerr)
	}
	_, werr = file.Write(md.Bytes())
	return errors.Join(err, werr, file.Close())
}

var (
	propertyEscape = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	messageEscape  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
)

func writeAnnotation(b *bytes.Buffer, f failedExecution) {
	props := []string{"title=" + propertyEscape.Replace(oneLine(f.caseID+" > "+f.Runner.ID))}
	message := string(f.Status)
	if f.Error != nil {
		message = f.Error.Name + ": " + f.Error.Message
		if at, ok := innermostFrame(f.Error.Stack); ok {
			// A path below the checkout, so that GitHub finds the file.
			file := at.file
			if root := os.Getenv("GITHUB_WORKSPACE"); root != "" {
				if rel, err := filepath.Rel(root, file); err == nil && filepath.IsLocal(rel) {
					file = rel
				}
			}
			props = append(props, "file="+propertyEscape.Replace(file), fmt.Sprintf("line=%d", at.line), fmt.Sprintf("col=%d", at.column))
		}
	}
	fmt.Fprintf(b, "::error %s::%s\n", strings.Join(props, ","), messageEscape.Replace(PlainText(message)))
}

// writeMarkdown writes a result as Markdown, with at most most failures; 0 is all.
func writeMarkdown(b *bytes.Buffer, r *Result, most int) {
	passed := 0
	for _, c := range r.Cases {
		if c.Passed {
			passed++
		}
	}
	fmt.Fprintf(b, "## %s: %d of %d cases passed\n\n", tableCell(filepath.Base(r.SuitePath)), passed, len(r.Cases))
	b.WriteString("| case |")
	for _, s := range r.Runners {
		fmt.Fprintf(b, " %s |", tableCell(s.Runner.ID))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(r.Runners)) + "\n")
	for _, c := range r.Cases {
		fmt.Fprintf(b, "| %s |", tableCell(c.CaseID))
		for _, s := range r.Runners {
			text := "-"
			for _, e := range c.RunnerResults {
				if e.Runner.ID == s.Runner.ID {
					text = strings.TrimSpace(verdictText(e.Passed) + " " + formatDuration(e.DurationMs) + " " + statusRemark(e))
				}
			}
			fmt.Fprintf(b, " %s |", tableCell(text))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| runner | passed | mean time | mean tokens | cost |\n|---|---|---|---|---|\n")
	for _, s := range r.Runners {
		ci := Wilson(s.PassedCases, s.TotalCases)
		tokens, cost := "-", "-"
		if s.AverageTotalTokens != nil {
			tokens = fmt.Sprintf("%.0f", *s.AverageTotalTokens)
		}
		if s.CostUSD != nil {
			cost = fmt.Sprintf("%.4f USD", *s.CostUSD)
		}
		fmt.Fprintf(b, "| %s | %d of %d (%.0f %%, 95 %%: %.0f to %.0f) | %s | %s | %s |\n", tableCell(s.Runner.ID), s.PassedCases, s.TotalCases,
			100*ci.Value, 100*ci.Low, 100*ci.High, formatDuration(s.AverageDurationMs), tokens, cost)
	}
	for i, f := range r.failedExecutions() {
		if most > 0 && i == most {
			fmt.Fprintf(b, "\n...and %d more failures.\n", len(r.failedExecutions())-most)
			break
		}
		fmt.Fprintf(b, "\n<details><summary>%s &gt; %s: %s</summary>\n\n", escapeMarkup(f.caseID), escapeMarkup(f.Runner.ID), escapeMarkup(classText(f.failureClass())))
		if f.Error != nil {
			fmt.Fprintf(b, "```text\n%s\n```\n", strings.ReplaceAll(PlainText(f.Error.Name+": "+f.Error.Message), "```", "'''"))
		}
		if _, tail := f.failureTail(); tail != "" {
			fmt.Fprintf(b, "```text\n%s\n```\n", strings.ReplaceAll(tail, "```", "'''"))
		}
		if f.WorkspacePath != "" {
			fmt.Fprintf(b, "\nWorkspace: `%s`\n", f.WorkspacePath)
		}
		if f.WorkspaceError != "" {
			fmt.Fprintf(b, "\nWorkspace was not kept whole: %s\n", f.WorkspaceError)
		}
		b.WriteString("\n</details>\n")
	}
}

// tableCell escapes a text for a Markdown table.
func tableCell(s string) string { return strings.ReplaceAll(escapeMarkup(oneLine(s)), "|", `\|`) }

func escapeMarkup(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Name    string       `xml:"name,attr"`
	Tests   int          `xml:"tests,attr"`
	Fails   int          `xml:"failures,attr"`
	Errors  int          `xml:"errors,attr"`
	Time    string       `xml:"time,attr"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name   string      `xml:"name,attr"`
	Tests  int         `xml:"tests,attr"`
	Fails  int         `xml:"failures,attr"`
	Errors int         `xml:"errors,attr"`
	Time   string      `xml:"time,attr"`
	Stamp  string      `xml:"timestamp,attr"`
	Cases  []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Error   *junitFailure `xml:"error,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes JUnit's XML: a test suite per runner, a test case per case.
func writeJUnit(out io.Writer, r *Result) error {
	all := junitSuites{Name: r.SuitePath, Time: formatSeconds(r.DurationMs)}
	for _, sum := range r.Runners {
		s := junitSuite{Name: sum.Runner.ID, Stamp: strings.TrimSuffix(r.StartedAt, "Z")}
		total := 0.0
		for _, c := range r.Cases {
			for _, x := range c.RunnerResults {
				if x.Runner.ID == sum.Runner.ID {
					total += x.DurationMs
					s.add(c.CaseID, x)
				}
			}
		}
		s.Time = formatSeconds(total)
		all.Suites, all.Tests, all.Fails, all.Errors = append(all.Suites, s), all.Tests+s.Tests, all.Fails+s.Fails, all.Errors+s.Errors
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s%s\n", xml.Header, data)
	return err
}

// add adds a case. A failed assertion is a failure; anything else is an error.
func (s *junitSuite) add(caseID string, x *ExecutionResult) {
	c := junitCase{Name: caseID, Class: s.Name, Time: formatSeconds(x.DurationMs)}
	s.Tests++
	if !x.Passed {
		f := &junitFailure{Type: failedExecution{caseID, x}.failureClass().ID, Message: string(x.Status)}
		if x.Error != nil {
			f.Message, f.Text = x.Error.Message, x.Error.Stack
		}
		if x.FailureOrigin == OriginAssertion || x.Status == StatusUnexpectedPassed {
			c.Failure = f
			s.Fails++
		} else {
			c.Error = f
			s.Errors++
		}
		c.Out = x.ArtifactDir
	}
	s.Cases = append(s.Cases, c)
}

func formatSeconds(ms float64) string { return fmt.Sprintf("%.3f", ms/1000) }
