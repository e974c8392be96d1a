package lazyregexp_test

import (
	"testing"

	"github.com/croft-run/croft/internal/lazyregexp"
)

func TestNew(t *testing.T) {
	r := lazyregexp.New(`(a+)(b)?`)
	for range 2 { // compiled once, used twice
		if got := r.FindStringSubmatch("xaab"); len(got) != 3 || got[1] != "aa" || got[2] != "b" {
			t.Errorf("FindStringSubmatch = %q", got)
		}
	}
	if r.MatchString("x") || r.ReplaceAllString("xaabx", "-") != "x-x" {
		t.Error("it does not match as regexp.Regexp does")
	}
}

// TestInvalid checks that an invalid expression costs nothing until it is used, and panics then.
func TestInvalid(t *testing.T) {
	r := lazyregexp.New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("an invalid expression was used")
		}
	}()
	r.MatchString("x")
}
