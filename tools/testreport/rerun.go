package main

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

const modulePath = "github.com/croft-run/croft"

// rerun runs each failed test once more, alone, if at most a number of tests failed. Those that
// pass are flaky: they count as passed, and their first output stays in the report. A failed
// build, a data race, and a test program that crashed are never flaky.
func (r *report) rerun(most int, out io.Writer, run func(pkg, test string) error) {
	var tests []key // without subtests
	for _, k := range r.leafFailures() {
		top, _, _ := strings.Cut(k.test, "/")
		if k := (key{k.pkg, top}); !slices.Contains(tests, k) {
			tests = append(tests, k)
		}
	}
	if len(tests) == 0 || len(tests) > most {
		return
	}
	for _, k := range tests {
		if !r.mayBeFlaky(k) {
			continue
		}
		fmt.Fprintf(out, "rerun %s %s\n", k.pkg, k.test)
		if err := run(k.pkg, k.test); err != nil {
			fmt.Fprintf(out, "it failed again: %v\n", err)
			continue
		}
		r.flaky = append(r.flaky, k)
		r.failed = slices.DeleteFunc(r.failed, func(f key) bool { return f.belongsTo(k) })
	}
	// A package fails with its tests, and go test with its packages.
	r.failed = slices.DeleteFunc(r.failed, func(f key) bool {
		return f.test == "" && r.hasFlaky(f.pkg) && !slices.ContainsFunc(r.failed, func(o key) bool { return o.pkg == f.pkg && o.test != "" })
	})
	r.commands = slices.DeleteFunc(r.commands, func(c key) bool { return r.explainsCommand(c.pkg) })
}

// belongsTo reports whether a key is a test or one of its subtests.
func (k key) belongsTo(test key) bool {
	return k.pkg == test.pkg && (k.test == test.test || strings.HasPrefix(k.test, test.test+"/"))
}

func (r *report) hasFlaky(pkg string) bool {
	return slices.ContainsFunc(r.flaky, func(k key) bool { return k.pkg == pkg })
}

// explainsCommand reports whether a flaky test is why a command of scripts/test failed, which names
// packages by their paths, or by their directories.
func (r *report) explainsCommand(command string) bool {
	return strings.HasPrefix(command, "go test ") && slices.ContainsFunc(r.flaky, func(k key) bool {
		dir := "." + strings.TrimPrefix(k.pkg, modulePath)
		return slices.ContainsFunc(strings.Fields(command), func(arg string) bool { return arg == k.pkg || arg == dir })
	})
}

// mayBeFlaky reports whether a test failed by itself, and not because of something that another
// run would hide.
func (r *report) mayBeFlaky(test key) bool {
	if test.test == "" {
		return false
	}
	for k, text := range r.output {
		if k.pkg != test.pkg || k.test != "" && !k.belongsTo(test) {
			continue
		}
		for _, sign := range []string{"WARNING: DATA RACE", "race detected", "panic: ", "fatal error: ", "it did not end"} {
			if strings.Contains(text.String(), sign) {
				return false
			}
		}
	}
	return true
}

// runAlone runs one test of a package of this module.
func runAlone(out io.Writer) func(pkg, test string) error {
	return func(pkg, test string) error {
		cmd := exec.Command("go", "test", "-count=1", "-timeout", "20m", "-run", "^"+test+"$", pkg)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	}
}

// printFlaky names the flaky tests, with what they printed when they failed.
func (r *report) printFlaky(out io.Writer) {
	for _, k := range r.flaky {
		fmt.Fprintf(out, "\n=== FLAKY %s %s: it failed, and passed when it was run again alone\n", k.pkg, k.test)
		for _, one := range slices.SortedFunc(maps.Keys(r.output), func(a, b key) int { return strings.Compare(a.test, b.test) }) {
			if one.belongsTo(k) {
				fmt.Fprint(out, r.output[one])
			}
		}
	}
}
