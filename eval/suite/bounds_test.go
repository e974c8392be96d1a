package suite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
)

// TestNoSingleOperationTakesAllMemory: what an engine would take at once, and
// nothing could interrupt, is refused with the limit, and the next case runs.
func TestNoSingleOperationTakesAllMemory(t *testing.T) {
	takes := []string{
		`new ArrayBuffer(8e9)`, `new Uint8Array(8e9)`, `new Float64Array({ length: 1e9 })`, `Uint8Array.from({ length: 8e9 })`,
		`new (class extends ArrayBuffer {})(8e9)`, `new (new Uint8Array(1).constructor)(8e9)`,
		`"x".repeat(8e9)`, `"x".padStart(2e9)`, `"x".padEnd(2e9)`, `new Array(4e9).join("x")`, `Array(1e3).fill(long).join("")`,
		`"".concat(...Array(40).fill(long))`, `new Array(4e9).fill(0)`, `Array.from({ length: 1e9 })`, `Array.from(long)`, `[].concat(new Array(1e9))`,
		`long.split("")`, `Buffer.alloc(8e9)`, `Buffer.concat(Array(100).fill(Buffer.alloc(1e7)))`,
		`{ const all = []; for (let i = 0; i < 100; i++) all.push(new ArrayBuffer(5e7)); }`, // each of which is small enough
	}
	var text strings.Builder
	text.WriteString("import { Buffer } from \"node:buffer\";\nconst long = \"x\".repeat(1e4).repeat(1e3);\nexport default [{ id: \"fine\", prompt: \"p\", assert() { new Uint8Array(2e6).slice(1).fill(2); 'x'.repeat(2e6); } },\n")
	for _, take := range takes {
		text.WriteString("{ id: " + quoted(take) + ", prompt: \"p\", assert() { " + take + " } },\n")
	}
	dir := write(t, "a.ts", text.String()+"];")
	s, err := (&Loader{Limit: Limit{Turn: time.Hour, Memory: 256 << 20}}).Load(t.Context(), filepath.Join(dir, "a.ts"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, take := range takes {
		out := judge(t, s, take, `{}`, nil)
		if out.Passed || out.Origin != OriginHook || out.Error.Name != "RangeError" || !strings.HasSuffix(out.Error.Message, "more than the 256 MiB of memory that a suite may take") {
			t.Errorf("%s: %+v, want that it is refused, with the limit", take, out.Error)
		}
	}
	if out := judge(t, s, "fine", `{}`, nil); !out.Passed {
		t.Errorf("afterwards: %+v, want passed", out.Error)
	}
}

func quoted(s string) string { return "`" + s + "`" }

// TestALoadThatTakesAllMemory is refused with a code, and so is a configuration.
func TestALoadThatTakesAllMemory(t *testing.T) {
	dir := write(t, "a.ts", "export const kept = new ArrayBuffer(8e9);\nexport default [];")
	_, err := Load(t.Context(), filepath.Join(dir, "a.ts"), nil)
	if fault.Of(err) != fault.ResourceExhausted || !strings.Contains(err.Error(), "a.ts:1:") || !strings.Contains(err.Error(), "8000000000 bytes at once would make it more than the 1024 MiB") {
		t.Errorf("load: %v, want resource exhausted with the place and the limit", err)
	}
	dir = write(t, "skillgym.config.mjs", `export default { runners: {}, name: "x".repeat(8e9) };`)
	if _, err = LoadConfig(t.Context(), filepath.Join(dir, "a.ts"), ""); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("configuration: %v, want resource exhausted", err)
	}
}

// TestBoundsAreNotSeen: what asks for room first is otherwise what it was.
func TestBoundsAreNotSeen(t *testing.T) {
	s := load(t, "a.ts", `import nodeAssert from "node:assert/strict";
export default [{ id: "c", prompt: "p", assert() {
  const a = new Uint8Array([3, 1, 2]);
  nodeAssert.ok(a instanceof Uint8Array && a.constructor === Uint8Array && a.buffer instanceof ArrayBuffer && a.buffer.constructor === ArrayBuffer);
  nodeAssert.deepEqual(a.slice(1), new Uint8Array([1, 2]));
  nodeAssert.deepEqual(Uint8Array.from(["1", "2", "3"], Number), Uint8Array.of(1, 2, 3));
  nodeAssert.equal(new Float64Array(a.buffer.slice(0, 0)).length, 0);
  class Bytes extends Uint8Array { first() { return this[0]; } }
  nodeAssert.equal(new Bytes([7]).first(), 7);
  nodeAssert.throws(() => Uint8Array(1), TypeError);
  nodeAssert.throws(() => "x".repeat(-1), RangeError);
  nodeAssert.equal("ab".repeat(2) + "x".padStart(3, "-") + "a".concat("b", 1), "abab--xab1");
  nodeAssert.deepEqual(["fill".length, Array.prototype.fill.length, Array.prototype.fill.name], [4, 1, "fill"]);
  nodeAssert.deepEqual([[1, [2]].flat(), [1].concat([2], 3), Array.from({ length: 2 }, (_, i) => i), [..."ab"].join()], [[1, 2], [1, 2, 3], [0, 1], "a,b"]);
  nodeAssert.equal(Buffer.concat([Buffer.from("a"), Buffer.alloc(1, "b")]).toString(), "ab");
  nodeAssert.deepEqual(Object.keys(globalThis).filter((name) => /Array/.test(name)), []);
} }];`)
	if out := judge(t, s, "c", `{}`, nil); !out.Passed {
		t.Errorf("%+v, want passed", out.Error)
	}
}
