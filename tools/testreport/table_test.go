package main

import (
	"io"
	"strings"
	"testing"
)

// TestTable reads what the suite said of two providers, one of them raced as well.
func TestTable(t *testing.T) {
	const in = `{"Action":"pass","Package":"x/provider/memory","Test":"TestConformance/Write/is-atomic"}
{"Action":"output","Package":"x/provider/memory","Test":"TestConformance/Shell/runs","Output":"    suite.go:64: skipped: module shell is absent\n"}
{"Action":"skip","Package":"x/provider/memory","Test":"TestConformance/Shell/runs"}
{"Action":"pass","Package":"x/provider/sandbox","Test":"TestConformanceBubblewrap/Write/is-atomic"}
{"Action":"fail","Package":"x/provider/sandbox","Test":"TestConformanceBubblewrap/Shell/runs"}
{"Action":"pass","Package":"x/provider/sandbox","Test":"TestConformanceBubblewrap/Shell/runs"}
{"Action":"pass","Package":"x/provider/sandbox","Test":"TestConformanceBubblewrap/Shell/runs/deeper"}
{"Action":"pass","Package":"x/provider/wrap/coded","Test":"TestConformance/Write/is-atomic"}
`
	r := newReport()
	if err := r.readEvents(strings.NewReader(in), io.Discard); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.table.writePage(&out)
	for _, want := range []string{
		"it was run on memory, sandbox bubblewrap.\n",
		"\n1 checks: Write 1.\n",
		"| Shell/runs | module shell is absent: memory; **fails**: sandbox bubblewrap |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, out.String())
		}
	}
}
