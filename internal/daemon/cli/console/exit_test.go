package console

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

func TestExitStatusIsTotal(t *testing.T) {
	help := ExitHelp()
	for _, code := range fault.All() {
		err := &failure{fmt.Errorf("do a thing: %w", code)}
		if got := exitStatus(err); got != code.Exit() || got < 10 {
			t.Errorf("%s ends with %d, want %d", code, got, code.Exit())
		}
		if row := fmt.Sprintf("  %-3d %s\n", code.Exit(), code.Error()); !strings.Contains(help, row) {
			t.Errorf("the help text lacks %q", row)
		}
	}
	for _, row := range []string{"\n  1   eval: ", "\n  2   usage: ", "\n  125 run, work, code, script, ws exec and ws shell"} {
		if !strings.Contains(help, row) {
			t.Errorf("the help text lacks %q", row)
		}
	}
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("unknown flag: --x"), exitUsage},
		{&failure{Usagef("no")}, exitUsage},
		{&failure{errors.New("unclassified")}, fault.Internal.Exit()},
	} {
		if got := exitStatus(tt.err); got != tt.want {
			t.Errorf("%v ends with %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/a/b.c": "/a/b.c", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "-x": "-x",
	} {
		if got := ShellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "naïve": "naïve", "a b": "a b", "a\nb": `"a\nb"`, "\x1b[31m": `"\x1b[31m"`, "caf\xe9": `"caf\xe9"`, "a\u115fb": `"a\u115fb"`, "c1\u009bx": `"c1\u009bx"`, "\u202ex": `"\u202ex"`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
}
