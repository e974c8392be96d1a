package ast

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzFunctionBody edits whatever parses, and holds the promises of the package
// against the result by other means than the code does.
func FuzzFunctionBody(f *testing.F) {
	f.Add("a.go", goSource, "F", "return 2")
	for _, l := range languages {
		f.Add(l.name, l.src, l.body[0], l.body[1])
	}
	f.Add("a.py", "def f(): pass", "f", "}")
	f.Add("a.go", "package p\nfunc F() {", "F", "x")
	f.Fuzz(func(t *testing.T, name, src, function, body string) {
		before, err := editor.Outline(t.Context(), name, []byte(src))
		if err != nil {
			return
		}
		for i := range before {
			fn := &before[i]
			if fn.start > fn.end || fn.end > len(src) || fn.sigEnd < fn.sigStart || fn.bodyEnd < fn.bodyStart || fn.bodyEnd > len(src) {
				t.Fatalf("range of %s is out of bounds: %+v", fn.Path, *fn)
			}
		}
		got, err := editor.FunctionBody(t.Context(), name, []byte(src), function, body)
		if err != nil {
			var told *Error
			if !errors.As(err, &told) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		after, err := editor.Outline(t.Context(), name, got.Content)
		if err != nil {
			t.Fatalf("result does not parse: %v\n%s", err, got.Content)
		}
		var edited *Func
		for i := range before {
			if before[i].Line == got.Line && bytes.HasPrefix([]byte(src[before[i].start:]), []byte(got.Before)) {
				edited = &before[i]
			}
		}
		if edited == nil {
			t.Fatalf("no function at line %d of %q", got.Line, src)
		}
		if !bytes.HasPrefix(got.Content, []byte(src[:edited.bodyStart])) || !bytes.HasSuffix(got.Content, []byte(src[edited.bodyEnd:])) {
			t.Fatalf("more than the body of %s changed:\n%q\n%q", edited.Path, src, got.Content)
		}
		if len(after) == 0 {
			t.Fatalf("%s is gone: %q", edited.Path, got.Content)
		}
	})
}

// FuzzRename renames in whatever parses; all that changes are the names.
func FuzzRename(f *testing.F) {
	f.Add("a.go", goSource, "F", "G", 0)
	f.Add("a.py", languages[0].src, "x", "y", 6)
	f.Add("a.ts", languages[1].src, "twice", "thrice", 0)
	f.Fuzz(func(t *testing.T, name, src, from, to string, line int) {
		got, err := editor.Rename(t.Context(), name, []byte(src), from, to, line)
		if err != nil {
			return
		}
		if want := len(src) + got.Count*(len(to)-len(from)); len(got.Content) != want {
			t.Fatalf("length = %d, want %d", len(got.Content), want)
		}
		back := bytes.ReplaceAll(got.Content, []byte(to), []byte(from))
		if want := bytes.ReplaceAll([]byte(src), []byte(to), []byte(from)); !bytes.Equal(back, want) {
			t.Fatalf("more than names changed:\n%q\n%q", src, got.Content)
		}
	})
}
