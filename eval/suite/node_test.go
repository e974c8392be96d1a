package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

func TestFilesAreThoseOfTheSuiteAndItsRun(t *testing.T) {
	outside := write(t, "secret.txt", "s3cret")
	workspace := write(t, "made.txt", "by the agent")
	s := load(t, "a.ts", `import { assert } from "skillgym";
import fs, { mkdirSync, writeFileSync, existsSync } from "node:fs";
import { readFile, writeFile, access, appendFile, mkdir, readdir, stat, rm, mkdtemp } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
const here = path.dirname(fileURLToPath(import.meta.url));
const marker = path.join(os.tmpdir(), "marker");
export default [{ id: "c", prompt: "p", async assert(report: any) {
  assert.equal(await readFile(path.join(here, "data.txt"), "utf8"), "data");
  assert.equal(fs.readFileSync(new URL("./data.txt", import.meta.url)).toString("base64"), "ZGF0YQ==");
  await assert.rejects(access(marker), { code: "ENOENT", message: "ENOENT: no such file or directory, access '" + marker + "'" });
  await writeFile(marker, "a"); await appendFile(marker, "b");
  assert.equal(fs.readFileSync(marker, { encoding: "utf-8" }), "ab");
  await mkdir(path.join(os.tmpdir(), "x/y"), { recursive: true });
  assert.throws(() => mkdirSync(path.join(os.tmpdir(), "x")), { code: "EEXIST" });
  writeFileSync(path.join(os.tmpdir(), "x/y/z"), Buffer.from([1, 2]));
  assert.deepEqual(await readdir(path.join(os.tmpdir(), "x"), { recursive: true }), ["y", "y/z"]);
  assert.ok((await stat(path.join(os.tmpdir(), "x"))).isDirectory() && fs.statSync(marker).size === 2);
  await rm(path.join(os.tmpdir(), "x"), { recursive: true });
  assert.ok(!existsSync(path.join(os.tmpdir(), "x")) && (await mkdtemp(path.join(os.tmpdir(), "t-"))).startsWith(os.tmpdir()));
  assert.equal(await readFile(path.join(report.workspace, "made.txt"), "utf8"), "by the agent");
  for (const name of [report.outside + "/secret.txt", here + "/../x", "/etc/passwd", here + "/link.txt", here + "/dir/secret.txt"]) {
    await assert.rejects(readFile(name, "utf8"), { name: "SandboxViolation", code: "E_SANDBOX_VIOLATION" }, name);
    assert.throws(() => writeFileSync(name, "x"), { code: "E_SANDBOX_VIOLATION" }, name);
  }
  assert.equal(pathToFileURL("/a b/#x").href, "file:///a%20b/%23x");
} }];`, "data.txt", "data")
	for link, to := range map[string]string{"link.txt": outside + "/secret.txt", "dir": outside} {
		if err := os.Symlink(to, filepath.Join(s.Dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	out := judge(t, s, "c", fmt.Sprintf(`{"outside":%q,"workspace":%q}`, outside, workspace), &hostEnv{dir: workspace})
	if !out.Passed {
		t.Errorf("%s\n%s", out.Error.Message, out.Error.Stack)
	}
	if got, err := os.ReadFile(outside + "/secret.txt"); err != nil || string(got) != "s3cret" {
		t.Errorf("the file outside is %q, %v", got, err)
	}
	if _, err := tryLoad(t, "b.ts", `import fs from "node:fs"; fs.readFileSync("/etc/passwd"); export default [];`); fault.Of(err) != fault.SandboxViolation {
		t.Errorf("while it loads: %v, want a sandbox violation", err)
	}
}

func TestGlobals(t *testing.T) {
	t.Setenv("CROFT_TEST_VALUE", "v")
	s := load(t, "a.ts", body(`
  assert.equal(process.env.CROFT_TEST_VALUE, "v");
  assert.equal(process.env.CROFT_NOT_SET, undefined);
  assert.ok(Array.isArray(process.argv) && typeof process.cwd() === "string");
  const m = new Map([["a", { d: new Date(0), r: /x/g, s: new Set([1]) }]]); const c = structuredClone(m);
  assert.deepEqual(c, m); assert.notEqual(c.get("a"), m.get("a"));
  assert.equal(new URL("../b?x=1#h", "https://e.com/a/c").href, "https://e.com/b?x=1#h");
  assert.ok(/^\p{L}+$/u.test("äöü") && !/^\p{L}+$/u.test("1") && /[\p{Lu}\d]/u.test("Ä") && /\P{L}/u.test("1") && /\p{Script=Greek}/u.test("α"));
  assert.ok(/(?<=\$)\d+/.test("$42") && "a1b2".replace(/(?<d>\d)/g, "<$<d>>") === "a<1>b<2>" && /x/ instanceof RegExp);
  assert.equal(new TextDecoder().decode(new TextEncoder().encode("ü")), "ü");
  const order: string[] = [];
  queueMicrotask(() => order.push("micro")); setImmediate(() => order.push("soon"));
  setTimeout(() => order.push("late"), 200); const cancelled = setTimeout(() => order.push("never"), 1); clearTimeout(cancelled);
  await new Promise((done) => setTimeout(done, 300));
  assert.deepEqual(order, ["micro", "soon", "late"]);
  async function* numbers() { yield 1; yield 2; }
  let sum = 0; for await (const n of numbers()) sum += n; assert.equal(sum, 3);
  console.log("%s is %d", "x", 1, { a: [1, "s"] }); console.error(new Map([[1, 2]]));`))
	out := judge(t, s, "c", `{}`, nil)
	if !out.Passed {
		t.Fatalf("%s\n%s", out.Error.Message, out.Error.Stack)
	}
	want := []Log{{"log", "x is 1 { a: [ 1, 's' ] }"}, {"error", "Map(1) { 1 => 2 }"}}
	if len(out.Logs) != 2 || out.Logs[0] != want[0] || out.Logs[1] != want[1] {
		t.Errorf("logs = %v, want %v", out.Logs, want)
	}
}

func TestReporterModule(t *testing.T) {
	dir := write(t, "r.ts", `import type { BenchmarkReporter } from "skillgym";
const reporter: BenchmarkReporter = { async onSuiteStart(event: any) { await null; console.log("start " + event.context.suitePath); }, onError() { throw new Error("no"); } };
export default reporter;`, "none.ts", `export default { x: 1 };`)
	var lines []string
	l := &Loader{Log: func(l Log) { lines = append(lines, l.Text) }}
	r, err := l.LoadReporter(t.Context(), filepath.Join(dir, "r.ts"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Call(t.Context(), "onSuiteStart", []byte(`{"context":{"suitePath":"/s"}}`)); err != nil {
		t.Error(err)
	}
	if err := r.Call(t.Context(), "onCaseStart", []byte(`{}`)); err != nil {
		t.Errorf("a hook that it lacks: %v", err)
	}
	if err := r.Call(t.Context(), "onError", []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "r.ts:2:") {
		t.Errorf("a hook that throws: %v, want its place", err)
	}
	if len(lines) != 1 || lines[0] != "start /s" {
		t.Errorf("lines = %q, want one", lines)
	}
	if _, err := l.LoadReporter(t.Context(), filepath.Join(dir, "nowhere.ts")); fault.Of(err) != fault.NotFound || !strings.HasSuffix(err.Error(), "the file does not exist") {
		t.Errorf("one that is not there: %v, want %v", err, fault.NotFound)
	}
	if _, err := l.LoadReporter(t.Context(), filepath.Join(dir, "none.ts")); err == nil || !strings.Contains(err.Error(), "Reporter module must export") {
		t.Errorf("without hooks: %v", err)
	}
}
