package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRerun(t *testing.T) {
	const failed = `{"Action":"output","Package":"p","Test":"TestC/x","Output":"got 1\n"}
{"Action":"fail","Package":"p","Test":"TestC/x"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
{"Action":"command-fail","Package":"go test -json p q"}
`
	const other = `{"Action":"fail","Package":"q","Test":"TestD"}` + "\n"
	again := errors.New("exit status 1")
	tests := []struct {
		name, in string
		answer   error // of the rerun
		most     int
		ran      string
		ok       bool
		want     string
	}{
		{"it passes", stream + failed, nil, 3, "p TestC", true, "=== FLAKY p TestC"},
		{"its output stays", stream + failed, nil, 3, "p TestC", true, "got 1"},
		{"it is counted", stream + failed, nil, 3, "p TestC", true, "flaky: p TestC\n\n2 passed, 0 failed"},
		{"it fails again", stream + failed, again, 3, "p TestC", false, "FAILED p TestC/x"},
		{"not asked for", stream + failed, nil, 0, "", false, "FAILED p TestC/x"},
		{"too many", stream + failed + other, nil, 1, "", false, "FAILED q TestD"},
		{"a race", strings.Replace(failed, "got 1", "WARNING: DATA RACE", 1), nil, 3, "", false, "FAILED p TestC/x"},
		{"a crash", failed + `{"Action":"output","Package":"p","Output":"panic: oh\n"}`, nil, 3, "", false, "FAILED p TestC/x"},
		{"a build", `{"Action":"fail","Package":"p"}`, nil, 3, "", false, "FAILED p"},
		{"another command", failed + `{"Action":"command-fail","Package":"go vet in x"}`, nil, 3, "p TestC", false, "FAILED go vet in x"},
		{"another package", failed + `{"Action":"fail","Package":"q"}`, nil, 3, "p TestC", false, "FAILED q"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReport()
			if err := r.readEvents(strings.NewReader(tt.in), io.Discard); err != nil {
				t.Fatal(err)
			}
			var ran []string
			r.rerun(tt.most, io.Discard, func(pkg, test string) error {
				ran = append(ran, pkg+" "+test)
				return tt.answer
			})
			var out strings.Builder
			ok := r.printReport(&out)
			if got := strings.Join(ran, ", "); got != tt.ran || ok != tt.ok || !strings.Contains(out.String(), tt.want) {
				t.Errorf("ran %q, ok %v, want %q, %v and %q in:\n%s", got, ok, tt.ran, tt.ok, tt.want, out.String())
			}
		})
	}
}
