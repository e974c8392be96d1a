package suite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

// In the package that skillgym ships, soft assertions throw at once, because its CLI
// and its library keep two collections. Ours are collected.
func TestSoftAssertionsAreSoft(t *testing.T) {
	s := load(t, "a.ts", body(`
  assert.soft.equal(1, 2, "one");
  assert.soft.commands.includes(report, "pwd");
  await Promise.resolve();
  assert.soft.ok(false, "three");
  if (report.hard) assert.fail("hard");
  if (report.crash) throw new Error("crash");`))
	out := judge(t, s, "c", `{}`, nil)
	want := "3 assertion failures collected during case execution:\n1. one\n\n1 !== 2\n\n2. Expected commands to include a value matching \"pwd\". Observed commands: (none)\n3. three"
	if out.Passed || out.Origin != OriginAssertion || out.Error.Message != want {
		t.Errorf("message\n got %q\nwant %q", out.Error.Message, want)
	}
	if len(out.Soft) != 3 || out.Soft[2].Frame == nil || out.Soft[2].Frame.Line != 7 {
		t.Errorf("soft = %+v, want three with their places", out.Soft)
	}
	if len(out.Questions) != 1 {
		t.Errorf("questions = %+v, want that of the second", out.Questions)
	}
	if !strings.Contains(out.Error.Stack, "\n\nAssertion 3\nAssertionError [ERR_ASSERTION]: three\n    at ") {
		t.Errorf("stack = %s", out.Error.Stack)
	}
	if out := judge(t, s, "c", `{"hard":true}`, nil); !strings.HasPrefix(out.Error.Message, "4 assertion failures") || !strings.HasSuffix(out.Error.Message, "\n4. hard") {
		t.Errorf("a later hard failure: %q, want it to be the fourth", out.Error.Message)
	}
	if out := judge(t, s, "c", `{"crash":true}`, nil); !strings.HasPrefix(out.Error.Message, "4 assertion failures") || !strings.HasSuffix(out.Error.Message, "\n4. Error: crash") || out.Origin != OriginAssertion {
		t.Errorf("a later crash: %q of %s, want it to be the fourth", out.Error.Message, out.Origin)
	}
}

// skillgym can't load TypeScript below a package.json that npm init writes, nor enums,
// imports without an extension, JSX, or the paths of a tsconfig.
func TestTypeScriptUnderCommonJS(t *testing.T) {
	s := load(t, "evals/a.suite.ts", `
import { Kind } from "./kinds";
import { shout } from "@lib/shout";
import data from "./data.json";
import type { Case } from "skillgym";
import path from "node:path";
import { fileURLToPath } from "node:url";
const here = path.dirname(fileURLToPath(import.meta.url));
const suite: Record<string, Case> = { one: { id: shout(Kind.One), prompt: data.prompt, tags: [path.basename(here)], assert() {} } };
export default suite satisfies Record<string, Case>;
`, "package.json", `{"type":"commonjs"}`, "evals/kinds.ts", `export enum Kind { One = "one" }`, "evals/data.json", `{"prompt":"from json"}`,
		"lib/shout.tsx", `export const shout = (s: string): string => s.toUpperCase();`,
		"tsconfig.json", `{"compilerOptions":{"baseUrl":".","paths":{"@lib/*":["./lib/*"]}}}`)
	want := []Case{{ID: "ONE", Prompt: "from json", Tags: []string{"evals"}}}
	if diff := cmp.Diff(want, s.Cases); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
	cjs := load(t, "a.suite.cjs", `const { assert } = require("skillgym"); module.exports = [{ id: __filename.split("/").pop(), prompt: "p", assert() { assert.ok(true) } }]`)
	if cjs.Cases[0].ID != "a.suite.cjs" || !judge(t, cjs, "a.suite.cjs", `{}`, nil).Passed {
		t.Errorf("commonjs: %+v", cjs.Cases)
	}
	await := load(t, "a.suite.mts", `const { id } = await import("./id.ts"); export default [{ id, prompt: "p", assert() {} }]`, "id.ts", `export const id = "later"`)
	if await.Cases[0].ID != "later" {
		t.Errorf("top-level await: %+v", await.Cases)
	}
}

// skillgym accepts most of these, and runs the agents before it finds out.
func TestSuitesAreChecked(t *testing.T) {
	const ok = `export default [{ id: "a", prompt: "p", assert() {} }];`
	for _, test := range []struct{ name, text, want string }{
		{"mode", `export const workspace = { mode: "banana" };` + ok, `Invalid suite config at workspace.mode: expected "none", "shared", or "isolated"`},
		{"workspace key", `export const workspace = { mode: "isolated", template: "x" };` + ok, `Unknown suite config key: workspace.template`},
		{"bootstrap key", `export const workspace = { mode: "isolated", bootstrap: { command: "sh", argv: [] } };` + ok, `Unknown suite config key: workspace.bootstrap.argv`},
		{"isolated cwd", `export const workspace = { mode: "isolated", cwd: "x" };` + ok, `Invalid suite config at workspace.cwd: expected this key to be omitted when workspace mode is "isolated"`},
		{"none with a template", `export const workspace = { mode: "none", templateDir: "x" };` + ok, `Invalid suite config at workspace.templateDir: expected this key to be omitted when workspace mode is "none"`},
		{"shared with both", `export const workspace = { mode: "shared", cwd: "x", templateDir: "y" };` + ok, `expected this key to be omitted when workspace mode is "shared"`},
		{"no default", `export const x = 1;`, `Suite file does not have a default export: /`},
		{"no list", `export default 7;`, `expected an array or an object of cases`},
		{"a function", `export default () => [];`, `expected an array or an object of cases`},
		{"empty", `export default [];`, `expected at least one case`},
		{"no id", `export default [{ prompt: "p", assert() {} }];`, `Invalid suite at case 1: id: expected non-empty string`},
		{"no prompt", `export default { k: { id: "a", assert() {} } };`, `Invalid suite at case a: prompt: expected non-empty string`},
		{"no assert", `export default [{ id: "a", prompt: "p" }];`, `Invalid suite at case a: assert: expected a function (report, ctx)`},
		{"twice", `export default [{ id: "a", prompt: "p", assert() {} }, { id: "a", prompt: "q", assert() {} }];`, `Duplicate case id: a`},
		{"tags", `export default [{ id: "a", prompt: "p", tags: "x", assert() {} }];`, `Invalid tags for case a: expected array of non-empty strings`},
		{"tag", `export default [{ id: "a", prompt: "p", tags: ["x", " "], assert() {} }];`, `Invalid tag for case a at index 1: expected non-empty string`},
		{"timeout", `export default [{ id: "a", prompt: "p", timeoutMs: 0.5, assert() {} }];`, `expected integer >= 1`},
		{"throws", "import 'skillgym';\nthrow new Error('at load');" + ok, `a.ts:2:7: Error: at load`},
		{"rejects", "Promise.reject(new Error('lost'));" + ok, `Error: lost`},
		{"syntax", "const x = ;" + ok, `a.ts:1:11: Unexpected ";"`},
		{"exit", "process.exit(3);" + ok, `the suite called process.exit(3)`},
		{"never", "await new Promise(() => {});" + ok, `it waits for a promise that nothing will settle`},
		{"no such name", `import { asert } from "skillgym"; asert.ok(true);` + ok, `a.ts:1:10: No matching export in "skillgym" for import "asert"`},
		{"package", `import x from "left-pad"; x();` + ok, `Could not resolve "left-pad"`},
		{"node module", `import "node:nothing"; ` + ok, `No such built-in module: node:nothing`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := tryLoad(t, "a.ts", test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error = %v\nwant it to contain %q", err, test.want)
			}
			if !strings.HasPrefix(err.Error(), "suite: load /") || fault.Of(err) == fault.Internal {
				t.Errorf("error = %v (%s), want it to say what was loaded, with a code", err, fault.Of(err))
			}
		})
	}
}

func TestUnusedNodeModulesAreNoError(t *testing.T) {
	s := load(t, "a.ts", `import type { Server } from "node:http"; import { x } from "./types"; type T = typeof x; export default [{ id: "a", prompt: "p", extra: 1, assert() {} }];`, "types.ts", `export let x: number;`)
	if len(s.Notices) != 1 || !strings.Contains(s.Notices[0], "extra") {
		t.Errorf("notices = %q, want one of the key extra", s.Notices)
	}
}
