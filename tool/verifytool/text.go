package verifytool

import (
	"fmt"
	"strings"

	"github.com/croft-run/croft/tool/verify"
	"github.com/croft-run/croft/workspace/driver"
)

// reportText returns a test run as text: the runner's output, then the failures.
func reportText(r *verify.Report, timeout int) string {
	var b strings.Builder
	writeStreams(&b, r.Output)
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)
	if r.Runner != "" {
		fmt.Fprintf(&b, " (%s)", r.Runner)
	}
	b.WriteByte('\n')
	const shown = 20
	for i := range r.Failures[:min(len(r.Failures), shown)] {
		writeFailure(&b, i+1, &r.Failures[i])
	}
	if more := len(r.Failures) - shown; more > 0 {
		fmt.Fprintf(&b, "... (%d more failures; last_test_failures shows them)\n", more)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	writeEnd(&b, r.ExitCode, r.Cause, timeout)
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
		name = strings.TrimSpace(name + " [cut short]")
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
	if message == "" || f.Kind == verify.KindSetup && f.Output != "" {
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
