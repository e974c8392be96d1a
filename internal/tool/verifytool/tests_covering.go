package verifytool

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// maxCovering bounds the listed tests.
const maxCovering = 200

type testsCoveringInput struct {
	FilePath string `json:"file_path,omitempty" jsonschema:"path of the file, relative to the workspace or absolute within it" croft:"path"`
	File     string `json:"file,omitempty" jsonschema:"the same as file_path" croft:"path"`
	Line     int    `json:"line,omitempty" jsonschema:"a line of it, counted from 1; default the whole file"`
}

type testsCoveringOutput struct {
	File   string           `json:"file"`
	Line   int              `json:"line,omitempty"`
	Method verify.Method    `json:"method,omitempty" jsonschema:"measured: lines that ran with each test; imports: tests that import the file, directly or not"`
	Tests  []verify.TestRef `json:"tests"`

	text string
}

func (o testsCoveringOutput) Text() string { return o.text }

func testsCoveringTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "tests_covering", Family: tool.Verify, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true,
		Description: "List the tests that cover a file, or a line of it, without running anything: as measured by run_tests with coverage, else the tests that import the file. The answer says which of the two it is.",
	}, testsCovering)
}

func testsCovering(ctx context.Context, c *tool.Call, in testsCoveringInput) (testsCoveringOutput, error) {
	switch {
	case in.File == "":
		in.File = in.FilePath
	case in.FilePath != "" && in.FilePath != in.File:
		const both = "tests_covering: file and file_path are the same argument: give one of them"
		return testsCoveringOutput{}, tool.Errorf(fault.InvalidArgument, both)
	}
	if strings.TrimSpace(in.File) == "" {
		return testsCoveringOutput{}, tool.Errorf(fault.InvalidArgument, "tests_covering: file_path is required")
	}
	if in.Line < 0 {
		return testsCoveringOutput{}, tool.Errorf(fault.InvalidArgument, "tests_covering: line must be at least 1")
	}
	file := path.Clean(relPaths(c, []string{in.File})[0])
	if _, err := c.Workspace.Stat(ctx, file, nil); err != nil {
		return testsCoveringOutput{}, tool.PathError("tests_covering", in.File, err)
	}
	out := testsCoveringOutput{File: file, Line: in.Line, Tests: []verify.TestRef{}}
	measured := false
	for _, cov := range historyOf(c).coverages() {
		if cov.Knows(file) {
			measured = true
			out.Tests = append(out.Tests, cov.Tests(file, in.Line)...)
		}
	}
	out.Method = verify.Measured
	if !measured {
		p, err := c.Profile(ctx)
		if err != nil {
			return testsCoveringOutput{}, err
		}
		q, ok := p.For(file)
		if !ok {
			return testsCoveringOutput{}, tool.Errorf(fault.NotFound, "no supported project detected in workspace root")
		}
		out.Method = verify.Imports
		if out.Tests, err = verify.Importing(ctx, c.Workspace, p, q, file); err != nil {
			return testsCoveringOutput{}, runError("tests_covering", err)
		}
	}
	out.text = coveringText(&out)
	return out, nil
}

func coveringText(o *testsCoveringOutput) string {
	place := o.File
	if o.Line > 0 && o.Method == verify.Measured {
		place += fmt.Sprintf(":%d", o.Line)
	}
	var b strings.Builder
	if len(o.Tests) == 0 {
		fmt.Fprintf(&b, "no coverage found for %s\n", place)
	} else {
		fmt.Fprintf(&b, "%d test(s) cover %s:\n", len(o.Tests), place)
	}
	more := len(o.Tests) - maxCovering
	o.Tests = slices.Clip(o.Tests[:min(len(o.Tests), maxCovering)])
	last := ""
	for _, t := range o.Tests {
		if t.Package != last {
			fmt.Fprintf(&b, "\n%s:\n", t.Package)
			last = t.Package
		}
		if t.Test != "" {
			fmt.Fprintf(&b, "  %s\n", t.Test)
		} else {
			b.WriteString("  (all tests)\n")
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "... (%d more)\n", more)
	}
	if o.Method == verify.Imports {
		b.WriteString("\nby imports: these tests may reach the file; run_tests with coverage=true measures which do\n")
	} else {
		b.WriteString("\nmeasured: each test was run alone\n")
	}
	return b.String()
}
