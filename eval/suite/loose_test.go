package suite

import "testing"

// TestLooseDeepEqual: node:assert without /strict compares primitives, null and undefined
// with ==, as in Node.
func TestLooseDeepEqual(t *testing.T) {
	dir := write(t, "a.suite.mjs", `import assert from "node:assert";
export default [{ id: "c", prompt: "p", assert() {
  const equal = [[null, undefined], [{ a: null }, { a: undefined }], [1, "1"], [[0], [""]], [NaN, NaN], [new Set([1]), new Set([1])]];
  const unequal = [[null, 0], [undefined, ""], [null, {}], [{ a: null }, {}], [[null], [0]], ["a", ["a"]], [1, { valueOf: () => 1 }]];
  for (const [a, b] of equal) {
    assert.deepEqual(a, b);
    assert.throws(() => assert.notDeepEqual(a, b), { name: "AssertionError" });
  }
  for (const [a, b] of unequal) {
    assert.notDeepEqual(a, b);
    assert.throws(() => assert.deepEqual(a, b), { name: "AssertionError" });
  }
} }];`)
	for name, s := range bothEngines(t, dir+"/a.suite.mjs", Limit{}) {
		if out := judge(t, s, "c", `{}`, nil); !out.Passed {
			t.Errorf("%s: %s", name, out.Error.Message)
		}
	}
}
