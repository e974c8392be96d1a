package verifytool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
)

type lastFailuresInput struct {
	Limit int `json:"limit,omitempty" jsonschema:"maximum number of failures; default 50, at most 500"`
}

func lastTestFailuresTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "last_test_failures", Family: tool.Verify, ReadOnly: true, Idempotent: true, FanOut: true,
		Description: "Show the failures of the last test run again, without running anything: test, file and line, message, difference.",
	}, lastFailures)
}

func lastFailures(_ context.Context, c *tool.Call, in lastFailuresInput) (reportsOutput, error) {
	limit, err := limitOr("limit", in.Limit, defaultFailures, maxShownFailed)
	if err != nil {
		return reportsOutput{}, err
	}
	list := historyOf(c).lastReports("")
	if len(list) == 0 {
		return reportsOutput{Reports: []*verify.Report{}, text: "no run_tests call yet in this session\n"}, nil
	}
	var b strings.Builder
	out := reportsOutput{Reports: []*verify.Report{}}
	for i, r := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		short := *r
		short.Stdout, short.Stderr = "", ""
		short.Failures = r.Failures[:min(limit, len(r.Failures))]
		out.Reports = append(out.Reports, &short)
		failuresText(&b, &short, len(r.Failures))
	}
	out.text = b.String()
	return out, nil
}

func failuresText(b *strings.Builder, r *verify.Report, all int) {
	when := fmt.Sprintf("%s, %s", r.Language, timeAgo(r.Finished))
	if all == 0 {
		fmt.Fprintf(b, "last run_tests had no failures (%d tests passed, %s)\n", r.Passed, when)
		for _, name := range slices.Concat(r.Missing, r.NotRun) {
			fmt.Fprintf(b, "not run again: %s\n", name)
		}
		return
	}
	if !r.Structured {
		fmt.Fprintf(b, "no structured failures available for %s (last run_tests %s)\n", r.Language, timeAgo(r.Finished))
	} else {
		fmt.Fprintf(b, "%d test failure(s) from last run_tests call (%s):\n", all, when)
	}
	for i := range r.Failures {
		b.WriteByte('\n')
		writeFailure(b, i+1, &r.Failures[i])
	}
	if more := all - len(r.Failures); more > 0 {
		fmt.Fprintf(b, "\n... (%d more; raise limit to see them)\n", more)
	}
}
