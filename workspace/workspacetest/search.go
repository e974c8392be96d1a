package workspacetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var searchChecks = []Check{
	{"Glob/matches", needFS, globMatches},
	{"Glob/leaves-out-what-is-ignored-on-request", needFS, globIgnore},
	{"Glob/is-limited-on-request", needFS, globLimit},
	{"Glob/describes-on-request", needFS, globStat},
	{"Glob/refuses-a-bad-pattern", needFS, globRefused},
	{"Grep/finds-lines", needFS, grepFinds},
	{"Grep/takes-literals-and-ignores-case", needFS, grepModes},
	{"Grep/spans-lines-on-request", needFS, grepMultiline},
	{"Grep/gives-context", needFS, grepContext},
	{"Grep/includes-and-excludes", needFS, grepFilters},
	{"Grep/leaves-out-what-is-ignored-on-request", needFS, grepIgnore},
	{"Grep/searches-one-file-or-directory", needFS, grepPath},
	{"Grep/says-what-it-skipped", needFS, grepSkips},
	{"Grep/says-that-it-ended-early", needFS, grepTruncated},
	{"Grep/refuses-a-bad-pattern", needFS, grepRefused},
	{"Grep/cancelled-ends-with-Canceled", needFS, grepCancelled},
}

// garden is a small project to search in.
var garden = map[string]string{
	"main.go":            "package main\n\nfunc main() {\n\tprintln(\"Hello, World\")\n}\n",
	"README.md":          "# Hello\n\nThe first line.\nthe second line.\n\nThe END\n",
	"src/a.go":           "package src\n\n// TODO: water the plants\nvar A = 1\n",
	"src/b_test.go":      "package src\n\n// todo: nothing\n",
	"src/deep/er/c.go":   "package er\n\n// TODO: weed\n// TODO: rake\n",
	"src/data.txt":       "one\r\ntwo TODO\r\nthree\r\n",
	"build/out.log":      "TODO in a log\n",
	"build/keep.log":     "TODO kept\n",
	"vendor/x/x.go":      "package x // TODO\n",
	".hidden/secret.go":  "package hidden // TODO\n",
	".gitignore":         "*.log\n!keep.log\n/vendor/\n",
	"no-newline":         "TODO at the end",
	"empty":              "",
	"src/deep/[odd].txt": "odd\n",
}

func (e *Env) openGarden(t testing.TB) *testWorkspace {
	t.Helper()
	p := e.open(t)
	for name, content := range garden {
		p.write(t, name, content)
	}
	return p
}

func globMatches(t testing.TB, e *Env) {
	p := e.openGarden(t)
	tests := []struct {
		pattern string
		opts    workspace.GlobOptions
		want    string
	}{
		{"*.go", workspace.GlobOptions{}, "main.go"},
		{"**/*.go", workspace.GlobOptions{}, "main.go src/a.go src/b_test.go src/deep/er/c.go vendor/x/x.go"},
		{"**/*.go", workspace.GlobOptions{Hidden: true}, ".hidden/secret.go main.go src/a.go src/b_test.go src/deep/er/c.go vendor/x/x.go"},
		{"*.go", workspace.GlobOptions{Path: "src"}, "src/a.go src/b_test.go"},
		{"src/**/c.go", workspace.GlobOptions{}, "src/deep/er/c.go"},
		{"src/?.go", workspace.GlobOptions{}, "src/a.go"},
		{"src/[a-b]*.go", workspace.GlobOptions{}, "src/a.go src/b_test.go"},
		{"{main,src/a}.go", workspace.GlobOptions{}, "main.go src/a.go"},
		{"src/*", workspace.GlobOptions{}, "src/a.go src/b_test.go src/data.txt"},
		{"src/*", workspace.GlobOptions{Dirs: true}, "src/a.go src/b_test.go src/data.txt src/deep"},
		{`src/deep/\[odd\].txt`, workspace.GlobOptions{}, "src/deep/[odd].txt"},
		{"*.none", workspace.GlobOptions{}, ""},
		{"main.go", workspace.GlobOptions{}, "main.go"},
		{"main.go/**/x", workspace.GlobOptions{}, ""},
	}
	for _, tt := range tests {
		res, err := p.Glob(t.Context(), tt.pattern, &tt.opts)
		if !wantNil(t, "Glob", err) {
			continue
		}
		if got := strings.Join(pathsOf(res.Entries), " "); got != tt.want || res.Truncated {
			t.Errorf("Glob(%q, %+v) = %q, want %q", tt.pattern, tt.opts, got, tt.want)
		}
	}
}

func globIgnore(t testing.TB, e *Env) {
	p := e.openGarden(t)
	p.write(t, ".git/config", "[core]")
	p.write(t, "src/.gitignore", "*_test.go\n")
	for _, hidden := range []bool{false, true} {
		res, err := p.Glob(t.Context(), "**", &workspace.GlobOptions{GitIgnore: true, Hidden: hidden})
		if !wantNil(t, "Glob", err) {
			return
		}
		got := pathsOf(res.Entries)
		for _, name := range []string{"build/out.log", "vendor/x/x.go", "src/b_test.go", ".git/config"} {
			if slices.Contains(got, name) {
				t.Errorf("Glob lists %q, which is ignored (hidden: %v)", name, hidden)
			}
		}
		for _, name := range []string{"build/keep.log", "main.go", "src/a.go"} {
			if !slices.Contains(got, name) {
				t.Errorf("Glob does not list %q, which is not ignored (hidden: %v)", name, hidden)
			}
		}
		if slices.Contains(got, ".hidden/secret.go") != hidden {
			t.Errorf("Glob lists hidden files: %v, want %v", !hidden, hidden)
		}
	}
}

func globLimit(t testing.TB, e *Env) {
	p := e.openGarden(t)
	res, err := p.Glob(t.Context(), "**/*.go", &workspace.GlobOptions{Limit: 2})
	if !wantNil(t, "Glob", err) {
		return
	}
	if len(res.Entries) != 2 || !res.Truncated {
		t.Errorf("Glob with limit 2 gives %d entries, truncated %v", len(res.Entries), res.Truncated)
	}
	res, err = p.Glob(t.Context(), "**/*.go", &workspace.GlobOptions{Limit: 5})
	if wantNil(t, "Glob", err) && (len(res.Entries) != 5 || res.Truncated) {
		t.Errorf("Glob with a limit of exactly what there is gives %d entries, truncated %v", len(res.Entries), res.Truncated)
	}
}

func globStat(t testing.TB, e *Env) {
	p := e.openGarden(t)
	res, err := p.Glob(t.Context(), "main.go", &workspace.GlobOptions{Stat: true})
	if !wantNil(t, "Glob", err) || len(res.Entries) != 1 {
		return
	}
	stat, err := p.Stat(t.Context(), "main.go", nil)
	got := res.Entries[0]
	if wantNil(t, "Stat", err) && (got.Size != stat.Size || got.Mode != stat.Mode || !got.ModTime.Equal(stat.ModTime) || got.Type != stat.Type) {
		t.Errorf("Glob gives %+v, but Stat %+v", got, stat)
	}
}

func globRefused(t testing.TB, e *Env) {
	p := e.openGarden(t)
	for _, pattern := range []string{"[", "{a", "a/[b", ""} {
		_, err := p.Glob(t.Context(), pattern, nil)
		wantCode(t, "Glob of "+quote(pattern), err, fault.InvalidArgument)
	}
	_, err := p.Glob(t.Context(), "*", &workspace.GlobOptions{Path: "missing"})
	wantCode(t, "Glob below what is missing", err, fault.NotFound)
}

// grepLines searches and returns the matches as "path:line:column:text".
func (p *testWorkspace) grepLines(t testing.TB, pattern string, opts workspace.GrepOptions) ([]string, workspace.GrepResult) {
	t.Helper()
	res, err := p.Grep(t.Context(), pattern, &opts)
	wantNil(t, "Grep", err)
	var got []string
	for _, m := range res.Matches {
		got = append(got, fmt.Sprintf("%s:%d:%d:%s", m.Path, m.Line, m.Column, m.Text))
	}
	return got, res
}

// wantGrep reports a search that does not find exactly those.
func (p *testWorkspace) wantGrep(t testing.TB, pattern string, opts workspace.GrepOptions, want ...string) workspace.GrepResult {
	t.Helper()
	got, res := p.grepLines(t, pattern, opts)
	if !slices.Equal(got, want) {
		t.Errorf("Grep(%q, %+v) finds %d:\n%q, want %d:\n%q", pattern, opts, len(got), got[:min(len(got), 20)], len(want), want)
	}
	return res
}

func grepFinds(t testing.TB, e *Env) {
	p := e.openGarden(t)
	res := p.wantGrep(t, `TODO`, workspace.GrepOptions{},
		"build/keep.log:1:1:TODO kept", "build/out.log:1:1:TODO in a log", "no-newline:1:1:TODO at the end",
		"src/a.go:3:4:// TODO: water the plants", "src/data.txt:2:5:two TODO",
		"src/deep/er/c.go:3:4:// TODO: weed", "src/deep/er/c.go:4:4:// TODO: rake", "vendor/x/x.go:1:14:package x // TODO")
	if res.Truncated != "" || res.Skips != 0 {
		t.Errorf("Grep says %+v", res)
	}
	if want := len(garden) - 2; res.Searched != want { // all but the two hidden ones
		t.Errorf("Grep searched %d files, want %d", res.Searched, want)
	}
	p.wantGrep(t, `^package \w+$`, workspace.GrepOptions{Path: "src"},
		"src/a.go:1:1:package src", "src/b_test.go:1:1:package src", "src/deep/er/c.go:1:1:package er")
	p.wantGrep(t, `secret text that nobody wrote`, workspace.GrepOptions{})
	p.wantGrep(t, `line\.$`, workspace.GrepOptions{}, "README.md:3:11:The first line.", "README.md:4:12:the second line.")
	p.wantGrep(t, `two|three$`, workspace.GrepOptions{}, "src/data.txt:2:1:two TODO", "src/data.txt:3:1:three")
}

func grepModes(t testing.TB, e *Env) {
	p := e.openGarden(t)
	p.wantGrep(t, `[odd]`, workspace.GrepOptions{Literal: true})
	p.write(t, "odd", "a[odd]b (x|y) .*\n")
	p.wantGrep(t, `[odd]`, workspace.GrepOptions{Literal: true}, "odd:1:2:a[odd]b (x|y) .*")
	p.wantGrep(t, `(x|y) .*`, workspace.GrepOptions{Literal: true}, "odd:1:9:a[odd]b (x|y) .*")
	p.wantGrep(t, `HELLO`, workspace.GrepOptions{IgnoreCase: true},
		"README.md:1:3:# Hello", "main.go:4:11:\tprintln(\"Hello, World\")")
	p.wantGrep(t, `hello, w`, workspace.GrepOptions{IgnoreCase: true, Literal: true}, "main.go:4:11:\tprintln(\"Hello, World\")")
	p.wantGrep(t, `HELLO`, workspace.GrepOptions{})
}

func grepMultiline(t testing.TB, e *Env) {
	p := e.openGarden(t)
	p.wantGrep(t, `first.*second`, workspace.GrepOptions{})
	res := p.wantGrep(t, `first.*second`, workspace.GrepOptions{Multiline: true}, "README.md:3:5:The first line.\nthe second line.")
	if len(res.Matches) == 1 && res.Matches[0].Line != 3 {
		t.Errorf("the match is at line %d, want 3", res.Matches[0].Line)
	}
}

func grepContext(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "1\n2\n3\nHIT\n5\n6\n7\nHIT\n")
	_, res := p.grepLines(t, "HIT", workspace.GrepOptions{Before: 2, After: 1})
	if len(res.Matches) != 2 {
		t.Fatalf("Grep finds %+v, want two matches", res.Matches)
	}
	for i, want := range []struct{ before, after string }{{"2,3", "5"}, {"6,7", ""}} {
		m := res.Matches[i]
		if before, after := strings.Join(m.Before, ","), strings.Join(m.After, ","); before != want.before || after != want.after {
			t.Errorf("the context of line %d is %q and %q, want %q and %q", m.Line, before, after, want.before, want.after)
		}
	}
}

func grepFilters(t testing.TB, e *Env) {
	p := e.openGarden(t)
	paths := func(opts workspace.GrepOptions) string {
		t.Helper()
		_, res := p.grepLines(t, "TODO", opts)
		var got []string
		for _, m := range res.Matches {
			got = append(got, m.Path)
		}
		return strings.Join(slices.Compact(got), " ")
	}
	tests := []struct {
		opts workspace.GrepOptions
		want string
	}{
		{workspace.GrepOptions{Include: []string{"*.go"}}, "src/a.go src/deep/er/c.go vendor/x/x.go"},
		{workspace.GrepOptions{Include: []string{"src/**"}}, "src/a.go src/data.txt src/deep/er/c.go"},
		{workspace.GrepOptions{Include: []string{"*.txt", "vendor/**/*.go"}}, "src/data.txt vendor/x/x.go"},
		{workspace.GrepOptions{Include: []string{"*.go"}, Exclude: []string{"vendor/**"}}, "src/a.go src/deep/er/c.go"},
		{workspace.GrepOptions{Exclude: []string{"*.go", "*.log", "*.txt"}}, "no-newline"},
		{workspace.GrepOptions{Hidden: true, Include: []string{"secret.go"}}, ".hidden/secret.go"},
	}
	for _, tt := range tests {
		if got := paths(tt.opts); got != tt.want {
			t.Errorf("Grep with %+v finds it in %q, want %q", tt.opts, got, tt.want)
		}
	}
}

func grepIgnore(t testing.TB, e *Env) {
	p := e.openGarden(t)
	p.wantGrep(t, "TODO (in|kept)|x // TODO", workspace.GrepOptions{GitIgnore: true}, "build/keep.log:1:1:TODO kept")
}

func grepPath(t testing.TB, e *Env) {
	p := e.openGarden(t)
	p.wantGrep(t, "TODO", workspace.GrepOptions{Path: "src/a.go"}, "src/a.go:3:4:// TODO: water the plants")
	p.wantGrep(t, "TODO", workspace.GrepOptions{Path: "src/deep"}, "src/deep/er/c.go:3:4:// TODO: weed", "src/deep/er/c.go:4:4:// TODO: rake")
	p.wantGrep(t, "TODO", workspace.GrepOptions{Path: ".hidden/secret.go"}, ".hidden/secret.go:1:19:package hidden // TODO")
	_, err := p.Grep(t.Context(), "TODO", &workspace.GrepOptions{Path: "missing"})
	wantCode(t, "Grep below what is missing", err, fault.NotFound)
}

func grepSkips(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "binary", "HIT\x00HIT\n")
	p.write(t, "big", strings.Repeat("HIT\n", 1000))
	p.write(t, "small", "HIT\n")
	res := p.wantGrep(t, "HIT", workspace.GrepOptions{MaxFileSize: 1000}, "small:1:1:HIT")
	want := []driver.Skip{{Path: "big", Reason: driver.SkipTooBig}, {Path: "binary", Reason: driver.SkipBinary}}
	slices.SortFunc(res.Skipped, func(a, b driver.Skip) int { return strings.Compare(a.Path, b.Path) })
	if !slices.Equal(res.Skipped, want) || res.Skips != 2 {
		t.Errorf("Grep skipped %+v (%d), want %+v", res.Skipped, res.Skips, want)
	}
	if res.Searched != 1 {
		t.Errorf("Grep searched %d files, want 1", res.Searched)
	}
	_, res = p.grepLines(t, "HIT", workspace.GrepOptions{MaxFileSize: -1})
	if len(res.Matches) != 1001 || res.Skips != 1 {
		t.Errorf("Grep without a limit finds %d and skips %d, want 1001 and 1", len(res.Matches), res.Skips)
	}
}

func grepTruncated(t testing.TB, e *Env) {
	p := e.open(t)
	for i := range 5 {
		p.write(t, "file-"+itoa(i), strings.Repeat("HIT\n", 10))
	}
	_, res := p.grepLines(t, "HIT", workspace.GrepOptions{MaxMatches: 25})
	if len(res.Matches) != 25 || res.Truncated != "matches" {
		t.Errorf("Grep for 25 of 50 finds %d, truncated %q", len(res.Matches), res.Truncated)
	}
	_, res = p.grepLines(t, "HIT", workspace.GrepOptions{MaxMatches: 50})
	if len(res.Matches) != 50 || res.Truncated != "" {
		t.Errorf("Grep for 50 of 50 finds %d, truncated %q", len(res.Matches), res.Truncated)
	}
	_, res = p.grepLines(t, "HIT", workspace.GrepOptions{MaxPerFile: 2})
	if len(res.Matches) != 10 {
		t.Errorf("Grep for 2 per file finds %d in 5 files, want 10", len(res.Matches))
	}
}

func grepRefused(t testing.TB, e *Env) {
	p := e.openGarden(t)
	for pattern, culprit := range map[string]string{"(": "(", "x[z-a]": "z-a", "a{2,1}": "{2,1}", "*": "*", `\`: "", "": ""} {
		_, err := p.Grep(t.Context(), pattern, nil)
		wantCode(t, "Grep for "+quote(pattern), err, fault.InvalidArgument)
		if err != nil && !strings.Contains(err.Error(), culprit) {
			t.Errorf("the error does not name what is wrong with %q: %v", pattern, err)
		}
	}
	for _, opts := range []workspace.GrepOptions{{Include: []string{"["}}, {Exclude: []string{"{"}}, {Before: -1}, {MaxMatches: -1}} {
		_, err := p.Grep(t.Context(), "x", &opts)
		wantCode(t, fmt.Sprintf("Grep with %+v", opts), err, fault.InvalidArgument)
	}
}

func grepCancelled(t testing.TB, e *Env) {
	p := e.openGarden(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Grep(ctx, "TODO", nil)
	wantCode(t, "Grep with a cancelled context", err, fault.Canceled)
	if p.d.FS.Grep != nil {
		_, err = p.d.FS.Grep(ctx, "TODO", &driver.GrepOptions{Path: "."})
		wantCode(t, "the driver's Grep with a cancelled context", err, fault.Canceled)
	}
}
