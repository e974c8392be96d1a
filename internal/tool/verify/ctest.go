package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// cmakeAPI is the directory of CMake's file API in a build directory.
const cmakeAPI = ".cmake/api/v1"

// A cmakeTarget is a target of a project, as CMake's file API describes it.
type cmakeTarget struct {
	ID           string
	Artifacts    []struct{ Path string } // relative to the build directory
	Sources      []struct{ Path string } // relative to the directory of the project
	Dependencies []struct{ ID string }
}

// selectCTest restricts ctest to the tests that run a program which is built from one of
// Options.Files, directly or by a library. If the build does not know a file, such as a header
// that is only included, all tests run, and a note says so.
func (t *testRun) selectCTest(ctx context.Context, j *job) error {
	if t.runner.name != "ctest" || len(t.o.Files) == 0 || t.o.Command != "" {
		return nil
	}
	targets, err := t.cmakeTargets(ctx)
	if err != nil {
		return err
	}
	programs, unknown := t.programsBuiltFrom(targets)
	if len(unknown) > 0 {
		t.report.Notes = append(t.report.Notes, fmt.Sprintf("the build has no target with %s as a source; all tests ran", strings.Join(unknown, ", ")))
		return nil
	}
	names, err := t.ctestNames(ctx, j, programs)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("verify: test %s: %w: no test of the %s project covers %s", t.project.Dir, fault.NotFound, t.project.Ecosystem, strings.Join(t.o.Files, ", "))
	}
	failures := make([]Failure, len(names))
	for i, name := range names {
		failures[i].selector = name
	}
	j.argv = ctestRerun(j.argv, failures)[0]
	return nil
}

// cmakeTargets returns the targets of the project. The first call has CMake write them.
func (t *testRun) cmakeTargets(ctx context.Context) ([]cmakeTarget, error) {
	api := path.Join(t.project.DepsDir, cmakeAPI)
	if _, err := t.ws.WriteFile(ctx, path.Join(api, "query", "codemodel-v2"), nil, &workspace.WriteOptions{Parents: true}); err != nil {
		return nil, fmt.Errorf("verify: test %s: %w", t.project.Dir, err)
	}
	replies := func() ([]workspace.Info, error) {
		res, err := t.ws.Glob(ctx, "target-*.json", &workspace.GlobOptions{Path: path.Join(api, "reply"), Limit: maxSources})
		if fault.Of(err) == fault.NotFound {
			return nil, nil
		}
		return res.Entries, err
	}
	list, err := replies()
	if err == nil && len(list) == 0 {
		if _, err = Command(ctx, t.ws, []string{"cmake", relativeTo(t.project.Dir, t.project.DepsDir)}, t.project.Dir, t.o); err == nil {
			list, err = replies()
		}
	}
	if err != nil {
		return nil, err
	}
	var targets []cmakeTarget
	for _, e := range list {
		data, err := t.ws.ReadFileMax(ctx, e.Path, maxText)
		if err != nil {
			return nil, err
		}
		var target cmakeTarget
		if err := json.Unmarshal(data, &target); err != nil {
			return nil, fmt.Errorf("verify: test %s: %s: %w: %w", t.project.Dir, e.Path, fault.Failed, err)
		}
		targets = append(targets, target)
	}
	return targets, nil
}

// programsBuiltFrom returns the paths of programs and libraries, relative to the build
// directory, that are built from Options.Files, and the files that no target has.
func (t *testRun) programsBuiltFrom(targets []cmakeTarget) (programs, unknown []string) {
	affected := map[string]bool{} // ids of targets
	for _, file := range t.o.Files {
		found := false
		for _, target := range targets {
			for _, source := range target.Sources {
				if source.Path == relativeTo(t.project.Dir, path.Clean(file)) {
					affected[target.ID], found = true, true
				}
			}
		}
		if !found {
			unknown = append(unknown, file)
		}
	}
	for before := -1; before < len(affected); { // until no more targets depend on one
		before = len(affected)
		for _, target := range targets {
			for _, needs := range target.Dependencies {
				if affected[needs.ID] {
					affected[target.ID] = true
				}
			}
		}
	}
	for _, target := range targets {
		for _, a := range target.Artifacts {
			if affected[target.ID] {
				programs = append(programs, a.Path)
			}
		}
	}
	return programs, unknown
}

// ctestNames returns the names of the tests whose command has one of programs.
func (t *testRun) ctestNames(ctx context.Context, j *job, programs []string) ([]string, error) {
	var out []byte
	list := job{argv: append(slices.Clone(j.argv), "--show-only=json-v1"), dir: j.dir}
	if _, err := list.run(ctx, t.ws, t.o, func(b []byte) { out = append(out, b...) }, func([]byte) {}); err != nil {
		return nil, err
	}
	var all struct {
		Tests []struct {
			Name    string
			Command []string
		}
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("verify: test %s: list the tests: %w: %w", t.project.Dir, fault.Failed, err)
	}
	var names []string
	for _, test := range all.Tests {
		runs := func(program string) bool {
			return slices.ContainsFunc(test.Command, func(word string) bool {
				return strings.HasSuffix(word, "/"+path.Join(t.project.DepsDir, program)) || word == program
			})
		}
		if slices.ContainsFunc(programs, runs) {
			names = append(names, test.Name)
		}
	}
	return names, nil
}
