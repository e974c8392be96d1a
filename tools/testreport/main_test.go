package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

const stream = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: no /dev/kvm on this host\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`

func TestReport(t *testing.T) {
	tests := []struct {
		name, in string
		ok       bool
		want     []string
	}{
		{"pass", stream + `{"Action":"pass","Package":"p"}`, true, []string{"1 passed, 0 failed, 1 skipped", "1  no /dev/kvm on this host"}},
		{"fail", stream + `{"Action":"output","Package":"p","Test":"TestC","Output":"got 1\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}`, false, []string{"1 passed, 1 failed, 1 skipped", "got 1"}},
		{"crash", stream + `{"Action":"run","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Test":"TestC","Output":"panic: oh\n"}
{"Action":"fail","Package":"p"}`, false, []string{"1 passed, 1 failed, 1 skipped\nFAILED p TestC\npanic: oh\nit did not end\n"}},
		{"build", `{"Action":"fail","Package":"p"}`, false, []string{"0 passed, 1 failed, 0 skipped"}},
		{"a build that another names", `{"Action":"build-output","ImportPath":"p [p.test]","Output":"x.go:1: undefined: y\n"}
{"Action":"build-fail","ImportPath":"p [p.test]"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`, false, []string{"0 passed, 1 failed, 0 skipped\nFAILED p\nx.go:1: undefined: y\n"}},
		{"a command", stream + `{"Action":"command-fail","Package":"go test ./p"}`, false, []string{"1 passed, 1 failed, 1 skipped\nFAILED go test ./p\n"}},
		{"slow", `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":9}
{"Action":"pass","Package":"p","Test":"TestB/x","Elapsed":31}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":32}
{"Action":"pass","Package":"q","Test":"TestC","Elapsed":40}`, true, []string{"slowest:\n    40s  q TestC\n    32s  p TestB\n\n4 passed"}},
		{"not json", "x.go:1: syntax error\n" + `{"Action":"fail","Package":"p"}`, false, []string{"0 passed, 1 failed, 0 skipped"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReport()
			if err := r.readEvents(strings.NewReader(tt.in), io.Discard); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if ok := r.printReport(&out); ok != tt.ok {
				t.Errorf("ok = %v, want %v", ok, tt.ok)
			}
			for _, w := range tt.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("the report lacks %q:\n%s", w, out.String())
				}
			}
		})
	}
}

// TestFailuresComeLast cuts a report as logs are cut, and looks for what failed.
func TestFailuresComeLast(t *testing.T) {
	var in strings.Builder
	for i := range 60 {
		fmt.Fprintf(&in, `{"Action":"output","Package":"p","Test":"TestSkip%d","Output":"    b_test.go:7: no facility %d\n"}
{"Action":"skip","Package":"p","Test":"TestSkip%d"}
`, i, i, i)
	}
	failing := func(n int) string {
		var b strings.Builder
		for i := range n {
			for j := range 50 {
				fmt.Fprintf(&b, `{"Action":"output","Package":"p","Test":"TestBad/%d","Output":"    line %d of %d\n"}`+"\n", i, j, i)
			}
			fmt.Fprintf(&b, `{"Action":"output","Package":"p","Test":"TestBad/%d","Output":"--- FAIL: TestBad/%d (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestBad/%d"}
`, i, i, i)
		}
		return in.String() + b.String() + `{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"fail","Package":"p"}
`
	}
	tests := []struct {
		n    int
		want []string // in the last lines
	}{
		{1, []string{"1 passed, 2 failed", "FAILED p TestBad/0", "line 49 of 0", "line 12 of 0"}},
		{3, []string{"FAILED p TestBad/0", "FAILED p TestBad/2", "line 49 of 0", "line 49 of 2", "line 39 of 1"}},
		{30, []string{"FAILED p TestBad/0", "FAILED p TestBad/29", "line 49 of 0", "line 49 of 1"}},
		{100, []string{"FAILED p TestBad/0", "FAILED p TestBad/38", "and 61 more"}},
	}
	for _, tt := range tests {
		r := newReport()
		if err := r.readEvents(strings.NewReader(stream+failing(tt.n)), io.Discard); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		r.printReport(&out)
		lines := slices.Collect(strings.Lines(out.String()))
		last := strings.Join(lines[max(0, len(lines)-maxSummaryLines):], "")
		for _, w := range tt.want {
			if !strings.Contains(last, w) {
				t.Errorf("with %d failures the last %d lines lack %q:\n%s", tt.n, maxSummaryLines, w, last)
			}
		}
		if strings.Contains(last, "FAILED p TestBad\n") || strings.Contains(last, "FAILED p\n") {
			t.Errorf("a test that failed by its subtests, or their package, takes up room:\n%s", last)
		}
	}
}
