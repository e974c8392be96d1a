package eval

import "testing"

func TestClassText(t *testing.T) {
	for want, class := range map[string]Class{"[cost]": {ID: "cost"}, "Costs too much [cost]": {ID: "cost", Label: "Costs too much"}} {
		if got := classText(class); got != want {
			t.Errorf("classText(%+v) = %q, want %q", class, got, want)
		}
	}
}
