package search

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// naive is what Find must equal: package regexp on every line, or on the whole.
func naive(t testing.TB, pattern string, o *driver.GrepOptions, data []byte, limit int) []driver.Match {
	t.Helper()
	if o.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	if o.Multiline {
		pattern = "(?ms:" + pattern + ")"
	}
	if o.IgnoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	re := regexp.MustCompile(pattern)
	lines := splitLines(data)
	var found []driver.Match
	add := func(first, last, column int) {
		m := driver.Match{Line: first + 1, Column: column + 1}
		m.Text = strings.Join(lines[first:last+1], "\n")
		m.Before = lines[max(0, first-o.Before):first]
		m.After = lines[last+1 : min(len(lines), last+1+o.After)]
		found = append(found, m)
	}
	if !o.Multiline {
		for i, line := range lines {
			if loc := re.FindStringIndex(line); loc != nil && (limit == 0 || len(found) < limit) {
				add(i, i, loc[0])
			}
		}
		return found
	}
	next := 0
	for _, loc := range findAll(re, data) {
		first := bytes.Count(data[:loc[0]], newline)
		last := bytes.Count(data[:max(loc[0], loc[1]-1)], newline)
		if first < next || first >= len(lines) || limit > 0 && len(found) == limit {
			continue
		}
		add(first, last, loc[0]-bytes.LastIndexByte(data[:loc[0]], '\n')-1)
		next = last + 1
	}
	return found
}

func splitLines(data []byte) []string {
	var lines []string
	for _, line := range strings.SplitAfter(string(data), "\n") {
		if text, ok := strings.CutSuffix(line, "\n"); ok {
			lines = append(lines, strings.TrimSuffix(text, "\r"))
		} else if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func check(t *testing.T, pattern string, o *driver.GrepOptions, data []byte, limit int) {
	t.Helper()
	q, err := Compile(pattern, o)
	if err != nil {
		if fault.Of(err) != fault.InvalidArgument {
			t.Errorf("compile %q: %v", pattern, err)
		}
		return
	}
	got := q.Find(data, limit)
	want := naive(t, pattern, o, data, limit)
	equalNil := cmp.Transformer("nil", func(s []string) string { return fmt.Sprintf("%q", s) })
	text := cmp.FilterPath(func(p cmp.Path) bool { return o.Multiline && p.Last().String() == ".Text" },
		cmp.Comparer(func(a, b string) bool {
			return strings.ReplaceAll(a, "\r\n", "\n") == strings.ReplaceAll(b, "\r\n", "\n")
		}))
	if diff := cmp.Diff(want, got, equalNil, text); diff != "" {
		t.Errorf("%q with %+v in %q (limit %d):\n%s", pattern, *o, data, limit, diff)
	}
}

var (
	patterns = []string{
		"foo", "Foo", "o", "k", "Kelvin", "straße", "ſ", "s", "sk", "foo|bar", "foo|ba[rz]", `\bfoo\b`, `^foo`, `foo$`, `^$`, `x*`, `(foo)+bar`,
		`fo{2,}`, `a.c`, `[fb]oo`, `(?i)FOO`, `foo(bar|baz)?qux`, `\x{FFFD}`, `é`, `.`, `foo.*bar`, `foo\s+bar`, `(a|b|c|d|e|f|g|h|i)x`, "\\r", "o\r", "fo\no", `\z`, "(", "a{99999}", "\xff",
	}
	texts = []string{
		"", "\n", "foo", "foo\n", "Foo\r\nfoo\r\n", "a\nfoo bar\nb\n", "xfoox\nfoo foo\n\nFOO\n", "\u212aelvin kelvin KELVIN\n\u017ftra\u00dfe stra\u00dfe\nSK \u017f\u212a",
		"foobar\nfoobarbaz\r", "\xff\xfe\nf\xffoo\n\ufffd\n", "foo\nbar\nfoo  \nbar", "abc\na\nc\n", strings.Repeat("fo oo of o o\n", 50) + "foo\n", "é\ne\u0301\n",
		strings.Repeat("f", 300) + "foo", "fooquxfoobarqux\n", "\r\n\r\n", "gx\nax\n", "o\r\no\rx\n",
	}
)

func TestFindEqualsRegexp(t *testing.T) {
	for _, pattern := range patterns {
		for _, text := range texts {
			for bits := range 8 {
				for _, limit := range []int{0, 1} {
					o := &driver.GrepOptions{Literal: bits&1 != 0, IgnoreCase: bits&2 != 0, Multiline: bits&4 != 0, Before: bits % 3, After: bits % 2}
					if o.Literal && !o.IgnoreCase && pattern == "\xff" {
						continue // package regexp can't say it; see below
					}
					check(t, pattern, o, []byte(text), limit)
				}
			}
		}
	}
}

func TestLiteralMayBeAnyBytes(t *testing.T) {
	q, err := Compile("\xff\xfe", &driver.GrepOptions{Literal: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := q.Find([]byte("x\xff\xfe\n\xff\n"), 0); len(got) != 1 || got[0].Column != 2 {
		t.Errorf("found %+v", got)
	}
}

func TestRequiredLiterals(t *testing.T) {
	tests := map[string][]string{
		`\w+Needle\d+`: {"Needle"}, `foo|bar`: {"foo", "bar"}, `(?i)handler`: {"handler"}, `(?i)kiss`: {"i"}, `a*`: nil,
		`foo(bar|longer)`: {"foo"}, `x?`: nil, `(abc)+`: {"abc"}, `a|b|c|d|e|f|g|h|ii|`: nil, `(?:foo){2}`: {"foo"},
	}
	for pattern, want := range tests {
		q, err := Compile(pattern, new(driver.GrepOptions))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range q.needles {
			got = append(got, string(n.text))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", pattern, diff)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for pattern, o := range map[string]driver.GrepOptions{
		"": {}, "(": {}, strings.Repeat("x", maxPattern+1): {}, "x": {Before: -1}, `(?=a)`: {}, "\xff": {IgnoreCase: true},
	} {
		if _, err := Compile(pattern, &o); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("compile %.20q: %v", pattern, err)
		}
	}
}

func FuzzGrepEqualsRegexp(f *testing.F) {
	for i, pattern := range patterns {
		f.Add(pattern, texts[i%len(texts)], byte(i))
	}
	f.Fuzz(func(t *testing.T, pattern, text string, bits byte) {
		if len(pattern) > 100 || len(text) > 10_000 {
			return
		}
		o := &driver.GrepOptions{
			Literal: bits&1 != 0, IgnoreCase: bits&2 != 0, Multiline: bits&4 != 0, Before: int(bits >> 3 & 1), After: int(bits >> 4 & 1),
		}
		if o.Literal && !o.IgnoreCase && strings.ContainsRune(pattern, '\ufffd') {
			return // bytes that are not UTF-8 are found as they are, which package regexp can't say
		}
		check(t, pattern, o, []byte(text), int(bits>>6))
	})
}

// findAll finds the matches of a whole text, each from the line after the one
// before.
func findAll(re *regexp.Regexp, data []byte) (locs [][]int) {
	for from := 0; from < len(data); {
		loc := re.FindIndex(data[from:])
		if loc == nil {
			break
		}
		first, last := from+loc[0], from+loc[1]
		locs = append(locs, []int{first, last})
		i := bytes.IndexByte(data[max(first, last-1):], '\n')
		if i < 0 {
			break
		}
		from = max(first, last-1) + i + 1
	}
	return locs
}
