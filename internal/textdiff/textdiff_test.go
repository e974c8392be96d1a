package textdiff

import (
	"fmt"
	"strings"
	"testing"
)

func TestUnified(t *testing.T) {
	for _, tt := range []struct{ name, before, after, want string }{
		{"equal", "a\n", "a\n", ""},
		{"one line", "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"no newline", "a", "b\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"},
		{"new", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"apart", "a\n1\n2\n3\nb\n", "x\n1\n2\n3\ny\n", "@@ -1,2 +1,2 @@\n-a\n+x\n 1\n@@ -4,2 +4,2 @@\n 3\n-b\n+y\n"},
	} {
		want := tt.want
		if want != "" {
			want = "--- a/f\n+++ b/f\n" + want
		}
		if got := Unified("f", []byte(tt.before), []byte(tt.after), 1); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, want)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd")
	f.Add("", "x")
	f.Add(strings.Repeat("x\ny\n", 600), strings.Repeat("y\nz\n", 600))
	f.Fuzz(func(t *testing.T, from, to string) {
		a, b := Split([]byte(from)), Split([]byte(to))
		var out []string
		at := 0
		for _, e := range Lines(a, b) {
			if e.A0 < at || e.A1 < e.A0 || e.B1 < e.B0 {
				t.Fatalf("edits out of order: %+v", e)
			}
			out = append(append(out, a[at:e.A0]...), b[e.B0:e.B1]...)
			at = e.A1
		}
		if got := strings.Join(append(out, a[at:]...), ""); got != to {
			t.Errorf("the edits make %q of %q, want %q", got, from, to)
		}
	})
}

func TestTextsFarApart(t *testing.T) {
	var a, b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&a, "old %d\n", i)
		fmt.Fprintf(&b, "new %d\n", i)
		if i%100 == 0 {
			fmt.Fprintf(&a, "anchor %d\n", i)
			fmt.Fprintf(&b, "anchor %d\n", i)
		}
	}
	edits := Lines(Split([]byte(a.String())), Split([]byte(b.String())))
	if got, want := len(edits), 31; got != want {
		t.Errorf("%d edits, want %d: one between each two anchors", got, want)
	}
}
