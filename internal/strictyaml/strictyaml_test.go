package strictyaml

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func steps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "-\n")
	}
	return b.String()
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v\n", i)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for name, text := range map[string]string{
		"a file":              "version: 1\nfiles:\n - target: a\n   content: \"{[\"\n",
		"brackets in a text":  "script: |\n" + strings.Repeat("  echo [ { \\033[1m\n", 200),
		"a long list":         strings.Repeat("- {a: [1]}\n", 20_000),
		"a list of mappings":  strings.Repeat("- a: 1\n  b: 2\n", MaxKeys+1),
		"lists below keys":    "a:\n- b:\n  - c\n- d\ne:\n- f\n",
		"as deep as may be":   strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
		"wide in one line":    "{" + strings.Join(strings.Fields(strings.ReplaceAll(keys(MaxKeys+1), ": v", ":0,")), " ") + "}",
		"a directive":         "%YAML 1.2\n---\na: 1\n",
		"a star within":       "a: 2*3 & !x\n",
		"quoted marks":        "a: '*x'\nb: \"&y\"\n",
		"keys that are equal": "a: {b: 1}\nc: {b: 1}\n",
	} {
		if _, err := Parse([]byte(text), 1<<20); err != nil {
			t.Errorf("%s: %v, want that it is read", name, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		text, want string
		line       int
	}{
		"nothing":             {"", "the file is empty", 0},
		"comments":            {"# a\n", "the file is empty", 0},
		"large":               {strings.Repeat("#\n", 1<<20), "at most 1048576 are read", 0},
		"brackets":            {"a: 1\nfiles: " + strings.Repeat("[", 100_000), "nested more than 64 deep", 2},
		"two kinds":           {strings.Repeat("{a: [", MaxDepth/2) + "[", "nested more than 64 deep", 1},
		"brackets over lines": {strings.Repeat("[\n", MaxDepth+1), "nested more than 64 deep", MaxDepth + 1},
		"dashes":              {strings.Repeat("- ", MaxDepth+1), "nested more than 64 deep", 1},
		"steps":               {steps(MaxDepth + 10), "nested more than 64 deep", MaxDepth + 1},
		"block and flow":      {steps(MaxDepth-1) + strings.Repeat(" ", MaxDepth) + "[[", "nested more than 64 deep", MaxDepth},
		"wide":                {keys(MaxKeys + 1), "more than 10000 keys", MaxKeys + 1},
		"wide below":          {"a:\n - " + strings.ReplaceAll(keys(MaxKeys+1), "\n", "\n   "), "more than 10000 keys", MaxKeys + 2},
		"anchor":              {"a: 1\nb: &x []\n", "an anchor (&) is not allowed", 2},
		"alias":               {"a: *x\n", "an alias (*) is not allowed", 1},
		"tag":                 {"a: !!int 1\n", "a tag (!) is not allowed", 1},
		"merge key":           {"a:\n  <<: {}\n", "a merge key (<<) is not allowed", 2},
		"mark of a key":       {"? a\n: b\n", "a mark of a key (?) is not allowed", 1},
		"second document":     {"a: 1\n---\nb: 1\n", "there is a second document", 3},
		"syntax":              {"a: 1\nb: [\n", "not valid YAML: ", 2},
		"key twice":           {"a: 1\nb: 1\na: 1\n", `key "a" already defined at [1:1]`, 3},
		"key twice in a line": {"x: {a: 1, a: 1}\n", `key "a" already defined`, 1},
		"key twice, quoted":   {"a: 1\n\"a\": 1\n", `key "a" already defined`, 2},
	} {
		_, err := Parse([]byte(tt.text), 1<<20)
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(bad.Text, tt.want) || bad.At.Line != tt.line {
			t.Errorf("%s: %v, want %q in line %d", name, err, tt.want, tt.line)
		}
	}
}

func TestCheckBounds(t *testing.T) {
	if err := CheckBounds([]byte("a: &x {b: !!int 1}\nc: {<<: *x}\n? d\n")); err != nil {
		t.Errorf("anchors and the like: %v", err)
	}
	if err := CheckBounds([]byte(strings.Repeat("? ", 1000))); err == nil || !strings.Contains(err.Error(), "line 1: it is nested") {
		t.Errorf("deep: %v", err)
	}
}

// FuzzParse: any text is read or refused with words, and what is read can be walked.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a: 1\nb: [x, {y: z}]\n", "- - a: |\n    x\n", "? a\n: b", "{[", "a: &x\n", "%YAML 1.2\n---\na\n...\n", "a: 'x\n\n  y'\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Parse(data, 1<<16)
		var bad *Error
		if err != nil && (!errors.As(err, &bad) || bad.Text == "") {
			t.Errorf("error %#v, want an *Error with words", err)
		}
		if err == nil && n == nil {
			t.Error("neither a document nor an error")
		}
	})
}
