package suite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const yamlExample = `workspace:
  mode: isolated
  templateDir: ./template
cases:
  - id: data
    prompt: do it
    tags: [a, b]
    timeoutMs: 5000
    assert:
      - output.includes: ready
      - commands.includes: {executable: npm, positionals: [test], options: {--silent: true}}
        message: tests must run
      - toolCalls.has: {tool: bash, args: {command: {regex: "^npm"}}}
        soft: true
      - commands.before: {first: npm, second: {regex: "git (commit|push)"}}
  - id: script
    prompt: |
      do that
    expectedFail: true
    classifyFailure: 'return result.status === "failed" ? "odd" : undefined'
    assert: |
      const n: number = report.n;
      if (n > 1) {
        assert.equal(n, 3);
      }
`

func TestYAMLSuite(t *testing.T) {
	s := load(t, "a.suite.yaml", yamlExample)
	want := []Case{
		{ID: "data", Prompt: "do it", Tags: []string{"a", "b"}, Timeout: 5e9},
		{ID: "script", Prompt: "do that\n", ExpectedFail: true, HasClassify: true},
	}
	if diff := cmp.Diff(want, s.Cases); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
	if s.Workspace == nil || s.Workspace.TemplateDir != s.Dir+"/template" {
		t.Errorf("workspace = %+v, want its template resolved from %s", s.Workspace, s.Dir)
	}
	report := `{"finalOutput":"ready","events":[{"type":"command","command":"npm --silent test"},{"type":"command","command":"git push"},
		{"type":"toolCall","tool":"bash","args":{"command":"npm test","x":1}}]}`
	// A word after an option is taken for its value: --silent test.
	out := judge(t, s, "data", report, nil)
	if out.Passed || !strings.HasPrefix(out.Error.Message, "tests must run. Expected commands to include a value matching command matcher (") {
		t.Fatalf("outcome = %+v %+v, want the second assertion to fail", out, out.Error)
	}
	if f := out.Error.Frame; f == nil || f.File != s.Path || f.Line != 11 || f.Column != 9 {
		t.Errorf("frame = %+v, want line 11, column 9 of %s", f, s.Path)
	}
	if len(out.Questions) != 1 || out.Questions[0].Source.Line != "11" {
		t.Errorf("questions = %+v, want one of line 11", out.Questions)
	}
	out = judge(t, s, "data", strings.Replace(report, "--silent test", "test --silent", 1), nil)
	if !out.Passed {
		t.Errorf("outcome = %+v, want passed", out.Error)
	}
	out = judge(t, s, "script", `{"n":2}`, nil)
	if out.Passed || out.Error.Frame == nil || out.Error.Frame.Line != 24 || out.Error.Frame.Column != 16 {
		t.Errorf("outcome = %+v %+v, want a failure at 24:16", out, out.Error)
	}
	class, err := s.Classify(t.Context(), "script", []byte(`{"status":"failed"}`), EnvInfo{})
	if err != nil || class == nil || class.ID != "odd" {
		t.Errorf("Classify = %+v, %v, want odd", class, err)
	}
}

func TestYAMLErrorsNameThePlace(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"unknown key", "cases:\n  - id: a\n    promt: x\n", `:3:12: invalid argument: Unknown suite key: cases[0].promt`},
		{"unknown assertion", "cases:\n  - id: a\n    prompt: x\n    assert:\n      - output.include: x\n", `:5:25: invalid argument: Unknown assertion or option: output.include; did you mean output.includes?`},
		{"unknown member", "cases:\n  - {id: a, prompt: x, assert: [output.matches: x]}\n", `Unknown assertion or option: output.matches (there are output.includes, output.notEmpty)`},
		{"unknown group", "cases:\n  - {id: a, prompt: x, assert: [nonsense: x]}\n", `Unknown assertion or option: nonsense (assertions: budget, commands.atLeast`},
		{"expression", "cases:\n  - id: a\n    prompt: x\n    assert:\n      - output.includes: {regex: '('}\n", "a.suite.yaml:5:"},
		{"expression below", "cases:\n  - id: a\n    prompt: x\n    assert:\n      - toolCalls.has: {tool: x, args: {a: {regex: '['}}}\n", "a.suite.yaml:5:"},
		{"no assertion", "cases:\n  - id: a\n    prompt: x\n", "Invalid suite at cases[0].assert: expected a list of assertions"},
		{"two assertions", "cases:\n  - id: a\n    prompt: x\n    assert:\n      - output.includes: x\n        output.notEmpty: true\n", "expected one assertion in each entry"},
		{"no cases", "cases: []\n", "expected at least one case"},
		{"mode", "workspace: {mode: banana}\ncases:\n  - {id: a, prompt: x, assert: [output.notEmpty: true]}\n", `Invalid suite config at workspace.mode: expected "none", "shared", or "isolated"`},
		{"script", "cases:\n  - id: a\n    prompt: x\n    assert: |\n      const x = ;\n", "a.suite.yaml:5:17: invalid argument: Unexpected \";\""},
		{"twice", "cases:\n  - {id: a, prompt: x, assert: [output.notEmpty: true]}\n  - {id: a, prompt: x, assert: [output.notEmpty: true]}\n", "Duplicate case id: a"},
		{"syntax", "cases:\n  - id: [\n", "not valid YAML"},
		{"anchor", "cases: &x []\n", "not allowed"},
		{"flags", "cases:\n  - {id: a, prompt: x, assert: [output.includes: {regex: x, flags: g}]}\n", "expected letters of i, m, s and u"},
		{"script in expression", "cases:\n  - {id: a, prompt: x, assert: [js: 'assert.equal(1, 2']}\n", ":2:54: invalid argument: Expected \")\" but found the end of the script"},
		{"bracket missing", "cases:\n  - id: a\n    prompt: x\n    assert: |\n      assert.ok((1)\n", "a.suite.yaml:5:20: invalid argument: Expected \")\" but found the end of the script"},
		{"brace missing", "cases:\n  - id: a\n    prompt: x\n    assert: |\n      if (1) {\n  - {id: b, prompt: x, assert: [output.notEmpty: true]}\n", "a.suite.yaml:5:15: invalid argument: "},
		{"brace twice", "cases:\n  - id: a\n    prompt: x\n    assert: |\n      assert.ok(1); }\n", "a.suite.yaml:5:"},
		{"class", "cases:\n  - id: a\n    prompt: x\n    assert: [output.notEmpty: true]\n    classifyFailure: |\n      return (1\n", "a.suite.yaml:6:16: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := tryLoad(t, "a.suite.yaml", test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v\nwant it to contain %q", err, test.want)
			}
		})
	}
}
