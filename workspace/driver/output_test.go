package driver_test

import (
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

func TestOutputText(t *testing.T) {
	for _, test := range []struct {
		data    string
		dropped int64
		more    string
		want    string
	}{
		{"whole", 0, "more", "whole"},
		{"headtail", 7, "", "head\n... (output truncated, 7 bytes elided)\ntail"},
		{"headstail", 7, "see the log", "head\n... (output truncated, 7 bytes elided; see the log)\nstail"},
		{"", 3, "", "\n... (output truncated, 3 bytes elided)\n"},
	} {
		if got := driver.OutputText([]byte(test.data), test.dropped, test.more); got != test.want {
			t.Errorf("OutputText(%q, %d, %q) is %q, want %q", test.data, test.dropped, test.more, got, test.want)
		}
	}
}
