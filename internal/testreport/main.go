// Command testreport reads the output of go test -json and prints what a person
// wants of it: the output of what failed, the list of what was skipped and why,
// and the counts. It exits with 1 if anything failed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

type line struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

type key struct{ pkg, test string }

// A report is what was seen so far.
type report struct {
	output  map[key]*strings.Builder
	passed  int
	failed  []key
	skipped []key
}

func main() {
	r := &report{output: map[key]*strings.Builder{}}
	if err := r.read(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !r.print(os.Stdout) {
		os.Exit(1)
	}
}

func (r *report) read(in io.Reader, out io.Writer) error {
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 1<<20), 64<<20)
	for sc.Scan() {
		var l line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			fmt.Fprintln(out, sc.Text()) // not of ours: a build error, a race report
			continue
		}
		r.take(l, out)
	}
	return sc.Err()
}

func (r *report) take(l line, out io.Writer) {
	k := key{l.Package, l.Test}
	switch l.Action {
	case "output", "build-output":
		if r.output[k] == nil {
			r.output[k] = new(strings.Builder)
		}
		r.output[k].WriteString(l.Output)
		return
	case "pass":
		if l.Test != "" {
			r.passed++
		}
	case "fail", "build-fail":
		r.failed = append(r.failed, k)
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
	if l.Action == "pass" {
		delete(r.output, k)
	}
}

// print reports whether all is well.
func (r *report) print(out io.Writer) bool {
	for _, k := range r.failed {
		if b := r.output[k]; b != nil {
			fmt.Fprintf(out, "\n=== FAILED %s %s\n%s", k.pkg, k.test, b)
		}
	}
	if len(r.skipped) > 0 {
		fmt.Fprintf(out, "\nskipped, each because of something named:\n")
		r.printReasons(out)
	}
	tests := 0
	for _, k := range r.failed {
		if k.test != "" {
			tests++
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", r.passed, max(tests, min(len(r.failed), 1)), len(r.skipped))
	return len(r.failed) == 0
}

// reasons counts the skips by their reason.
func (r *report) reasons() map[string]int {
	count := map[string]int{}
	for _, k := range r.skipped {
		count[r.reason(k)]++
	}
	return count
}

func (r *report) printReasons(out io.Writer) {
	count := r.reasons()
	var names []string
	for n := range count {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Fprintf(out, "%5d  %s\n", count[n], n)
	}
}

// reason is the last line that a skipped test wrote.
func (r *report) reason(k key) string {
	b := r.output[k]
	if b == nil {
		return "(no reason given)"
	}
	reason := "(no reason given)"
	for l := range strings.Lines(b.String()) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "===") || strings.HasPrefix(l, "---") {
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
