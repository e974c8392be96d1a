package verifytool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of the failures in the answer of a test run.
const (
	shownFailures = 20
	shownNames    = 30      // of further failures
	shownMessage  = 2 << 10 // bytes of each text of a failure
	shownTail     = 2 << 10 // bytes of the output of a runner that is not known
)

// shorten returns a report for an answer: without the runner's output, which is kept under
// an id, and with the first failures.
func shorten(c *tool.Call, r *verify.Report) *verify.Report {
	short := *r
	if raw := outputText(r.Output); raw != "" && (r.Session == "" || c.Env.Results != nil) {
		short.Session = c.Keep(raw)
	}
	short.Stdout, short.Stderr = "", ""
	short.Missing, short.NotRun = r.Missing[:min(len(r.Missing), shownNames)], r.NotRun[:min(len(r.NotRun), shownNames)]
	if !r.Structured && r.OK() {
		short.Stdout = tail(outputText(r.Output), shownTail) // the numbers of tests are not known
	}
	short.Failures = slices.Clone(r.Failures[:min(len(r.Failures), shownFailures)])
	for i := range short.Failures {
		f := &short.Failures[i]
		f.Message, f.Diff = head(f.Message, shownMessage), head(f.Diff, shownMessage)
		f.Expected, f.Actual = head(f.Expected, shownMessage), head(f.Actual, shownMessage)
		if f.Output = tail(f.Output, shownMessage); f.Kind == verify.KindTest && f.Message != "" {
			f.Output = ""
		}
	}
	return &short
}

// head returns the first bytes of a text, up to the end of a line.
func head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := text[:limit]
	if i := strings.LastIndexByte(cut, '\n'); i > 0 {
		cut = cut[:i]
	}
	return fmt.Sprintf("%s\n... (%d more bytes)", strings.ToValidUTF8(cut, ""), len(text)-len(cut))
}

// tail returns the last bytes of a text, from the beginning of a line.
func tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := text[len(text)-limit:]
	if _, rest, ok := strings.Cut(cut, "\n"); ok && rest != "" {
		cut = rest
	}
	return fmt.Sprintf("... (%d bytes before)\n%s", len(text)-len(cut), strings.ToValidUTF8(cut, ""))
}

// reportText returns a test run as text: the numbers, the failures, and where the runner's
// output is. r is as shorten returns it; whole is the same with all failures.
func reportText(r, whole *verify.Report, timeout int) string {
	var b strings.Builder
	if r.Structured || len(r.Failures) > 0 {
		fmt.Fprintf(&b, "%d passed, %d failed, ", r.Passed, r.Failed)
		if r.NotFinished > 0 {
			fmt.Fprintf(&b, "%d not finished, ", r.NotFinished)
		}
		if n := len(whole.Missing) + len(whole.NotRun); n > 0 {
			fmt.Fprintf(&b, "%d not run again, ", n)
		}
		fmt.Fprintf(&b, "%d skipped", r.Skipped)
	} else {
		writeStreams(&b, verify.Output{Stdout: r.Stdout})
		b.WriteString("the command passed; its output has no numbers of tests that could be read")
	}
	if r.Runner != "" {
		fmt.Fprintf(&b, " (%s)", r.Runner)
	}
	b.WriteByte('\n')
	for i := range r.Failures {
		writeFailure(&b, i+1, &r.Failures[i])
	}
	writeFurther(&b, whole.Failures[len(r.Failures):])
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	writeEnd(&b, r.ExitCode, r.Cause, timeout)
	if r.Session != "" {
		fmt.Fprintf(&b, "output: BashOutput with shell_id %q and offset 0 reads it\n", r.Session)
	}
	return b.String()
}

// writeFurther writes the names of failures that are not shown.
func writeFurther(b *strings.Builder, list []verify.Failure) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "%d more failures; the output has them:\n", len(list))
	for i := range list[:min(len(list), shownNames)] {
		f := &list[i]
		name := head(f.Name(), 200)
		if name == "" {
			name = f.File
		}
		fmt.Fprintf(b, "   %s\n", name)
	}
	if more := len(list) - shownNames; more > 0 {
		fmt.Fprintf(b, "   ... and %d more\n", more)
	}
}

// outputText returns the output of a command as text.
func outputText(o verify.Output) string {
	var b strings.Builder
	writeStreams(&b, o)
	return b.String()
}

// writeStreams writes the output of a command.
func writeStreams(b *strings.Builder, o verify.Output) {
	b.WriteString(o.Stdout)
	if o.Stdout != "" && !strings.HasSuffix(o.Stdout, "\n") {
		b.WriteByte('\n')
	}
	if strings.TrimSpace(o.Stderr) != "" {
		b.WriteString("--- stderr ---\n" + strings.TrimRight(o.Stderr, "\n") + "\n")
	}
	if o.Dropped > 0 && o.Session != "" {
		fmt.Fprintf(b, "(BashOutput with shell_id %q reads what was dropped)\n", o.Session)
	}
}

// writeEnd writes the exit cause and status of a failed command.
func writeEnd(b *strings.Builder, exit int, cause driver.Cause, timeout int) {
	switch {
	case cause == driver.CauseTimeout:
		fmt.Fprintf(b, "timed out after %ds\n", timeout)
		exit = 124
	case cause != "":
		fmt.Fprintf(b, "ended: %s\n", cause)
	}
	if exit != 0 {
		fmt.Fprintf(b, "exit: %d\n", exit)
	}
}

// writeFailure writes one failure.
func writeFailure(b *strings.Builder, n int, f *verify.Failure) {
	name := f.Name()
	if name == "" {
		name = f.File
	}
	switch f.Kind {
	case verify.KindBuild:
		name = strings.TrimSpace(name + " [does not build]")
	case verify.KindSetup:
		name = strings.TrimSpace(name + " [setup]")
	case verify.KindCut:
		name = strings.TrimSpace(name + " [not finished]")
		if f.Name() == "" {
			name = "[cut short]"
		}
	}
	fmt.Fprintf(b, "%d. %s\n", n, name)
	if f.File != "" {
		place := f.File
		if f.Line > 0 {
			place += fmt.Sprintf(":%d", f.Line)
		}
		fmt.Fprintf(b, "   %s\n", place)
	}
	message := f.Message
	if message == "" || f.Kind != verify.KindTest && f.Kind != verify.KindBuild && f.Output != "" {
		message = strings.TrimSpace(message + "\n" + f.Output)
	}
	for line := range strings.Lines(message) {
		fmt.Fprintf(b, "   %s\n", strings.TrimRight(line, "\n"))
	}
	if f.Diff != "" && !strings.Contains(f.Message, f.Diff) {
		b.WriteString("   --- diff ---\n")
		for line := range strings.Lines(f.Diff) {
			fmt.Fprintf(b, "   %s\n", strings.TrimRight(line, "\n"))
		}
	}
}

// diagnosticLine returns a finding on one line: file:line:col:rule: message.
func diagnosticLine(d verify.Diagnostic) string {
	rule := d.Rule
	if rule == "" {
		rule = string(d.Severity)
	}
	return fmt.Sprintf("%s:%d:%d:%s: %s", d.File, d.Line, d.Column, rule, d.Message)
}

// findingsText returns findings, one per line, then their number.
func findingsText(f *verify.Findings, verb string, timeout int) string {
	var b strings.Builder
	const shown = 500
	for _, d := range f.Diagnostics[:min(len(f.Diagnostics), shown)] {
		b.WriteString(diagnosticLine(d) + "\n")
	}
	if more := len(f.Diagnostics) - shown; more > 0 {
		fmt.Fprintf(&b, "... (%d more)\n", more)
	}
	if len(f.Diagnostics) == 0 && f.ExitCode != 0 {
		writeStreams(&b, f.Output) // unparsed output is shown
	}
	fmt.Fprintf(&b, "%d findings\n", len(f.Diagnostics))
	for _, n := range f.Notes {
		fmt.Fprintf(&b, "(%s incomplete: %s)\n", verb, n)
	}
	writeEnd(&b, f.ExitCode, f.Cause, timeout)
	return b.String()
}
