package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// readExpressions reads a table of JavaScript expressions: one in each line. The lines
// below "each f($)" that start with a tab are put in the place of $.
func readExpressions(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	each := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		value, below := strings.CutPrefix(line, "\t")
		switch template, ok := strings.CutPrefix(line, "each "); {
		case ok:
			each = template
		case below && value == "(nothing)":
			out = append(out, strings.Replace(each, "$", "", 1))
		case below:
			out = append(out, strings.Replace(each, "$", value, 1))
		case line != "" && line[0] != '#':
			out = append(out, line)
		}
	}
	return out
}

// expressionModule is a module whose function answers evaluates all expressions.
func expressionModule(expressions []string) string {
	var b strings.Builder
	b.WriteString(`import path from "node:path";
import url from "node:url";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import util from "node:util";
import assert from "node:assert/strict";
import loose from "node:assert";
import os from "node:os";
import buffer from "node:buffer";
import nodeCrypto from "node:crypto";
import timersPromises from "node:timers/promises";
import { show } from "./show.mjs";
const tmp = fs.mkdtempSync(path.join(os.tmpdir(), "expressions-"));
const expressions = [
`)
	for _, e := range expressions {
		fmt.Fprintf(&b, "  async () => (%s),\n", e)
	}
	b.WriteString(`];
export async function answers() {
  const out = [];
  for (const run of expressions) {
    let answer;
    try { answer = show(await run()); } catch (error) { answer = "throws " + show(error); }
    out.push(answer.replaceAll(tmp, "TMP"));
  }
  return out;
}
`)
	return b.String()
}

// showModule writes a value without the help of util, which is what is compared.
const showModule = `export function show(value, depth = 0) {
  if (typeof value === "string") return JSON.stringify(value);
  if (Object.is(value, -0)) return "-0";
  if (typeof value === "bigint") return value + "n";
  if (typeof value === "function") return "function " + value.name;
  if (typeof value !== "object" || value === null) return String(value);
  if (depth > 5) return "...";
  const next = (v) => show(v, depth + 1);
  const name = Object.getPrototypeOf(value) === null ? "null" : value.constructor?.name;
  if (value instanceof Error) {
    const cause = "cause" in value ? " cause " + next(value.cause) : "";
    return name + " " + value.name + " " + next(value.code) + " " + value.message + cause;
  }
  if (value instanceof Date) return "Date " + value.getTime();
  if (value instanceof RegExp) return "RegExp " + value;
  if (value instanceof Map) return "Map " + next([...value]);
  if (value instanceof Set) return "Set " + next([...value]);
  if (value instanceof ArrayBuffer) return "ArrayBuffer " + next([...new Uint8Array(value)]);
  if (value instanceof DataView) return "DataView " + value.byteLength;
  if (ArrayBuffer.isView(value)) return name + " " + next(Array.from(value));
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return name + " object " + next(value.valueOf());
  if (Array.isArray(value)) return "[" + Array.from({ length: value.length }, (_, i) => (i in value ? next(value[i]) : "hole")).join(", ") + "]";
  return name + " {" + Object.keys(value).map((key) => key + ": " + next(value[key])).join(", ") + "}";
}
`

// TestExpressionsAnswerAsNode evaluates the tables of testdata/node in Node and in the
// engine. Those of lacks.txt are what the engine lacks: an error that names --engine node.
func TestExpressionsAnswerAsNode(t *testing.T) {
	node := testenv.NeedsNode(t)
	tables, err := filepath.Glob("testdata/node/*.txt")
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	total := 0
	for _, table := range tables {
		expressions := readExpressions(t, table)
		if filepath.Base(table) != "lacks.txt" {
			total += len(expressions)
		}
		t.Run(strings.TrimSuffix(filepath.Base(table), ".txt"), func(t *testing.T) {
			dir := write(t, "show.mjs", showModule, "expressions.mjs", expressionModule(expressions),
				"node.mjs", `import { answers } from "./expressions.mjs"; console.log(JSON.stringify(await answers())); process.exit(0);`,
				"a.suite.mjs", `import { answers } from "./expressions.mjs";
export default [{ id: "c", prompt: "p", async assert() { console.log(JSON.stringify(await answers())); } }];`)
			cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "node.mjs"))
			var stderr strings.Builder
			cmd.Stderr = &stderr
			raw, err := cmd.Output()
			if err != nil {
				t.Fatalf("node: %v\n%s", err, stderr.String())
			}
			var want, got []string
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			s, err := Load(t.Context(), filepath.Join(dir, "a.suite.mjs"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			out := judge(t, s, "c", `{}`, nil)
			if !out.Passed || len(out.Logs) == 0 {
				t.Fatalf("outcome = %+v", out.Error)
			}
			if err := json.Unmarshal([]byte(out.Logs[len(out.Logs)-1].Text), &got); err != nil {
				t.Fatal(err)
			}
			for i, e := range expressions {
				if filepath.Base(table) == "lacks.txt" {
					if !strings.Contains(got[i], "--engine node") || strings.Contains(want[i], "--engine node") {
						t.Errorf("%s\n got %s\nwant an error that names --engine node", e, got[i])
					}
				} else if got[i] != want[i] {
					t.Errorf("%s\n got %s\nwant %s", e, got[i], want[i])
				}
			}
			t.Logf("%4d expressions", len(expressions))
		})
	}
	t.Logf("%d expressions are the same in Node and in the engine", total)
	if total < 600 {
		t.Errorf("%d expressions, want at least 600", total)
	}
}
