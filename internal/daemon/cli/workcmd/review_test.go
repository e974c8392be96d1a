package workcmd

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// comparison is the changes of a work: two hunks of a file, a file in a new directory with
// another one, a directory that was removed with its file, and an empty one.
func comparison() *snapshot.Comparison {
	file, dir := &snapshot.Side{Type: driver.TypeFile, Mode: 0o644}, &snapshot.Side{Type: driver.TypeDir, Mode: 0o755}
	hunk := func(at int, old, now string) snapshot.Hunk {
		return snapshot.Hunk{OldStart: at, OldLines: 1, NewStart: at, NewLines: 1, Lines: []string{"-" + old + "\n", "+" + now + "\n"}}
	}
	return &snapshot.Comparison{Changes: []snapshot.FileChange{
		{Path: "empty", Kind: snapshot.Added, New: dir},
		{Path: "gone", Kind: snapshot.Removed, Old: dir},
		{Path: "gone/a", Kind: snapshot.Removed, Old: file},
		{Path: "made", Kind: snapshot.Added, New: dir},
		{Path: "made/one", Kind: snapshot.Added, New: file, LinesAdded: 1},
		{Path: "made/two", Kind: snapshot.Added, New: file, LinesAdded: 1},
		{Path: "numbers", Kind: snapshot.Modified, Old: file, New: file, LinesAdded: 2, LinesRemoved: 2, Hunks: []snapshot.Hunk{hunk(2, "2", "two"), hunk(28, "28", "x")}},
	}}
}

// pressed is the screen of a review after keys.
func pressed(keys string) *reviewScreen {
	s := &reviewScreen{review: newReview(comparison()), name: "app-sh", dir: "/app", tests: &testOutput{done: true}}
	s.runTests = func(context.Context, *testOutput) {}
	s.frame(driver.Size{Rows: 24, Cols: 100})
	for data := []byte(keys); len(data) > 0; {
		var name string
		name, data = nextKey(data)
		if s.key(name) {
			break
		}
		s.frame(driver.Size{Rows: 24, Cols: 100})
	}
	return s
}

// TestReviewSelection chooses files and hunks with the keys of the screen. A directory is
// taken with all below it, or not at all.
func TestReviewSelection(t *testing.T) {
	const down, hunks = "\x1b[B", "\r"
	type selection struct {
		Paths []string
		Hunks map[string][]int
	}
	none := map[string][]int{}
	for keys, want := range map[string]selection{
		"":                          {nil, none},
		" ":                         {[]string{"empty"}, none},
		"  ":                        {nil, none},
		"aa":                        {[]string{"empty", "gone/a", "gone"}, none},
		"jj ":                       {[]string{"made/one"}, none},
		"jjaa":                      {[]string{"made/one", "made/two", "made"}, none},
		"A":                         {[]string{"empty", "gone/a", "made/one", "made/two", "numbers", "gone", "made"}, none},
		"AR":                        {nil, none},
		"A" + "jjjr":                {[]string{"empty", "gone/a", "made/one", "numbers", "gone"}, none},
		"jjjj" + hunks + "a":        {[]string{"numbers"}, map[string][]int{"numbers": {1}}},
		"G" + hunks + "j ":          {[]string{"numbers"}, map[string][]int{"numbers": {2}}},
		"G" + hunks + "j \x1b \x1b": {[]string{"numbers"}, none},
		"G" + hunks + "aak":         {[]string{"numbers"}, none},
		down + down + " kk ":        {[]string{"empty", "made/one"}, none},
		"g" + hunks + "jjjjjjjj ":   {[]string{"numbers"}, map[string][]int{"numbers": {2}}},
	} {
		s := pressed(keys)
		var got selection
		got.Paths, got.Hunks = s.selection()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", keys, diff)
		}
	}
}

// TestReviewLeaves leaves the screen: nothing is applied but after q and y.
func TestReviewLeaves(t *testing.T) {
	for keys, want := range map[string]bool{"q": false, "Aqy": true, "Aqn": false, "Aq\x03": false, "A\x03": false, "AqxRq": false, "A?qqy": true, "Aq\x1bqy": true} {
		if got := pressed(keys).apply; got != want {
			t.Errorf("%q: apply %t, want %t", keys, got, want)
		}
	}
}

// TestReviewAutorun: an autorun file is marked, and the question says that it is left out,
// unless the user allowed it. In lines no control character of a file is written.
func TestReviewAutorun(t *testing.T) {
	file := &snapshot.Side{Type: driver.TypeFile, Mode: 0o644}
	d := &snapshot.Comparison{Changes: []snapshot.FileChange{{Path: ".vscode/tasks.json", Kind: snapshot.Added, New: file, Hunks: []snapshot.Hunk{{NewStart: 1, NewLines: 1, Lines: []string{"+\x1b[2J\n"}}}}}}
	const leftOut = "1 autorun file left out"
	for _, allowed := range []bool{false, true} {
		s := &reviewScreen{review: newReview(d), autorun: allowed, tests: &testOutput{done: true}}
		s.key("A")
		s.key("q")
		var out, notes bytes.Buffer
		r := &reviewer{review: newReview(d), a: &command{&console.Console{Streams: console.Streams{In: strings.NewReader("y\ny\n"), Out: &out,
			Err: &notes}}}}
		r.opts.Apply.Autorun = allowed
		if apply, err := r.askInLines(t.Context()); !apply || err != nil {
			t.Errorf("apply %t, %v", apply, err)
		}
		for form, shown := range map[string]string{"screen": strings.Join(s.frame(driver.Size{Rows: 9, Cols: 100}), "\n"), "lines": notes.String()} {
			if !regexp.MustCompile(`tasks\.json +autorun`).MatchString(shown) || strings.Contains(shown, leftOut) == allowed {
				t.Errorf("%s, allowed: %t:\n%s", form, allowed, shown)
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("the output is %q", out.String())
		}
	}
}

// TestReviewTests runs tests on what is taken: their output and outcome are shown, and the
// outcome is forgotten when another change is taken.
func TestReviewTests(t *testing.T) {
	wake := make(chan struct{}, 1)
	s := &reviewScreen{review: newReview(comparison()), tests: &testOutput{wake: wake, ctx: t.Context(), done: true}}
	size := driver.Size{Rows: 24, Cols: 100}
	shows := func(text string) {
		t.Helper()
		if got := strings.Join(s.frame(size), "\n"); !strings.Contains(got, text) {
			t.Errorf("it does not show %q:\n%s", text, got)
		}
	}
	started := 0
	var running context.Context
	s.runTests = func(ctx context.Context, out *testOutput) {
		started++
		running = ctx
		fmt.Fprint(out, "out\x1b[2Jput\n")
	}
	s.key("t")
	shows("nothing is taken")
	s.key("A")
	s.key("t")
	shows(`out\x1b[2Jput`)
	shows("the tests run")
	if s.key("q"); started != 1 || s.mode != showingTests {
		t.Errorf("%d tests, mode %d", started, s.mode)
	}
	s.key("ctrl-c")
	if running.Err() == nil {
		t.Error("ctrl-c does not stop the tests")
	}
	s.tests.end("passed", nil)
	shows("tests: passed; pgup")
	s.key("x")
	shows("taken: 6 of 6 changes, in 5 files; tests: passed")
	s.key(" ")
	if text := s.frame(size)[0]; strings.Contains(text, "tests") {
		t.Errorf("after another selection the title is %q", text)
	}
	s.key("t")
	_, _ = s.tests.Write([]byte(strings.Repeat("line\n", maxTestOutput)))
	s.top = maxTestOutput
	shows("the start of the output is left out")
}

// TestReviewFrames draws screens of many sizes: each has its number of lines, of which none
// is wider than the screen, and no control character of a file.
func TestReviewFrames(t *testing.T) {
	d := comparison()
	d.Changes = append(d.Changes, snapshot.FileChange{Path: "wide/日本語\x1b[2J" + strings.Repeat("日本語 ", 40), Kind: snapshot.Modified, Old: d.Changes[2].Old, New: d.Changes[2].Old,
		Hunks: []snapshot.Hunk{{OldStart: 1, NewStart: 1, NewLines: 2, Lines: []string{"+\ttabbed\r\n", "+\u202e" + strings.Repeat("日本語", 60) + "\x1b[2J\n"}}}})
	for _, keys := range []string{"", "G", "G\r", "?", "Aq", "At"} {
		for _, size := range []driver.Size{{Rows: 24, Cols: 80}, {Rows: 50, Cols: 200}, {Rows: 10, Cols: 30}, {Rows: 3, Cols: 12}, {Rows: 1, Cols: 1}, {Rows: 2, Cols: 5}, {Rows: 24, Cols: 79}} {
			s := &reviewScreen{review: newReview(d), tests: &testOutput{wake: make(chan struct{}, 1), ctx: t.Context(), done: true}, runTests: func(_ context.Context, out *testOutput) { fmt.Fprintln(out, strings.Repeat("x", 500)) }, colour: true}
			for _, key := range keys {
				name, _ := nextKey([]byte(string(key)))
				s.key(name)
			}
			lines := s.frame(size)
			if len(lines) != size.Rows {
				t.Errorf("%q at %v: %d lines", keys, size, len(lines))
			}
			for _, line := range lines {
				plain := line
				for _, style := range []string{styleBold, styleReverse, styleEnd, "\x1b[31m", "\x1b[32m", "\x1b[36m"} {
					plain = strings.ReplaceAll(plain, style, "")
				}
				columns := 0
				for _, r := range plain {
					columns += runeColumns(r)
				}
				// A terminal of less than a dozen columns cuts the marks.
				if columns > max(size.Cols, 12) || strings.ContainsAny(plain, "\x1b\r\t\u202e") {
					t.Errorf("%q at %v: %d columns: %q", keys, size, columns, line)
				}
			}
		}
	}
}

func TestFitColumns(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{
		{"abc", 5, "abc  "}, {"abcdef", 5, "abcd…"}, {"abcde", 5, "abcde"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日… "}, {"e\u0301e\u0301", 2, "e\u0301e\u0301"}, {"abc", 0, ""}, {"abc", 1, "…"},
	} {
		if got := fitColumns(tt.text, tt.n); got != tt.want {
			t.Errorf("fitColumns(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.want)
		}
	}
	if diff := cmp.Diff([]string{"日本", "語abc", "   d"}, wrapColumns("日本語abc\td", 5)); diff != "" {
		t.Errorf("wrapColumns (-want +got):\n%s", diff)
	}
}
