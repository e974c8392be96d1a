package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Test runs the tests of a project: all, or those that cover opts.Files. Failed tests are
// in the report; an error means that no test could be run.
func Test(ctx context.Context, ws *workspace.Workspace, p profile.Project, opts *Options) (*Report, error) {
	o := opts.orZero()
	p = withVenv(ctx, ws, p)
	c := p.Test
	argv, ok := c.All()
	t := newTestRun(ws, p, o)
	if o.Command != "" {
		c = profile.Command{Dir: p.Dir}
		argv, t.report.assigns = explicitArgv(o.Command)
		ok = true
	} else if len(o.Files) > 0 {
		ch := o.Choice
		if ch == nil {
			list, err := Choose(ctx, ws, profile.Profile{Projects: []profile.Project{p}}, []profile.Project{p}, o)
			if err != nil {
				return nil, err
			}
			ch = &list[0]
		}
		t.report.Notes = append(t.report.Notes, ch.notes...)
		if !p.ScopedTest.IsZero() {
			c = p.ScopedTest
		} else if !c.IsZero() && c.Argv[0] != "ctest" {
			t.report.Notes = append(t.report.Notes, fmt.Sprintf("%s can't run the tests of some files; all ran", c.Argv[0]))
		}
		scoped, takes := c.Expand(ch.files)
		switch {
		case takes && !ch.all:
			argv, ok = scoped, true
		case !ch.all && ok:
			t.report.Notes = append(t.report.Notes, fmt.Sprintf("which tests cover %s is not known; all ran", strings.Join(o.Files, ", ")))
			c = p.Test
		default:
			c = p.Test
		}
	}
	if !ok {
		return nil, fmt.Errorf("verify: test %s: %w: no test command detected for the %s project", p.Dir, fault.NotFound, p.Ecosystem)
	}
	t.runner, t.known = findRunner(argv)
	j := job{argv: argv, dir: c.Dir, assigns: t.report.assigns}
	if t.known {
		t.runner.prepare(&j)
	} else {
		t.throughScript(ctx, &j)
	}
	if ok, err := t.build(ctx); err != nil || !ok {
		return t.finishReport(ctx), err
	}
	if err := t.selectCTest(ctx, &j); err != nil {
		return nil, err
	}
	if err := t.run(ctx, &j); err != nil {
		return nil, err
	}
	return t.finishReport(ctx), nil
}

// maxRerunBytes bounds the names of tests in one command: the kernel takes at most 128 KiB
// for one argument, and a script with all of the command is one.
const maxRerunBytes = 24 << 10

// Rerun runs exactly the tests that failed in a report of the same project, with several
// commands if their names are too long for one. A failure that is no test, such as a package
// that does not compile, is run whole.
func Rerun(ctx context.Context, ws *workspace.Workspace, p profile.Project, last *Report, opts *Options) (*Report, error) {
	failures := last.unresolved()
	if len(failures) == 0 && last.Cause == "" {
		return nil, fmt.Errorf("verify: rerun %s: %w: the last run had no failures", p.Dir, fault.WrongState)
	}
	if !last.Structured {
		return nil, fmt.Errorf("verify: rerun %s: %w: the failures of the last run are not known by name", p.Dir, fault.Unsupported)
	}
	p = withVenv(ctx, ws, p)
	t := newTestRun(ws, p, opts.orZero())
	t.report.assigns = last.assigns
	base, dir := rerunBase(p)
	if t.runner, t.known = findRunner(base); !t.known || t.runner.name != last.Runner {
		return nil, fmt.Errorf("verify: rerun %s: %w: %s can't run single tests of this project", p.Dir, fault.Unsupported, cmp.Or(last.Runner, "its runner"))
	}
	if len(failures) == 0 || slices.ContainsFunc(failures, func(f Failure) bool {
		return f.Package == "" && f.selector == "" && (f.File == "" || f.Kind == KindSetup)
	}) {
		return Test(ctx, ws, p, opts) // what the tests are is not known
	}
	if last.Cause != "" {
		t.report.Notes = append(t.report.Notes, "the last run was cut short: tests that had not begun then are not among these")
	}
	asked := failures
	if t.o.Limit > 0 && t.o.Limit < len(failures) {
		asked = failures[:t.o.Limit]
		t.report.Notes = append(t.report.Notes, fmt.Sprintf("the limit is %d of %d tests", t.o.Limit, len(failures)))
	}
	rel := func(file string) string { return relativeTo(dir, file) }
	if ok, err := t.build(ctx); err != nil || !ok {
		t.noteNotRun(failures, nil)
		return t.finishReport(ctx), err
	}
	if t.o.Timeout > 0 {
		t.deadline = time.Now().Add(t.o.Timeout)
	}
	done := map[string]bool{} // by Failure.key
	for _, batch := range rerunBatches(t.runner, base, asked, rel) {
		j := job{argv: batch.argv, dir: dir, assigns: last.assigns}
		t.runner.prepare(&j)
		if err := t.run(ctx, &j); err != nil {
			return nil, err
		}
		if t.report.Cause != "" {
			break
		}
		for _, f := range batch.failures {
			done[f.key()] = true
		}
	}
	t.noteNotRun(failures, done)
	return t.finishReport(ctx), nil
}

// A rerunBatch is one command of a Rerun, and the failures that it runs again.
type rerunBatch struct {
	argv     []string
	failures []Failure
}

// rerunBatches returns the commands that run failures again, none of them too long. If one of
// them is that for all tests, it is the only one.
func rerunBatches(r testRunner, base []string, failures []Failure, rel func(string) string) []rerunBatch {
	var out []rerunBatch
	all := failures
	for len(failures) > 0 {
		n, size := 0, 0
		for n < len(failures) && (n == 0 || size+len(failures[n].key()) <= maxRerunBytes) {
			size += len(failures[n].key())
			n++
		}
		part := failures[:n]
		failures = failures[n:]
		commands := r.rerun(base, part, rel)
		for i, argv := range commands {
			if slices.Equal(argv, base) {
				return []rerunBatch{{argv, all}}
			}
			b := rerunBatch{argv: argv}
			if i == len(commands)-1 {
				b.failures = part
			}
			out = append(out, b)
		}
	}
	return out
}

// rerunBase returns the command to which tests are appended: the one that takes files, else
// the one for all.
func rerunBase(p profile.Project) (argv []string, dir string) {
	whole, _ := p.Test.All()
	if _, ok := findRunner(whole); ok && p.Ecosystem != profile.Node {
		return whole, p.Test.Dir
	}
	return slices.DeleteFunc(slices.Clone(p.ScopedTest.Argv), func(a string) bool { return strings.Contains(a, "$") }), p.ScopedTest.Dir
}

func relativeTo(dir, file string) string {
	if rel, ok := strings.CutPrefix(file, dir+"/"); ok && dir != "." {
		return rel
	}
	return file
}

// A testRun is a running test command.
type testRun struct {
	ws      *workspace.Workspace
	project profile.Project
	o       *Options
	runner  testRunner
	known   bool
	report  *Report
	seen    map[string]bool
	out     capture
	err     capture
	done    int
	refused []driver.Refusal

	deadline time.Time // of several commands together; zero is none
}

func newTestRun(ws *workspace.Workspace, p profile.Project, o *Options) *testRun {
	t := &testRun{ws: ws, project: p, o: o, report: &Report{Language: string(p.Ecosystem), Dir: p.Dir, Failures: []Failure{}}}
	t.out.Most, t.err.Most = o.maxOutput(), o.maxOutput()
	return t
}

// throughScript prepares a job that starts a script of package.json, if the runner is the
// last command of the script, so that appended flags reach it.
func (t *testRun) throughScript(ctx context.Context, j *job) {
	r, ok := findRunner(t.project.ScopedTest.Argv)
	if !ok || len(j.argv) != 3 || j.argv[1] != "run" {
		return
	}
	data, err := t.ws.ReadFileMax(ctx, path.Join(j.dir, "package.json"), maxSource)
	var manifest struct{ Scripts map[string]string }
	if err != nil || json.Unmarshal(data, &manifest) != nil {
		return
	}
	script := strings.Fields(manifest.Scripts[j.argv[2]])
	last := len(script)
	for last > 0 && !slices.Contains([]string{"&&", "||", ";", "|", "&"}, script[last-1]) {
		last--
	}
	if found, ok := findRunner(script[last:]); !ok || found.name != r.name || strings.HasSuffix(manifest.Scripts[j.argv[2]], ";") {
		return
	}
	t.runner, t.known = r, true
	if r.name == "node:test" {
		r.prepare(j)
		return
	}
	flags := job{}
	r.prepare(&flags)
	if j.argv[0] == "npm" {
		j.argv = append(j.argv, "--") // other package managers pass unknown flags on
	}
	j.argv = append(j.argv, flags.argv...)
	j.merge, j.env, j.files = flags.merge, flags.env, flags.files
}

// maxText bounds the output that is kept for a parser.
const maxText = 16 << 20

// run runs one command and adds its results.
func (t *testRun) run(ctx context.Context, j *job) error {
	place := runLocation{root: t.ws.Traits().Root, dir: j.dir, module: t.project.Name}
	stdout, stderr := newCapture(maxText), newCapture(maxText)
	gop := t.goParser(place)
	show := lineWriter{limit: 1 << 20, each: t.showLine}
	if gop != nil {
		show = lineWriter{limit: 1 << 20, each: gop.parseLine}
	}
	began, o := time.Now(), *t.o
	if !t.deadline.IsZero() {
		o.Timeout = max(t.deadline.Sub(began), time.Millisecond)
	}
	ran, err := j.run(ctx, t.ws, &o, func(data []byte) {
		show.write(data)
		if gop == nil {
			stdout.Add(data)
		}
	}, func(data []byte) {
		stderr.Add(data)
		t.err.Add(data)
	})
	show.flush()
	if err = unsupportedIfMissing(t.ws, j.argv, ran.Result, stdout, stderr, err); err != nil {
		return err
	}
	t.report.Duration += time.Since(began)
	t.recordCommand(j, ran)
	if !t.known {
		return nil
	}
	if gop != nil {
		t.addResults(gop.finish())
	} else {
		w := runnerOutput{stdout.bytes(), stderr.bytes(), ran.reports}
		res := t.runner.parse(w, place)
		if ran.Cause != "" && !res.understood {
			res = printed(t.runner.name, w, place)
		}
		if res.early && !runsNoTests(j.argv) && ran.Cause == "" && (ran.ExitCode == 0 || len(res.failures) > 0) {
			res.understood = true
			res.addFailure(Failure{Kind: KindSetup, Message: t.runner.name + " " + endedEarly, Output: string(w.bothStreams())})
		}
		t.addResults(res)
	}
	return nil
}

// runsNoTests reports whether a command only lists tests or describes the runner.
func runsNoTests(argv []string) bool {
	flags := strings.Fields("--version --help -h --collect-only --co --fixtures --markers --listTests --showConfig --list")
	return slices.ContainsFunc(argv, func(a string) bool { return slices.Contains(flags, a) })
}

// endedEarly is the message of a run that did not come to its end, whatever its status.
const endedEarly = "ended before its tests did: the end of its report is missing. Tests may not have run. " +
	"A call that ends the process, in a test or in the code, does that"

// goParser returns the streaming parser of go test, nil for other runners.
func (t *testRun) goParser(place runLocation) *goParser {
	if t.runner.name != "go test" {
		return nil
	}
	p := newGoParser(place)
	p.text = func(s string) { t.out.Add([]byte(s)) }
	p.progress = func(done, failed int, line string) {
		if t.o.Progress != nil {
			t.o.Progress(Progress{Done: done, Failed: failed, Line: line})
		}
	}
	return p
}

// showLine keeps one line of output and reports progress.
func (t *testRun) showLine(line []byte) {
	if bytes.HasPrefix(line, []byte(`{"reason":"`)) && t.runner.name == "cargo test" {
		var m cargoMessage
		if json.Unmarshal(line, &m) == nil && m.Message.Rendered != "" {
			t.out.Add([]byte(m.Message.Rendered))
		}
		return
	}
	t.out.Add(append(bytes.Clone(line), '\n'))
	if t.o.Progress != nil {
		t.done++
		t.o.Progress(Progress{Line: plainText(string(line))})
	}
}

// unsupportedIfMissing returns Unsupported if the program does not exist, else err.
func unsupportedIfMissing(ws *workspace.Workspace, argv []string, res driver.Result, stdout, stderr *capture, err error) error {
	program := argv[0]
	if errors.Is(err, fault.NotFound) {
		return fmt.Errorf("verify: run: %w: %s: not found on PATH%s", fault.Unsupported, program, MissingHint(ws, program))
	}
	if err == nil && res.ExitCode == 127 {
		for _, c := range []*capture{stderr, stdout} {
			if strings.Contains(string(c.bytes()), program+": command not found") || strings.Contains(string(c.bytes()), program+": No such file") {
				return fmt.Errorf("verify: run: %w: %s: not found on PATH%s", fault.Unsupported, program, MissingHint(ws, program))
			}
		}
	}
	return err
}

func (t *testRun) recordCommand(j *job, ran jobResult) {
	r := t.report
	if r.Command == nil {
		r.Command = withoutScratch(j.argv)
	}
	if r.ExitCode == 0 {
		r.ExitCode = ran.ExitCode
	}
	r.Cause = ran.Cause
	t.refused = append(t.refused, ran.Refused...)
	if ran.StdoutDropped > 0 || ran.StderrDropped > 0 {
		r.Session = ran.Session
	}
	if ran.lost {
		r.Notes = append(r.Notes, fmt.Sprintf("the runner's report was longer than %d bytes and was read in part", maxReports))
	}
}

// withoutScratch removes arguments that only serve the report.
func withoutScratch(argv []string) []string {
	return slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return a == "--output-junit" || strings.Contains(a, scratch) })
}

func (t *testRun) addResults(res testResults) {
	r := t.report
	r.Runner = t.runner.name
	r.Structured = r.Structured || res.understood
	r.Notes = append(r.Notes, res.notes...)
	r.Passed += res.passed
	r.Skipped += res.skipped
	r.Failures = append(r.Failures, res.failures...)
	for s := range res.seen {
		if t.seen == nil {
			t.seen = map[string]bool{}
		}
		t.seen[s] = true
	}
}

// noteNotRun records the failures of the last run that did not run again: done has those
// whose command ran to its end. A renamed test, or a runner that found nothing, must not look
// like a success.
func (t *testRun) noteNotRun(failures []Failure, done map[string]bool) {
	for _, f := range failures {
		ran := f.selector == "" || t.seen[f.selector]
		switch {
		case done[f.key()] && (ran || f.Kind != KindTest):
		case done[f.key()]:
			t.report.Missing = append(t.report.Missing, f.Name())
			t.report.open = append(t.report.open, f)
		case f.selector == "" || !t.seen[f.selector]:
			t.report.NotRun = append(t.report.NotRun, f.Name())
			t.report.open = append(t.report.open, f)
		}
	}
}

// finishReport completes the report; a failed run gets at least one failure.
func (t *testRun) finishReport(ctx context.Context) *Report {
	r := t.report
	r.Finished = time.Now()
	r.Stdout, r.Stderr = t.out.String(), t.err.String()
	r.Dropped = t.out.dropped() + t.err.dropped()
	t.locateFiles(ctx)
	switch {
	case r.Cause != "":
		r.Failures = append(r.Failures, Failure{Kind: KindCut, Message: stoppedMessage(r, t.o), Output: r.outputEnd()})
	case r.ExitCode != 0 && len(r.Failures) == 0:
		r.Failures = append(r.Failures, Failure{Kind: KindSetup, Message: fmt.Sprintf("exit status %d, and no failed test was reported", r.ExitCode), Output: r.outputEnd()})
		r.Structured = false
	case r.ExitCode == 0 && len(r.Failures) == 0 && r.Passed+r.Skipped == 0 && r.Structured:
		r.Notes = append(r.Notes, "no tests ran")
		if len(t.o.Files) > 0 {
			r.Notes = append(r.Notes, "no test covers "+strings.Join(t.o.Files, ", "))
		}
	}
	if len(r.Missing) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("did not run again: %s; %s found no test of that name", firstNames(r.Missing), r.Runner))
	}
	if len(r.NotRun) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("not run again yet: %s", firstNames(r.NotRun)))
	}
	for _, f := range r.Failures {
		switch {
		case f.Kind != KindCut:
			r.Failed++
		case f.Test != "" || f.Package != "":
			r.NotFinished++
		}
	}
	if !r.OK() {
		r.Notes = append(r.Notes, Hints(t.ws, t.refused, r.Stdout+"\n"+r.Stderr)...)
	}
	return r
}

// firstNames joins names, and says how many are left out.
func firstNames(names []string) string {
	const shown = 10
	if more := len(names) - shown; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// outputEnd returns the end of the output, for a failure.
func (r *Report) outputEnd() string {
	return strings.TrimSpace(truncateStart(strings.TrimSpace(r.Stdout+"\n"+r.Stderr), 4<<10))
}

func stoppedMessage(r *Report, o *Options) string {
	if r.Cause == driver.CauseTimeout && o.Timeout > 0 {
		return fmt.Sprintf("timed out after %v", o.Timeout)
	}
	return fmt.Sprintf("the run was cut short: %s", r.Cause)
}

// locateFiles resolves files that a report names by package only.
func (t *testRun) locateFiles(ctx context.Context) {
	if t.project.Ecosystem != profile.JVM {
		return
	}
	known := map[string]string{}
	for i := range t.report.Failures {
		f := &t.report.Failures[i]
		if f.Kind != KindTest || f.File == "" {
			continue
		}
		name, ok := known[f.File]
		if !ok {
			res, err := t.ws.Glob(ctx, "**/"+f.File, &workspace.GlobOptions{Path: t.project.Dir, Limit: 1})
			if name = f.File; err == nil && len(res.Entries) > 0 {
				name = res.Entries[0].Path
			}
			known[f.File] = name
		}
		f.File = name
	}
}
