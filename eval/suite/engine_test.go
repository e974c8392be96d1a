package suite

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
)

// TestWhatSuitesDo: files, commands, soft failures, logs, an exit and errors that no caller
// catches.
func TestWhatSuitesDo(t *testing.T) {
	testenv.NeedsProgram(t, "node")
	t.Setenv("CROFT_TEST_VALUE", "v")
	workspace := write(t, "made.txt", "by the agent", "d/e.txt", "x")
	tests := []struct{ body, want, logs string }{
		{`assert.files.exists(report, "made.txt"); assert.files.equals(report, "made.txt", "other")`,
			"assertion: AssertionError: Expected file \"made.txt\" to equal \"other\". Observed content: \"by the agent\"", ""},
		{`assert.soft.equal(1, 2); assert.soft.output.includes(report, "zzz"); assert.equal(3, 4)`,
			"assertion: AssertionError: 3 assertion failures collected during case execution:\n1. Expected values to be strictly equal:\n\n1 !== 2\n\n2. Expected final output to include a value matching \"zzz\". Observed final output: done\n3. Expected values to be strictly equal:\n\n3 !== 4\n", ""},
		{`setTimeout(() => { throw new Error("late") }, 5)`, "assert-hook: Error: late", ""},
		{`setTimeout(() => setTimeout(() => { throw new Error("later") }, 1), 1); assert.soft.ok(false, "soft one")`,
			"assertion: AssertionError: 2 assertion failures collected during case execution:\n1. soft one\n2. Error: later", ""},
		{`setTimeout(() => { throw new Error("never") }, 60000)`, "", ""},
		{`assert.soft.ok(false, "soft one"); throw new Error("boom")`,
			"assertion: AssertionError: 2 assertion failures collected during case execution:\n1. soft one\n2. Error: boom", ""},
		{`assert.soft.ok(false, "soft one"); throw "a text"`, "assertion: AssertionError: 2 assertion failures collected during case execution:\n1. soft one\n2. a text", ""},
		{`assert.soft.ok(false, "soft one"); throw null`, "assertion: AssertionError: 2 assertion failures collected during case execution:\n1. soft one\n2. null", ""},
		{`console.log("a %d", 1, { b: [1, 2] }); console.error(new Map([[1, 2]])); process.stdout.write("out\n"); console.dir({ a: 1 })`, "",
			"log: a 1 { b: [ 1, 2 ] }\nerror: Map(1) { 1 => 2 }\nlog: out\nlog: { a: 1 }\n"},
		{`process.exit(3)`, "assert-hook: Error: the suite called process.exit(3)", ""},
		{`const text = await readFile(path.join(report.workspace, "made.txt"), "utf8"); assert.equal(text, "x")`,
			"assertion: AssertionError: Expected values to be strictly equal:", ""},
		{`fs.readFileSync("/etc/passwd")`, "assert-hook: SandboxViolation: E_SANDBOX_VIOLATION: a suite may use only files below its directory, its configuration's and its run's, open '/etc/passwd'", ""},
		{`fs.readFileSync(path.join(report.workspace, "none"))`, "assert-hook: Error: ENOENT: no such file or directory, open 'WS/none'", ""},
		{`fs.writeFileSync(path.join(os.tmpdir(), "a"), Buffer.from([1, 2])); console.log(fs.readFileSync(path.join(os.tmpdir(), "a")), fs.existsSync(path.join(os.tmpdir(), "b")))`, "", "log: <Buffer 01 02> false\n"},
		{`console.log(await readdir(report.workspace, { recursive: true }), fs.statSync(report.workspace).isDirectory())`, "",
			"log: [ 'd', 'd/e.txt', 'made.txt' ] true\n"},
		{`fs.readdirSync(report.workspace, { withFileTypes: true }).forEach((e) => console.log(e.name, e.isFile(), e.parentPath === report.workspace))`, "", "log: d false true\nlog: made.txt true true\n"},
		{`fs.writeFileSync(7.5, "x")`, "assert-hook: TypeError: The \"path\" argument must be of type string or an instance of Buffer or URL. Received type number (7.5)", ""},
		{`fs.writeFileSync(path.join(os.tmpdir(), "n"), 7)`, "assert-hook: TypeError: The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object. Received type number (7)", ""},
		{`await assert.workspace.run(report, "echo hi; exit 3", { exitCode: 0 })`,
			"assertion: AssertionError: Expected command \"echo hi; exit 3\" to exit with 0. Observed: exit 3, stdout \"hi\\n\", stderr \"\"", ""},
		{`assert.workspace.run(report, "exit 4")`, "assertion: AssertionError: Expected command \"exit 4\" to exit with 0. Observed: exit 4, stdout \"\", stderr \"\"", ""},
		{`Promise.reject(new Error("no one catches"))`, "assert-hook: Error: no one catches", ""},
		{`await new Promise(() => {})`, "assert-hook: Error: it waits for a promise that nothing will settle", ""},
		{`throw { not: "an error" }`, "assert-hook: Error: { not: 'an error' }", ""},
		{`assert.classify({ id: "x", label: "X" }, () => assert.fail("no"))`, "assertion: AssertionError: no", ""},
		{`console.log(process.env.CROFT_TEST_VALUE, process.cwd() === report.cwd, new URL("./bin/", import.meta.url).pathname.endsWith("/bin/"), os.tmpdir() === process.env.TMPDIR)`, "", "log: v true true true\n"},
		{`await assert.rejects(async () => { throw new RangeError("r") }, { name: "RangeError", message: "q" })`,
			"assertion: AssertionError: Expected values to be strictly deep-equal:", ""},
		{`const f = () => f() + 1; f()`, "assert-hook: RangeError: Maximum call stack size exceeded", ""},
		{`nothing.at.all`, "assert-hook: ReferenceError: nothing is not defined", ""},
		{`assert.ok(1 > 2)`, "assertion: AssertionError: The expression evaluated to a falsy value:\n\n  assert.ok(1 > 2)\n", ""},
		{`assert(1 > 2)`, "assertion: AssertionError: The expression evaluated to a falsy value:\n\n  assert(1 > 2)\n", ""},
		{`console.log(require("node:net").isIP("::1"))`, "", "log: 6\n"},
		{`console.log(execFileSync("echo", ["hi"]).toString(), (1234.5).toLocaleString("de-DE"), /^[\p{L}--[a-c]]$/v.test("d"))`, "",
			"log: hi\n 1.234,5 true\n"},
	}
	var b strings.Builder
	b.WriteString(`import { assert } from "skillgym"; import fs from "node:fs"; import { readFile, readdir } from "node:fs/promises";
import path from "node:path"; import os from "node:os"; import { execFileSync } from "child_process";
export default [
`)
	for i, test := range tests {
		fmt.Fprintf(&b, "  { id: \"c%d\", prompt: \"p\", async assert(report) {\n    %s;\n  } },\n", i, test.body)
	}
	b.WriteString("];\n")
	s := load(t, "a.suite.mjs", b.String())
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	report := fmt.Sprintf(`{"workspace":%q,"finalOutput":"done","cwd":%q}`, workspace, cwd)
	for i, test := range tests {
		out := judge(t, s, fmt.Sprintf("c%d", i), report, &hostEnv{dir: workspace})
		got, logs := "", ""
		if out.Error != nil {
			got = out.Origin + ": " + out.Error.Name + ": " + strings.ReplaceAll(out.Error.Message, workspace, "WS")
			got, _, _ = strings.Cut(got, "\n+ actual") // Node's own words
		}
		for _, l := range out.Logs {
			logs += l.Level + ": " + l.Text + "\n"
		}
		if got != test.want || logs != test.logs {
			t.Errorf("%s\n got %q\nwant %q\nlogs %q\nwant %q", test.body, got, test.want, logs, test.logs)
		}
	}
}

// TestAMissingNode names what needs it, and how to get one. A suite in YAML needs none.
func TestAMissingNode(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := tryLoad(t, "a.ts", `export default [{ id: "a", prompt: "p", assert() {} }];`)
	if fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "Install Node 20 or newer") {
		t.Errorf("error = %v, want not found with a hint", err)
	}
}

// TestALogThatFillsThePipe: a pipe that something made non-blocking takes a long line, too.
func TestALogThatFillsThePipe(t *testing.T) {
	s := load(t, "a.mjs", `import net from "node:net";
export default [{ id: "c", prompt: "p", assert() { new net.Socket({ fd: 1,
	readable: false }).unref(); for (let i = 0; i < 10; i++) console.log("x".repeat(1e5)); } }];`)
	if out := judge(t, s, "c", `{}`, nil); !out.Passed || len(out.Logs) != 10 || len(out.Logs[9].Text) != 1e5 {
		t.Errorf("%+v with %d logs, want passed with 10", out.Error, len(out.Logs))
	}
}
