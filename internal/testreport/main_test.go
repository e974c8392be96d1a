package main

import (
	"io"
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
		{"build", `{"Action":"fail","Package":"p"}`, false, []string{"0 passed, 1 failed, 0 skipped"}},
		{"not json", "x.go:1: syntax error\n" + `{"Action":"fail","Package":"p"}`, false, []string{"0 passed, 1 failed, 0 skipped"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &report{output: map[key]*strings.Builder{}}
			if err := r.read(strings.NewReader(tt.in), io.Discard); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if ok := r.print(&out); ok != tt.ok {
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
