package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/testenv"
)

// calls are assertions, each an expression that is asked of each of the reports by
// skillgym in Node and by ours.
var calls = []string{
	`assert.skills.has(report, "find-skills")`,
	`assert.skills.has(report, "nope", { minConfidence: "strong", message: "must load" })`,
	`assert.skills.notHas(report, "find-skills")`,
	`assert.skills.includes(report, ["find-skills", "nope"])`,
	`assert.skills.count(report, "find-skills", 2)`,
	`assert.skills.exactlyOne(report, "nope", { minConfidence: "explicit" })`,
	`assert.skills.only(report, ["nope"])`,
	`assert.skills.only(report, [])`,
	`assert.commands.includes(report, "pwd")`,
	`assert.commands.includes(report, /^npx /)`,
	`assert.commands.includes(report, commandMatcher("npm").arg("test").flag("-s").option("--w", /a/))`,
	`assert.commands.includes(report, { executable: "git", positionals: ["commit"], options: { "-m": "x" }, strict: true })`,
	`assert.commands.includes(report, commandMatcher().endOfOptions())`,
	`assert.commands.includes(report, {})`,
	`assert.commands.notIncludes(report, /ls/)`,
	`assert.commands.count(report, "ls", 7, { message: "seven" })`,
	`assert.commands.atLeast(report, "ls", 9)`,
	`assert.commands.atMost(report, /./, 0)`,
	`assert.commands.before(report, "nope", "ls")`,
	`assert.commands.before(report, "ls", "nope")`,
	`assert.commands.before(report, "commit", "ls")`,
	`assert.commands.only(report, ["ls", /git/])`,
	`assert.commands.only(report, [])`,
	`assert.commands.size(report, 17)`,
	`assert.commands.exactlyOne(report, "nope")`,
	`assert.commands.first(report, /pwd/)`,
	`assert.commands.last(report, "pwd")`,
	`assert.fileReads.includes(report, "nope")`,
	`assert.fileReads.notIncludes(report, /SKILL\.md$/)`,
	`assert.fileReads.count(report, "a", 9)`,
	`assert.fileReads.atLeast(report, "a", 9)`,
	`assert.fileReads.atMost(report, "/", 0)`,
	`assert.fileReads.before(report, "b.txt", "a/SKILL.md")`,
	`assert.fileReads.only(report, ["SKILL"])`,
	`assert.fileReads.size(report, 9)`,
	`assert.fileReads.exactlyOne(report, "nope")`,
	`assert.fileReads.first(report, "nope")`,
	`assert.fileReads.last(report, "nope")`,
	`assert.toolCalls.has(report, { tool: "nope" })`,
	`assert.toolCalls.has(report, { tool: /x/, where: (args) => args?.path === "q" })`,
	`assert.toolCalls.has(report, {})`,
	`assert.toolCalls.count(report, { tool: "bash" }, 5)`,
	`assert.toolCalls.atLeast(report, { where: () => false }, 1)`,
	`assert.toolCalls.atMost(report, { tool: "bash" }, 0)`,
	`assert.toolCalls.before(report, { tool: "read" }, { tool: "bash" })`,
	`assert.toolCalls.sequence(report, [{ tool: "bash" }, { tool: "bash" }, { tool: "read" }])`,
	`assert.toolCalls.only(report, [{ tool: "bash" }])`,
	`assert.output.includes(report, /never/i, { message: "say it" })`,
	`assert.output.notEmpty(report)`,
	`assert.classify({ id: "x", label: "X" }, () => assert.fail("no"))`,
	`assert.equal(1, 2)`, `assert.equal("a", "b", "custom")`, `assert.notEqual(1, 1)`, `assert.strictEqual("hello", "world")`,
	`assert.match("abc", /x/)`, `assert.doesNotMatch("abc", /b/)`, `assert.match("abc", /x/, "custom")`,
	`assert.throws(() => {})`, `assert.throws(() => { throw new Error("x") }, /y/)`, `assert.throws(() => { throw new TypeError("x") }, RangeError)`,
	`assert.doesNotThrow(() => { throw new Error("x") })`, `assert.fail()`, `assert.fail("why")`, `assert.ifError(new Error("e"))`, `assert.ifError(null)`,
	`assert.ok(report.finalOutput === 17)`, `assert(false, "message")`, `assert.ok(0)`,
	`assert.deepEqual({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] })`, `assert.deepEqual([1, 2, 3], [1, 2, 3])`, `assert.deepStrictEqual(new Map([[1, { a: 2 }]]), new Map([[1, { a: 2 }]]))`,
	`assert.notDeepEqual({ a: 1 }, { a: 1 })`, `assert.deepEqual(new Set([1]), new Set([2]))`,
	`await assert.rejects(Promise.resolve(1))`, `await assert.rejects(Promise.reject(new Error("z")), /z/)`, `await assert.doesNotReject(Promise.reject(new Error("z")))`,
	`(() => { throw new RangeError("crash") })()`,
	`assert.strictEqual("hello world", "hello there")`, `assert.strictEqual({ a: 1 }, { a: 1 })`, `assert.deepEqual({ a: { b: { c: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] } } }, { a: { b: { c: [1, 2, 3, 4, 5, 6, 7, 8, 9, 11] } } }, "msg")`,
	`assert.equal("a\nb\nc", "a\nb\nd")`, `assert.deepEqual([1], ["1"])`, `assert.deepEqual({ a: undefined }, {})`, `assert.notStrictEqual("longer text", "longer text")`,
}

var reports = []string{
	`{"runner":{"id":"r","pathKey":"r--1","agent":{"type":"codex","model":"m"}},"prompt":"p","usage":{},"files":{"observedReads":[],"observedSkillReads":[]},"detectedSkills":[],"events":[],"finalOutput":"","rawArtifacts":{}}`,
	`{"prompt":"p","usage":{},"files":{"observedReads":["/w/b.txt"],"observedSkillReads":[]},"detectedSkills":[{"skill":"find-skills","confidence":"strong","evidence":[]},{"skill":"b","confidence":"explicit","evidence":[]}],
	"events":[{"type":"message","role":"user","text":"x"},{"type":"command","command":"ls -la"},{"type":"command","command":"bash -lc 'npm test -s --w=a -p80 -- x'"},{"type":"command","command":"git commit -m \"a b\" -abc"},{"type":"command","command":""},
	{"type":"command","command":"  "},{"type":"command","command":"env sh -c \"echo \\\"q\\\" \\\\x 'lit'\" tail"},{"type":"command","command":"npm --w apple test -s ünï 'unclosed"},{"type":"command","command":"x -- --y - -z"},
	{"type":"fileRead","path":"/w/a/SKILL.md"},{"type":"fileRead","path":"/w/b.txt"},{"type":"toolCall","tool":"bash","args":{"command":"ls","n":[1]}},{"type":"toolCall","tool":"bash"},{"type":"toolCall","tool":"xread","args":"s"}],"finalOutput":"done it"}`,
}

// An answer is what an assertion throws: nothing, or an error.
type answer struct {
	Call      string
	Passed    bool
	Name      string
	Message   string
	Class     any
	Questions []string
}

// compared is a module that asks every call of every report.
func compared() string {
	var b strings.Builder
	b.WriteString("export const calls = [\n")
	for _, c := range calls {
		fmt.Fprintf(&b, "  [%q, async (report) => { %s }],\n", c, c)
	}
	b.WriteString(`];
export async function ask(report) {
  const out = [];
  for (const [call, run] of calls) {
    try { await run(report); out.push({ call, passed: true }); } catch (e) {
      out.push({ call, passed: false, name: e.name, message: e.message, class: e[Symbol.for("skillgym.failureClass")],
        questions: (e[Symbol.for("skillgym.explainQuestions")] ?? []).map((q) => q.question) });
    }
  }
  return out;
}
`)
	return "import { assert, commandMatcher } from \"skillgym\";\n" + b.String()
}

// TestAssertionsAnswerAsSkillgym asks skillgym itself, in Node, and ours the same.
func TestAssertionsAnswerAsSkillgym(t *testing.T) {
	node := testenv.NeedsProgram(t, "node")
	modules := filepath.Dir(filepath.Dir(testenv.NeedsAgent(t, "skillgym")))
	dir := write(t,
		"compared.mjs", compared(),
		"ask.mjs", `import { ask } from "./compared.mjs"; import { readFileSync } from "node:fs";
console.log(JSON.stringify(await ask(JSON.parse(readFileSync(process.argv[2], "utf8")))));`,
		"ours.suite.mjs", `import { ask } from "./compared.mjs";
export default [{ id: "c", prompt: "p", async assert(report) { console.log(JSON.stringify(await ask(report))); } }];`)
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	s, err := Load(t.Context(), filepath.Join(dir, "ours.suite.mjs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, report := range reports {
		path := filepath.Join(dir, fmt.Sprintf("report%d.json", i))
		if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), node, filepath.Join(dir, "ask.mjs"), path).Output()
		if err != nil {
			t.Fatalf("node: %v", err)
		}
		var want, got []answer
		if err := json.Unmarshal(out, &want); err != nil {
			t.Fatal(err)
		}
		mine := judge(t, s, "c", report, nil)
		if !mine.Passed || len(mine.Logs) != 1 {
			t.Fatalf("outcome = %+v", mine.Error)
		}
		if err := json.Unmarshal([]byte(mine.Logs[0].Text), &got); err != nil {
			t.Fatal(err)
		}
		for j := range want {
			if diff := cmp.Diff(want[j], got[j]); diff != "" {
				t.Errorf("report %d: %s (-skillgym +ours):\n%s", i, calls[j], diff)
			}
		}
		t.Logf("report %d: %d assertions, asked of skillgym and of ours", i, len(want))
	}
}
