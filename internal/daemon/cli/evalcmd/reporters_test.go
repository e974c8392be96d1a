package evalcmd

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/daemon/cli/console"
)

// TestOneReporterHasStandardOutput: of several reporters one writes to standard output.
func TestOneReporterHasStandardOutput(t *testing.T) {
	var out, errOut bytes.Buffer
	a := &command{&console.Console{Streams: console.Streams{Out: &out, Err: &errOut}}}
	for names, want := range map[string]string{
		"standard":                  "out",
		"json":                      "out",
		"json=f standard":           "err out",
		"standard json":             "err out",
		"json standard":             "out err",
		"standard html":             "none out",
		"html standard":             "out none",
		"json html":                 "out err",
		"./r.ts":                    "out",
		"./r.ts standard":           "out err",
		"standard ./r.ts":           "out err",
		"github-actions json":       "err out",
		"json junit":                "json and junit both write to standard output: give one a file, as in junit=FILE",
		"json standard junit=f.xml": "out err err",
	} {
		streams, err := a.reporterStreams(strings.Fields(names))
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", names, err, want)
			}
			continue
		}
		var got []string
		for _, s := range streams {
			got = append(got, map[io.Writer]string{&out: "out", &errOut: "err", io.Discard: "none"}[s])
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s, want %s", names, got, want)
		}
	}
}

// TestFiltersWithCommas: a comma separates values, and may be in an id.
func TestFiltersWithCommas(t *testing.T) {
	known := []string{"a", "a,b", "c, d", "e"}
	for value, want := range map[string][]string{
		"a":          {"a"},
		"a,b":        {"a,b"},
		"a,e":        {"a", "e"},
		"a,b,e":      {"a,b", "e"},
		"e, a":       {"e", "a"},
		"c, d,a,b":   {"c, d", "a,b"},
		"unknown, a": {"unknown", "a"},
		"a,,e":       nil,
		"":           nil,
	} {
		got, err := splitValues("case", []string{value}, known)
		if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want == nil) {
			t.Errorf("%q, error %v (-want +got):\n%s", value, fmt.Sprint(err), diff)
		}
	}
}
