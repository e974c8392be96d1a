// Command testreport reads the output of go test -json and prints a summary: the output
// of failures, the skips with their reasons, the slowest tests, the counts, and last, in at most forty
// lines, the failures and the end of their output, for logs of which only the end is
// kept. It exits with 1 if anything failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/croft-run/croft/internal/testenv"
)

type testEvent struct {
	Action      string
	Package     string
	ImportPath  string // instead of Package, in build output
	FailedBuild string // the ImportPath of the build that failed
	Test        string
	Elapsed     float64
	Output      string
}

// commandFail is the action of a line that scripts/test writes for a command that failed.
// It counts only if no test or package failed.
const commandFail = "command-fail"

type key struct{ pkg, test string }

// A report collects the events of a run.
type report struct {
	output   map[key]*strings.Builder
	running  map[key]bool
	passed   int
	failed   []key
	commands []key // that ended with an error
	skipped  []key
	flaky    []key           // failed, and passed when they were run again
	elapsed  map[key]float64 // seconds, of tests that are no subtests
	table    table
	attacks  attacks
}

func main() {
	page := flag.String("providers", "", "file for what the conformance suite says of each provider")
	attackPage := flag.String("attacks", "", "file for the table of attacks")
	times := flag.String("times", "", "file for the time of each test")
	reruns := flag.Int("rerun", 0, "run failed tests once more, alone, if they are at most so many")
	flag.Parse()
	r := newReport()
	if err := r.readEvents(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	r.rerun(*reruns, os.Stdout, runAlone(os.Stdout))
	if err := errors.Join(
		writePage(*page, len(r.table.checks), r.table.writePage),
		writePage(*attackPage, len(r.attacks), r.attacks.writePage),
		writePage(*times, len(r.elapsed), r.writeTimes),
	); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !r.printReport(os.Stdout) {
		os.Exit(1)
	}
}

// writePage writes a page of results to a file, if there are rows.
func writePage(name string, rows int, write func(io.Writer)) error {
	if name == "" || rows == 0 {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	write(f)
	return f.Close()
}

func newReport() *report {
	return &report{output: map[key]*strings.Builder{}, running: map[key]bool{}, elapsed: map[key]float64{}, attacks: attacks{}}
}

func (r *report) readEvents(in io.Reader, out io.Writer) error {
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 1<<20), 64<<20)
	for sc.Scan() {
		var l testEvent
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			fmt.Fprintln(out, sc.Text()) // not JSON: a build error, a race report
			continue
		}
		r.addEvent(l, out)
	}
	return sc.Err()
}

func (r *report) addEvent(l testEvent, out io.Writer) {
	k := key{l.Package, l.Test}
	switch l.Action {
	case "run":
		r.running[k] = true
	case "pass", "fail", "skip":
		delete(r.running, k)
		if l.Test != "" && !strings.Contains(l.Test, "/") {
			r.elapsed[k] += l.Elapsed
		}
		r.table.addCell(k, l.Action, r.skipReason(k))
	}
	switch l.Action {
	case "output":
		r.attacks.addLine(l.Output)
		r.appendOutput(k, l.Output)
		return
	case "build-output":
		r.appendOutput(key{l.ImportPath, ""}, l.Output)
		return
	case "pass":
		if l.Test != "" {
			r.passed++
		}
	case "fail":
		if b := r.output[key{l.FailedBuild, ""}]; l.FailedBuild != "" && b != nil && l.FailedBuild != l.Package {
			r.appendOutput(k, b.String())
		}
		r.failed = append(r.failed, k)
		if l.Test == "" {
			r.failUnfinished(l.Package)
		}
	case commandFail:
		r.commands = append(r.commands, k)
		return
	case "skip":
		if l.Test != "" {
			r.skipped = append(r.skipped, k)
		}
	default:
		return
	}
	if l.Test == "" {
		fmt.Fprintf(out, "%-5s %s (%.1fs)\n", l.Action, l.Package, l.Elapsed)
	}
	// A package may run twice, with and without the race detector: the output of a
	// failure is kept.
	if l.Action == "pass" && !slices.Contains(r.failed, k) {
		delete(r.output, k)
	}
}

// failUnfinished counts tests as failed that were running when the program of their
// package ended, such as after a crash.
func (r *report) failUnfinished(pkg string) {
	for _, k := range slices.SortedFunc(maps.Keys(r.running), func(a, b key) int { return strings.Compare(a.test, b.test) }) {
		if k.pkg == pkg && k.test != "" {
			r.appendOutput(k, "it did not end\n")
			r.failed = append(r.failed, k)
			delete(r.running, k)
		}
	}
}

func (r *report) appendOutput(k key, text string) {
	if r.output[k] == nil {
		r.output[k] = new(strings.Builder)
	}
	r.output[k].WriteString(text)
}

// printReport prints the report, and returns whether all tests passed.
func (r *report) printReport(out io.Writer) bool {
	if len(r.failed) == 0 {
		r.failed = r.commands
	}
	for _, k := range r.failed {
		if b := r.output[k]; b != nil {
			fmt.Fprintf(out, "\n=== FAILED %s %s\n%s", k.pkg, k.test, b)
		}
	}
	r.printFlaky(out)
	if len(r.skipped) > 0 {
		fmt.Fprintf(out, "\nskipped, each because of something named:\n")
		r.printReasons(out)
	}
	r.printSlowest(out)
	if len(r.attacks) > 0 {
		r.attacks.printCounts(out)
	}
	tests := 0
	for _, k := range r.failed {
		if k.test != "" {
			tests++
		}
	}
	for _, k := range r.flaky {
		fmt.Fprintf(out, "\nflaky: %s %s\n", k.pkg, k.test)
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", r.passed+len(r.flaky), max(tests, min(len(r.failed), 1)), len(r.skipped))
	r.printFailed(out)
	return len(r.failed) == 0
}

// slowest is how many tests printSlowest prints, and slowSeconds how long such a test takes
// at least.
const (
	slowest     = 25
	slowSeconds = 10
)

// bySlowest returns the tests that are no subtests, the slowest first.
func (r *report) bySlowest() []key {
	return slices.SortedFunc(maps.Keys(r.elapsed), func(a, b key) int {
		return cmp.Or(cmp.Compare(r.elapsed[b], r.elapsed[a]), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
}

// writeTimes writes the seconds of each test, with its subtests.
func (r *report) writeTimes(out io.Writer) {
	for _, k := range r.bySlowest() {
		fmt.Fprintf(out, "%.1f %s %s\n", r.elapsed[k], k.pkg, k.test)
	}
}

// printSlowest prints the tests that took longest, with their subtests.
func (r *report) printSlowest(out io.Writer) {
	tests := r.bySlowest()
	if len(tests) == 0 || r.elapsed[tests[0]] < slowSeconds {
		return
	}
	fmt.Fprintf(out, "\nslowest:\n")
	for _, k := range tests[:min(len(tests), slowest)] {
		if r.elapsed[k] >= slowSeconds {
			fmt.Fprintf(out, "%6.0fs  %s %s\n", r.elapsed[k], k.pkg, k.test)
		}
	}
}

// maxSummaryLines bounds the summary of failures at the end.
const maxSummaryLines = 40

// printFailed prints the failures and the end of their output, in at most maxSummaryLines
// lines.
func (r *report) printFailed(out io.Writer) {
	failed := r.leafFailures()
	names := min(len(failed), maxSummaryLines-1) // one line for the rest
	if names == 0 {
		return
	}
	left := maxSummaryLines - 1 - names
	each := max(left/names, 5) // at least five lines for the first failures
	for _, k := range failed[:names] {
		fmt.Fprintln(out, strings.TrimSpace("FAILED "+k.pkg+" "+k.test))
		said := r.lastOutput(k, min(each, left))
		left -= len(said)
		for _, l := range said {
			fmt.Fprintln(out, l)
		}
	}
	if more := len(failed) - names; more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
}

// leafFailures are the failures without failed subtests: a test fails with its subtests,
// and a package with its tests.
func (r *report) leafFailures() []key {
	var leaves []key
	for _, k := range r.failed {
		explained := slices.ContainsFunc(r.failed, func(o key) bool {
			return o.pkg == k.pkg && o.test != "" && (k.test == "" || strings.HasPrefix(o.test, k.test+"/"))
		})
		if !explained && !slices.Contains(leaves, k) {
			leaves = append(leaves, k)
		}
	}
	return leaves
}

// lastOutput returns the last n lines of a failure's output, without those of go test.
func (r *report) lastOutput(k key, n int) []string {
	b := r.output[k]
	if b == nil {
		return nil
	}
	var lines []string
	for l := range strings.Lines(b.String()) {
		l = strings.TrimRight(l, "\r\n")
		if text := strings.TrimSpace(l); text != "" && text != "FAIL" && !strings.HasPrefix(text, "=== ") && !strings.HasPrefix(text, "--- ") {
			lines = append(lines, l)
		}
	}
	return lines[max(len(lines)-n, 0):]
}

// countReasons counts the skips by reason.
func (r *report) countReasons() map[string]int {
	count := map[string]int{}
	for _, k := range r.skipped {
		count[r.skipReason(k)]++
	}
	return count
}

func (r *report) printReasons(out io.Writer) {
	count := r.countReasons()
	var names []string
	for n := range count {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Fprintf(out, "%5d  %s\n", count[n], n)
	}
}

// skipReason is the last line of output of a skipped test.
func (r *report) skipReason(k key) string {
	b := r.output[k]
	if b == nil {
		return "(no reason given)"
	}
	reason := "(no reason given)"
	for l := range strings.Lines(b.String()) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "===") || strings.HasPrefix(l, "---") || strings.Contains(l, testenv.AttackPrefix) {
			continue
		}
		if _, rest, ok := strings.Cut(l, ".go:"); ok {
			if _, text, ok := strings.Cut(rest, ": "); ok {
				l = text
			}
		}
		reason = l
	}
	return reason
}
