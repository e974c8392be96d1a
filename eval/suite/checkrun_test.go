package suite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// pairs are assertions as data, and as JavaScript.
var pairs = [][2]string{
	{`skills.has: find-skills`, `assert.skills.has(report, "find-skills")`},
	{`{skills.has: nope, minConfidence: strong, message: must load}`,
		`assert.skills.has(report, "nope", { minConfidence: "strong", message: "must load" })`},
	{`skills.notHas: find-skills`, `assert.skills.notHas(report, "find-skills")`},
	{`skills.includes: [find-skills, nope]`, `assert.skills.includes(report, ["find-skills", "nope"])`},
	{`skills.count: [find-skills, 2]`, `assert.skills.count(report, "find-skills", 2)`},
	{`{skills.exactlyOne: nope, minConfidence: explicit}`, `assert.skills.exactlyOne(report, "nope", { minConfidence: "explicit" })`},
	{`skills.only: [nope]`, `assert.skills.only(report, ["nope"])`},
	{`commands.includes: pwd`, `assert.commands.includes(report, "pwd")`},
	{`commands.includes: {regex: "^NPX ", flags: i}`, `assert.commands.includes(report, /^NPX /i)`},
	{`commands.includes: {executable: npm, positionals: [test], options: {-s: true, --w: {regex: a}}}`,
		`assert.commands.includes(report, commandMatcher("npm").arg("test").flag("-s").option("--w", /a/))`},
	{`commands.includes: {executable: git, positionals: [commit], options: {-m: [x, true]}, strict: true}`,
		`assert.commands.includes(report, { executable: "git", positionals: ["commit"], options: { "-m": ["x", true] }, strict: true })`},
	{`commands.includes: {endOfOptions: true}`, `assert.commands.includes(report, commandMatcher().endOfOptions())`},
	{`commands.notIncludes: {regex: ls}`, `assert.commands.notIncludes(report, /ls/)`},
	{`{commands.count: [ls, 7], question: Why?}`, `assert.commands.count(report, "ls", 7, { explain: { question: "Why?" } })`},
	{`commands.atLeast: [ls, 9]`, `assert.commands.atLeast(report, "ls", 9)`},
	{`commands.atMost: [{regex: .}, 0]`, `assert.commands.atMost(report, /./, 0)`},
	{`commands.before: [nope, ls]`, `assert.commands.before(report, "nope", "ls")`},
	{`commands.before: [ls, nope]`, `assert.commands.before(report, "ls", "nope")`},
	{`commands.before: [commit, ls]`, `assert.commands.before(report, "commit", "ls")`},
	{`commands.only: [ls, {regex: git}]`, `assert.commands.only(report, ["ls", /git/])`},
	{`commands.size: 17`, `assert.commands.size(report, 17)`},
	{`commands.exactlyOne: nope`, `assert.commands.exactlyOne(report, "nope")`},
	{`commands.first: {regex: pwd}`, `assert.commands.first(report, /pwd/)`},
	{`commands.last: ls`, `assert.commands.last(report, "ls")`},
	{`fileReads.includes: {regex: "\\.md$"}`, `assert.fileReads.includes(report, /\.md$/)`},
	{`fileReads.atLeast: [SKILL, 5]`, `assert.fileReads.atLeast(report, "SKILL", 5)`},
	{`fileReads.before: [b.txt, SKILL]`, `assert.fileReads.before(report, "b.txt", "SKILL")`},
	{`fileReads.only: [none]`, `assert.fileReads.only(report, ["none"])`},
	{`fileReads.first: b.txt`, `assert.fileReads.first(report, "b.txt")`},
	{`toolCalls.has: nope`, `assert.toolCalls.has(report, { tool: "nope" })`},
	{`toolCalls.count: [bash, 9]`, `assert.toolCalls.count(report, { tool: "bash" }, 9)`},
	{`toolCalls.atLeast: [{regex: ^b}, 9]`, `assert.toolCalls.atLeast(report, { tool: /^b/ }, 9)`},
	{`toolCalls.atMost: [bash, 0]`, `assert.toolCalls.atMost(report, { tool: "bash" }, 0)`},
	{`toolCalls.before: [xread, bash]`, `assert.toolCalls.before(report, { tool: "xread" }, { tool: "bash" })`},
	{`toolCalls.sequence: [bash, bash, bash]`, `assert.toolCalls.sequence(report, [{ tool: "bash" }, { tool: "bash" }, { tool: "bash" }])`},
	{`toolCalls.only: [xread]`, `assert.toolCalls.only(report, [{ tool: "xread" }])`},
	{`toolCalls.has: {tool: bash, args: {command: {regex: "^l"}, n: [1]}}`,
		`assert.toolCalls.has(report, { tool: "bash", where: (args) => args?.command?.startsWith("l") && args.n.length === 1 && args.n[0] === 1 })`},
	{`output.includes: zzz`, `assert.output.includes(report, "zzz")`},
	{`output.notEmpty: true`, `assert.output.notEmpty(report)`},
	{`files.exists: none`, `assert.files.exists(report, "none")`},
	{`files.notExists: README.md`, `assert.files.notExists(report, "README.md")`},
	{`files.contains: [README.md, third]`, `assert.files.contains(report, "README.md", "third")`},
	{`files.contains: [none, x]`, `assert.files.contains(report, "none", "x")`},
	{`files.notContains: [README.md, {regex: "^second$", flags: m}]`, `assert.files.notContains(report, "README.md", /^second$/m)`},
	{`files.equals: [src/a.go, x]`, `assert.files.equals(report, "src/a.go", "x")`},
	{`{files.changed: "src/*.go", kind: modified}`, `assert.files.changed(report, "src/*.go", { kind: "modified" })`},
	{`files.changed: "**/*.go"`, `assert.files.changed(report, "**/*.go")`},
	{`files.changed: "*.go"`, `assert.files.changed(report, "*.go")`},
	{`files.changed: "R?ADME.md"`, `assert.files.changed(report, "R?ADME.md")`},
	{`files.unchanged: {regex: "\\.md$"}`, `assert.files.unchanged(report, /\.md$/)`},
	{`files.onlyChanged: ["./src/"]`, `assert.files.onlyChanged(report, ["./src/"])`},
	{`files.onlyChanged: "**"`, `assert.files.onlyChanged(report, "**")`},
	{`diff.includes: "-package"`, `assert.diff.includes(report, "-package")`},
	{`{diff.notIncludes: {regex: package}, paths: [src]}`, `assert.diff.notIncludes(report, /package/, { paths: ["src"] })`},
	{`diff.empty: true`, `assert.diff.empty(report)`},
	{`diff.notEmpty: true`, `assert.diff.notEmpty(report)`},
	{`budget: {totalTokens: 10, costUsd: 1.5, durationMs: 60, commands: 100}`,
		`assert.budget(report, { totalTokens: 10, costUsd: 1.5, durationMs: 60, commands: 100 })`},
	{`workspace.run: "echo out; exit 3"`, `await assert.workspace.run(report, "echo out; exit 3")`},
	{`workspace.run: {command: [cat], stdin: hi, cwd: src, stdout: {regex: ho}}`,
		`await assert.workspace.run(report, ["cat"], { stdin: "hi", cwd: "src", stdout: /ho/ })`},
	{`workspace.run: {command: exit $N, env: {N: "4"}, exitCode: 4}`,
		`await assert.workspace.run(report, "exit $N", { env: { N: "4" }, exitCode: 4 })`},
	{`judge: is polite`, `await assert.judge(report, "is polite")`},
	{`judge: {rubric: is polite, minScore: 0.5, subject: you}`, `await assert.judge(report, { rubric: "is polite", subject: "you" }, { minScore: 0.5 })`},
	{`{judge: is rude, class: {id: x, label: X}}`, `await assert.classify({ id: "x", label: "X" }, () => assert.judge(report, "is rude"))`},
	{`{output.includes: zzz, soft: true, class: y}`, `assert.classify("y", () => assert.soft.output.includes(report, "zzz"))`},
}

// TestChecksSayWhatAssertionsSay: an assertion that is written as data judges as the same in
// JavaScript, in a case without JavaScript and in one that has some.
func TestChecksSayWhatAssertionsSay(t *testing.T) {
	var data, script strings.Builder
	script.WriteString("import { assert, commandMatcher } from \"skillgym\";\nexport default [\n")
	data.WriteString("cases:\n")
	for i, p := range pairs {
		fmt.Fprintf(&data, "  - id: c%d\n    prompt: p\n    assert:\n      - %s\n", i, p[0])
		fmt.Fprintf(&data, "  - id: m%d\n    prompt: p\n    assert:\n      - js: assert.ok(report)\n      - %s\n", i, p[0])
		fmt.Fprintf(&script, "{ id: \"c%d\", prompt: \"p\", async assert(report) { %s } },\n", i, p[1])
	}
	script.WriteString("];\n")
	inJS, inYAML := load(t, "a.suite.mjs", script.String()), load(t, "a.suite.yaml", data.String())
	tokens := 900.0
	env := &hostEnv{dir: write(t, "README.md", "# Title\nsecond\n", "src/a.go", "package a\n"), diff: "+package a\n",
		usage:   Usage{TotalTokens: &tokens},
		changes: []Change{{"README.md", Modified}, {"src/a.go", Added}},
		judges: func(q Judge) Judgement {
			return Judgement{Score: 0.4, Pass: q.Rubric == "is polite", Reason: "subject: " + q.Subject}
		}}
	// Node adds to the message where the values differ, and places differ.
	told := func(o *Outcome) *Outcome {
		for _, e := range append([]*ErrorInfo{o.Error}, pointers(o.Soft)...) {
			if e != nil {
				e.Message, _, _ = strings.Cut(e.Message, "\n+ actual")
				e.Message, _, _ = strings.Cut(e.Message, "\n\n")
				e.Stack, e.Frame = "", nil
			}
		}
		for i := range o.Questions {
			o.Questions[i].Source = Location{}
		}
		return o
	}
	for i, p := range pairs {
		for j, report := range append(reports[1:], `{}`) {
			want := told(judge(t, inJS, fmt.Sprintf("c%d", i), report, env))
			for _, id := range []string{"c", "m"} {
				got := judge(t, inYAML, fmt.Sprintf("%s%d", id, i), report, env)
				if line := 5 + 9*i; id == "c" && got.Error != nil && (got.Error.Frame == nil || got.Error.Frame.Line != line) {
					t.Errorf("%s: frame %+v, want line %d", p[0], got.Error.Frame, line)
				}
				if diff := cmp.Diff(want, told(got), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, report %d, case %s (-JavaScript +data):\n%s", p[0], j, id, diff)
				}
			}
		}
	}
}

// TestChecksNeedNoNode: a suite in YAML without JavaScript loads and judges without Node, and
// collects soft failures.
func TestChecksNeedNoNode(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := load(t, "a.suite.yaml", `cases:
  - id: a
    prompt: p
    assert:
      - output.includes: one
        soft: true
      - files.exists: x
      - output.includes: not reached
`)
	out := judge(t, s, "a", `{}`, nil)
	want := "2 assertion failures collected during case execution:\n" +
		"1. Expected final output to include a value matching \"one\". Observed final output: \n" +
		"2. Error: suite: look at the workspace: unsupported: this execution has no workspace to look at"
	if out.Passed || out.Error.Message != want || out.Origin != OriginAssertion || len(out.Soft) != 1 {
		t.Errorf("%+v: %+v, want\n%s", out, out.Error, want)
	}
	if class, err := s.Classify(t.Context(), "a", []byte(`{}`), EnvInfo{}); class != nil || err != nil {
		t.Errorf("class %v, %v, want none", class, err)
	}
}
