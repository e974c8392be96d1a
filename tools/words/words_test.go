package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	for _, test := range []struct {
		golden    string
		byPackage bool
		dirs      []string
	}{
		{golden: "findings"},
		{golden: "findings_registry", dirs: []string{"./registry/"}},
		{golden: "by_package", byPackage: true},
		{golden: "by_package_host", byPackage: true, dirs: []string{"./host/..."}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			var out strings.Builder
			if err := run(&out, os.DirFS("testdata/tree"), test.byPackage, test.dirs); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile("testdata/" + test.golden + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoGlossary: the rest is printed all the same.
func TestNoGlossary(t *testing.T) {
	var out strings.Builder
	err := run(&out, fstest.MapFS{"a.go": {Data: []byte("package a\n\nfunc hold() {}\n")}}, false, nil)
	if err == nil || !strings.Contains(err.Error(), "docs/glossary.md is missing") {
		t.Errorf("error %v, want one that says that docs/glossary.md is missing", err)
	}
	if want := "a.go:3: hold\n"; !strings.Contains(out.String(), want) {
		t.Errorf("printed %q, want %q in it", out.String(), want)
	}
}

// TestUnreadFile: a file that does not parse is a finding, not a failure.
func TestUnreadFile(t *testing.T) {
	var out strings.Builder
	err := run(&out, fstest.MapFS{
		"docs/glossary.md": {Data: []byte("| a | b | c | `d` |\n")},
		"a.go":             {Data: []byte("package a\n\nfunc {\n")},
	}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "files that can't be read: 1\na.go:1: a.go:3:6: expected"; !strings.Contains(out.String(), want) {
		t.Errorf("printed %q, want %q in it", out.String(), want)
	}
}

func TestParseGlossary(t *testing.T) {
	for _, test := range []struct{ name, text, err string }{
		{"three columns", "text\n\n| a | b | `c` |\n", "docs/glossary.md:3: a row of 3 columns"},
		{"five columns", "| a | b | c | `d` | e |", "docs/glossary.md:1: a row of 5 columns"},
		{"one backtick", "| a | b | c | `d |", "docs/glossary.md:1: a backtick without its pair"},
		{"no table", "# Glossary\n", "docs/glossary.md: no entry"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parseGlossary(test.text); err == nil || !strings.HasPrefix(err.Error(), test.err) {
				t.Errorf("error %v, want %s...", err, test.err)
			}
		})
	}
}

// FuzzParseGlossary: a glossary that is written again from its entries is the
// same one.
func FuzzParseGlossary(f *testing.F) {
	f.Add(columns + "\n|---|---|---|---|\n| a | `b` | c | `d`, `e/f:g`, `h.go` |\n| a | | c | `d` |")
	f.Add("| a | b | c |")
	f.Add("| a | b | c | ` |")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := parseGlossary(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for entry, word := range first {
			again.WriteString("| concept | " + word + " | name | `" + entry + "` |\n")
		}
		second, err := parseGlossary(again.String())
		if err != nil {
			t.Fatalf("parse again: %v", err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("parsed again (-first +second):\n%s", diff)
		}
	})
}
