package search

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func mustCompile(t *testing.T, pattern string, o *driver.GrepOptions) *Query {
	t.Helper()
	q, err := Compile(pattern, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func searchOne(ctx context.Context, t *testing.T, pattern string, o *driver.GrepOptions, data []byte) driver.GrepResult {
	t.Helper()
	h := NewHits(ctx, o)
	h.Search(mustCompile(t, pattern, o), "f", data)
	return h.Result()
}

func size(res driver.GrepResult) int {
	n := 0
	for i := range res.Matches {
		n += matchSize(&res.Matches[i])
	}
	return n
}

func TestOptionsBeyondTheBoundsAreRefused(t *testing.T) {
	for _, o := range []driver.GrepOptions{
		{Before: driver.MaxContext + 1}, {After: 1_000_000}, {MaxMatches: 2_000_000_000}, {MaxFileSize: -2}, {Before: -1},
	} {
		if _, err := Compile("m", &o); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("compile with %+v: %v", o, err)
		}
	}
	if _, err := PlanGlob("*", &driver.GlobOptions{Limit: driver.MaxGlobLimit + 1}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("glob with a limit beyond the bound: %v", err)
	}
	mustCompile(t, "m", &driver.GrepOptions{Before: driver.MaxContext, After: driver.MaxContext, MaxMatches: driver.MaxGrepMatches})
}

// Two thousand lines of context for each of a million matches are more than any
// machine has; the answer ends with what fits, and says so.
func TestAnswerIsBoundedInBytes(t *testing.T) {
	data := bytes.Repeat([]byte("m\n"), 1<<20)
	o := &driver.GrepOptions{Before: driver.MaxContext, After: driver.MaxContext, MaxMatches: driver.MaxGrepMatches}
	res := searchOne(t.Context(), t, "m", o, data)
	if got := size(res); res.Truncated != "size" || got > driver.MaxGrepBytes || got < driver.MaxGrepBytes/2 {
		t.Errorf("%d matches of %d bytes, truncated %q", len(res.Matches), got, res.Truncated)
	}
	for i, m := range res.Matches {
		if m.Line != i+1 || len(m.Before) != min(i, driver.MaxContext) || len(m.After) != driver.MaxContext {
			t.Fatalf("match %d is on line %d with %d lines before and %d after", i, m.Line, len(m.Before), len(m.After))
		}
	}
}

// Of many files with large matches the first in the order of paths are kept,
// whatever order they are searched in.
func TestAnswerIsBoundedOverFiles(t *testing.T) {
	o := new(driver.GrepOptions)
	q, h := mustCompile(t, "m", o), NewHits(t.Context(), o)
	line := append(bytes.Repeat([]byte("m"), driver.MaxMatchText), '\n')
	for i := 999; i >= 0; i-- {
		h.Search(q, fmt.Sprintf("f%03d", i), line)
		if h.bytes > 3*driver.MaxGrepBytes {
			t.Fatalf("%d bytes are held", h.bytes)
		}
	}
	res := h.Result()
	if res.Truncated != "size" || size(res) > driver.MaxGrepBytes || len(res.Matches) < 200 {
		t.Errorf("%d matches of %d bytes, truncated %q", len(res.Matches), size(res), res.Truncated)
	}
	for i, m := range res.Matches {
		if want := fmt.Sprintf("f%03d", i); m.Path != want {
			t.Fatalf("match %d is in %s, want %s", i, m.Path, want)
		}
	}
}

func TestLongLinesAreCut(t *testing.T) {
	long := strings.Repeat("é", driver.MaxMatchText)
	data := []byte("x" + long + "\nneedle" + long + "\n" + long + "\nshort\n")
	for _, multiline := range []bool{false, true} {
		got := mustCompile(t, "needle", &driver.GrepOptions{Before: 1, After: 2, Multiline: multiline}).Find(data, 0)
		if len(got) != 1 || !got[0].Cut || len(got[0].Before) != 1 || len(got[0].After) != 2 || got[0].After[1] != "short" {
			t.Fatalf("found %d, cut %v", len(got), len(got) > 0 && got[0].Cut)
		}
		for _, text := range []string{got[0].Text, got[0].Before[0], got[0].After[0]} {
			if len(text) > driver.MaxMatchText || len(text) < driver.MaxMatchText-1 || !utf8.ValidString(text) {
				t.Errorf("a text of %d bytes, UTF-8 is %v", len(text), utf8.ValidString(text))
			}
		}
	}
	exact := bytes.Repeat([]byte("m"), driver.MaxMatchText)
	if got := mustCompile(t, "m", new(driver.GrepOptions)).Find(exact, 0); len(got) != 1 || got[0].Cut || got[0].Text != string(exact) {
		t.Errorf("a line that just fits is cut: %d matches", len(got))
	}
	behind := append(bytes.Repeat([]byte("x"), driver.MaxMatchText+10), "needle"...)
	if got := mustCompile(t, "needle", new(driver.GrepOptions)).Find(behind, 0); len(got) != 1 || got[0].Column != driver.MaxMatchText+11 || !got[0].Cut {
		t.Errorf("a match behind the cut: %d matches", len(got))
	}
}

func TestContextOfOneMatchIsBounded(t *testing.T) {
	line := strings.Repeat("x", driver.MaxMatchText) + "\n"
	data := []byte(strings.Repeat(line, 50) + "needle\n" + strings.Repeat(line, 50))
	got := mustCompile(t, "needle", &driver.GrepOptions{Before: 50, After: 50}).Find(data, 0)
	if len(got) != 1 || !got[0].Cut || len(got[0].Before) == 0 || len(got[0].After) == 0 || matchSize(&got[0]) > driver.MaxMatchContext+driver.MaxMatchText {
		t.Errorf("found %d matches", len(got))
	}
}

// expired returns a context that has ended.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Each of these would take minutes or hours.
func TestSearchStopsInTheMidstOfAFile(t *testing.T) {
	line := bytes.Repeat([]byte("a"), 32<<20)
	lines := bytes.Repeat([]byte(strings.Repeat("a", 199)+"\n"), 160<<10)
	heavy := strings.Repeat("a?", 900) + strings.Repeat("(a|aa)", 100) + `[^a\n]`
	needle := strings.Repeat("a", 20000) + "k" + strings.Repeat("a", 20000)
	for name, tt := range map[string]struct {
		pattern string
		o       driver.GrepOptions
		data    []byte
	}{
		"long line":       {heavy, driver.GrepOptions{}, line},
		"many lines":      {heavy, driver.GrepOptions{}, lines},
		"multiline":       {heavy, driver.GrepOptions{Multiline: true}, lines},
		"folded needle":   {needle, driver.GrepOptions{IgnoreCase: true}, bytes.Repeat([]byte(needle[:40000]+"a"), 800)},
		"folded spanning": {needle, driver.GrepOptions{IgnoreCase: true, Multiline: true, Literal: true}, bytes.Repeat([]byte(needle[:40000]+"a"), 800)},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.MaxMatches = driver.MaxGrepMatches
			if res := searchOne(expired(t), t, tt.pattern, &tt.o, tt.data); len(res.Matches) != 0 {
				t.Errorf("%d matches", len(res.Matches))
			}
			tt.o.MaxTime = 50 * time.Millisecond
			if res := searchOne(t.Context(), t, tt.pattern, &tt.o, tt.data); res.Truncated != "time" {
				t.Errorf("truncated %q", res.Truncated)
			}
		})
	}
}

// What goes to the expression through a reader is found as what does not.
func TestFindEqualsRegexpWhereItIsSlow(t *testing.T) {
	for _, pattern := range patterns {
		for _, text := range texts {
			for _, multiline := range []bool{false, true} {
				q, err := Compile(pattern, &driver.GrepOptions{Multiline: multiline})
				if err != nil || q.re == nil {
					continue
				}
				want := q.Find([]byte(text), 0)
				q.steps = maxSteps + 1
				if got := q.Find([]byte(text), 0); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%q in %q: %v, want %v", pattern, text, got, want)
				}
			}
		}
	}
}

func TestBeginOfTextIsInTheFirstLine(t *testing.T) {
	q := mustCompile(t, `\Afoo|bar`, &driver.GrepOptions{Multiline: true})
	var lines []int
	for _, m := range q.Find([]byte("foo\nfoo\nbar\nfoo\nbar"), 0) {
		lines = append(lines, m.Line)
	}
	if want := []int{1, 3, 5}; !slices.Equal(lines, want) {
		t.Errorf("found in lines %v, want %v", lines, want)
	}
}

// One name held against this takes a minute.
func TestRulesStop(t *testing.T) {
	rule := strings.Repeat("**/", 20) + strings.Repeat("*a", 100) + "b\n"
	var ig *Ignore
	ig = ig.With(".", []byte(strings.Repeat(rule, 5000)))
	name := strings.Repeat("a", 250)
	asked := 0
	p := &Plan{GitIgnore: true, Stop: func() bool { asked++; return asked > 3 }}
	if p.Takes(strings.Repeat(name+"/", 8)+name, name, false, ig) || asked != 4 {
		t.Errorf("taken, or asked %d times to stop", asked)
	}
}

func TestRulesAreBounded(t *testing.T) {
	var ig *Ignore
	ig = ig.With(".", []byte(strings.Repeat("x\n", maxRules-2)+strings.Repeat("y", maxRule+1)+"\nlast\n"))
	ig = ig.With("d", []byte("one\ntwo\n"))
	for path, want := range map[string]bool{"d/x": true, "d/last": true, "d/one": true, "d/two": false, "d/" + strings.Repeat("y", maxRule+1): false} {
		if got := ig.Ignores(path, false); got != want {
			t.Errorf("%.20s is ignored: %v, want %v", path, got, want)
		}
	}
	ig = nil
	if ig = ig.With(".", []byte(strings.Repeat("x", maxRule)+"\n"+strings.Repeat("#"+strings.Repeat("z", 1022)+"\n", 1023)+"cut-here\n")); !ig.Ignores(strings.Repeat("x", maxRule), false) || ig.Ignores("cut-", false) {
		t.Error("a file that is cut has half a rule")
	}
}
