package verify

import (
	"path"
	"slices"
	"strings"
)

// A testRunner is a test runner whose output can be parsed.
type testRunner struct {
	name    string
	program string // its name in an argv

	needsBuild bool // the project's build command must run first

	// prepare changes a job so that its output can be parsed.
	prepare func(j *job)

	// parse parses the output.
	parse func(w runnerOutput, t runLocation) testResults

	// rerun returns commands that run only the failed tests. base runs some tests when
	// files are appended; rel converts a file to a path relative to the working directory.
	rerun func(base []string, failures []Failure, rel func(string) string) [][]string
}

// runnerOutput is the output of a runner.
type runnerOutput struct {
	stdout, stderr []byte
	reports        [][]byte
}

func (w runnerOutput) bothStreams() []byte {
	return append(append(slices.Clone(w.stdout), '\n'), w.stderr...)
}

// noRel adapts a rerun function that needs no file names.
func noRel(f func([]string, []Failure) [][]string) func([]string, []Failure, func(string) string) [][]string {
	return func(base []string, failures []Failure, _ func(string) string) [][]string { return f(base, failures) }
}

func knownRunners() []testRunner {
	return []testRunner{
		{
			name: "go test", program: "go",
			prepare: func(j *job) { j.argv = goArgv(j.argv) },
			parse: func(w runnerOutput, t runLocation) testResults {
				p := newGoParser(t)
				l := lineWriter{each: p.parseLine}
				l.write(w.stdout)
				l.flush()
				return p.finish()
			},
			rerun: noRel(goRerun),
		},
		{
			name: "cargo test", program: "cargo",
			prepare: func(j *job) { j.argv, j.merge = cargoArgv(j.argv), true },
			parse:   func(w runnerOutput, t runLocation) testResults { return parseCargo(w.stdout, t) },
			rerun:   noRel(cargoRerun),
		},
		{
			name: "pytest", program: "pytest",
			prepare: func(j *job) { j.argv = pytestArgv(j.argv) },
			parse:   func(w runnerOutput, t runLocation) testResults { return parsePytest(w.reports, t) },
			rerun:   pytestRerun,
		},
		{
			name: "unittest", program: "unittest",
			prepare: func(j *job) { j.argv = unittestArgv(j.argv) },
			parse:   func(w runnerOutput, t runLocation) testResults { return parseUnittest(w.stderr, t) },
			rerun:   noRel(unittestRerun),
		},
		{
			name: "django", program: "manage.py",
			prepare: func(j *job) { j.argv = append(slices.Clone(j.argv), "-v", "2", "--noinput") },
			parse:   func(w runnerOutput, t runLocation) testResults { return parseUnittest(w.stderr, t) },
			rerun:   pytestRerun,
		},
		{
			name: "vitest", program: "vitest",
			prepare: addFlags("--reporter=default", "--reporter=json", "--outputFile.json="+scratch+"/report/vitest.json", "--includeTaskLocation"),
			parse: func(w runnerOutput, t runLocation) testResults {
				res := parseJest(w.reports, t)
				addVitestErrors(&res, string(w.bothStreams()), t)
				return res
			},
			rerun: rerunByName("-t="),
		},
		{
			name: "jest", program: "jest",
			prepare: addFlags("--json", "--outputFile="+scratch+"/report/jest.json", "--testLocationInResults"),
			parse:   func(w runnerOutput, t runLocation) testResults { return parseJest(w.reports, t) },
			rerun:   rerunByName("-t="),
		},
		{
			name: "mocha", program: "mocha",
			prepare: func(j *job) {
				addFlags("--reporter="+scratch+"/reporter.cjs", "--reporter-option=output="+scratch+"/report/mocha.jsonl")(j)
				j.files = map[string]string{"reporter.cjs": mochaReporter}
			},
			parse: func(w runnerOutput, t runLocation) testResults { return parseMocha(w.bothStreams(), w.reports, t) },
			rerun: rerunByName("--grep="),
		},
		{
			name: "bun test", program: "bun",
			prepare: func(j *job) { j.merge = true },
			parse:   func(w runnerOutput, t runLocation) testResults { return parseBun(w.stdout, t) },
			rerun:   rerunByName("-t="),
		},
		{
			name: "node:test", program: "--test",
			prepare: nodePrepare,
			parse:   func(w runnerOutput, t runLocation) testResults { return parseNodeTest(w.bothStreams(), w.reports, t) },
			rerun:   nodeRerun,
		},
		{
			name: "maven", program: "mvn",
			prepare: func(j *job) {
				j.argv = append(slices.Clone(j.argv), "-fae", "-Dstyle.color=never")
				j.collect = []reportPattern{{"surefire-reports", "TEST-*.xml"}, {"failsafe-reports", "TEST-*.xml"}}
			},
			parse: func(w runnerOutput, t runLocation) testResults { return parseJVM(w.bothStreams(), w.reports, t) },
			rerun: noRel(mavenRerun),
		},
		{
			name: "gradle", program: "gradle",
			prepare: func(j *job) {
				j.argv = append(slices.Clone(j.argv), "--continue", "--console=plain")
				j.collect = []reportPattern{{"test-results", "*TEST-*.xml"}}
			},
			parse: func(w runnerOutput, t runLocation) testResults { return parseJVM(w.bothStreams(), w.reports, t) },
			rerun: noRel(gradleRerun),
		},
		{
			name: "ctest", program: "ctest", needsBuild: true,
			prepare: addFlags("--output-junit", scratch+"/report/ctest.xml"),
			parse:   parseCTest,
			rerun:   noRel(ctestRerun),
		},
		{
			name: "make", program: "make",
			prepare: func(j *job) { j.merge = true },
			parse:   func(w runnerOutput, t runLocation) testResults { return parseMake(w.stdout, t) },
			rerun:   noRel(func(argv []string, _ []Failure) [][]string { return [][]string{argv} }),
		},
	}
}

// wrappers are alternative names of programs.
var wrappers = map[string]string{"mvnw": "mvn", "gradlew": "gradle", "py.test": "pytest", "pytest-3": "pytest", "_mocha": "mocha", "gmake": "make"}

// findRunner returns the runner that a command starts.
func findRunner(argv []string) (testRunner, bool) {
	all := knownRunners()
	for i, word := range argv {
		name := path.Base(word)
		if w, ok := wrappers[name]; ok {
			name = w
		}
		at := slices.IndexFunc(all, func(r testRunner) bool { return r.program == name })
		if at < 0 {
			continue
		}
		// Package managers share a name with a runner, or start one by a script.
		if name == "bun" && (i+1 >= len(argv) || argv[i+1] != "test") || name == "go" && !slices.Contains(argv, "test") || name == "cargo" && !slices.Contains(argv, "test") {
			continue
		}
		return all[at], true
	}
	return testRunner{}, false
}

func addFlags(flags ...string) func(*job) {
	return func(j *job) { j.argv = append(slices.Clone(j.argv), flags...) }
}

// rerunByName returns a rerun function for runners that take files and a name pattern. It
// runs one command for each file, so that equal names in other files do not run.
func rerunByName(option string) func([]string, []Failure, func(string) string) [][]string {
	return func(base []string, failures []Failure, rel func(string) string) [][]string {
		files, names := groupByFile(failures)
		var out [][]string
		for _, f := range files {
			cmd := append(slices.Clone(base), rel(f))
			if len(names[f]) > 0 {
				cmd = append(cmd, option+nodePattern(names[f]))
			}
			out = append(out, cmd)
		}
		if len(out) == 0 {
			return [][]string{base}
		}
		return out
	}
}

// nodePrepare adds our reporter to node's. The flags precede the files, where node takes
// them for itself.
func nodePrepare(j *job) {
	j.files = map[string]string{"reporter.mjs": nodeReporter}
	flags := []string{"--test-reporter=" + scratch + "/reporter.mjs", "--test-reporter-destination=" + scratch + "/report/node.jsonl"}
	has := func(prefix string) bool {
		return slices.ContainsFunc(j.argv, func(a string) bool { return strings.HasPrefix(a, prefix) })
	}
	switch {
	case has("--test-reporter-destination"):
	case has("--test-reporter"):
		flags = append([]string{"--test-reporter-destination=stdout"}, flags...)
	default:
		flags = append([]string{"--test-reporter=spec", "--test-reporter-destination=stdout"}, flags...)
	}
	if at := slices.Index(j.argv, "--test"); at >= 0 {
		j.argv = slices.Insert(slices.Clone(j.argv), at+1, flags...)
		return
	}
	// Started by a script: pass the flags in NODE_OPTIONS.
	j.env = map[string]string{"NODE_OPTIONS": strings.Join(flags, " ")}
}

// nodeRerun selects tests by their own names: node matches these at every depth.
func nodeRerun(base []string, failures []Failure, rel func(string) string) [][]string {
	files, names := groupByFile(failures)
	at := slices.Index(base, "--test")
	if at < 0 || len(files) == 0 {
		return [][]string{base}
	}
	var out [][]string
	for _, f := range files {
		cmd := append(slices.Clone(base), rel(f))
		for _, n := range names[f] {
			cmd = slices.Insert(cmd, at+1, "--test-name-pattern=^"+jsQuote(n)+"$")
		}
		out = append(out, cmd)
	}
	return out
}

func pytestRerun(base []string, failures []Failure, _ func(string) string) [][]string {
	out := slices.Clone(base)
	for _, f := range failures {
		if f.selector == "" {
			return [][]string{base}
		}
		out = append(out, f.selector)
	}
	return [][]string{out}
}
