package suite

import (
	"strings"
	"testing"
)

// FuzzYAML: no text makes the reader of suites panic, and what it accepts bundles
// unless a script in it is wrong.
func FuzzYAML(f *testing.F) {
	f.Add(yamlExample)
	f.Add("cases:\n  a: {prompt: p, assert: [{js: 'x()', soft: true}]}\n")
	f.Add("cases:\n  - id: a\n    prompt: p\n    assert: >-\n      assert.ok(1)\n")
	f.Add("run: {}\nrunners: {a: {agent: {type: codex, model: m}}}\n")
	f.Add("{{[\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := parseYAML([]byte(text))
		if err != nil {
			return
		}
		_, module, bad, _ := doc.readSuite("a.yaml")
		if bad != nil {
			if bad.message == "" {
				t.Error("an error without words")
			}
		} else if !strings.Contains(module, "export default [") {
			t.Errorf("no suite in %q", module)
		}
		if _, bad := parseConfig(doc.value); bad != nil && bad.message == "" {
			t.Error("an error without words")
		}
	})
}

// FuzzCommand: what is taken apart has every word once, and no quotes are needed to
// read it again.
func FuzzCommand(f *testing.F) {
	for _, line := range []string{"ls -la", `bash -lc 'npm test -s --w=a -p80 -- x'`, `git commit -m "a b" -abc`, "env sh -c \"echo \\\"q\\\"\"", "'unclosed", `a\`, "x -- --y - -z", "\u00a0ü -é1"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		tokens := tokenize(line)
		for _, token := range tokens {
			if token == "" {
				t.Errorf("%q has an empty word", line)
			}
		}
		quoted := make([]string, len(tokens))
		for i, token := range tokens {
			quoted[i] = "'" + strings.ReplaceAll(token, "'", `'\''`) + "'"
		}
		again := tokenize(strings.Join(quoted, " "))
		if strings.Join(again, "\x00") != strings.Join(tokens, "\x00") {
			t.Errorf("%q: %q read again is %q", line, tokens, again)
		}
		p := parseCommand(line)
		n := len(p.Positionals)
		for _, o := range p.Options {
			n += len(o.Values)
		}
		if p.Executable == "" && n > 0 {
			t.Errorf("%q: %+v", line, p)
		}
	})
}
