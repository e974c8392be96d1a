package verify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
)

const hangs = "import threading, time\n\n\ndef hang():\n    time.sleep(600)\n\n\n"

// TestHangingRunner: the failures that a runner reported before it hung are kept, whether
// it hangs at its end or in a later test.
//
//croft:slow-race
func TestHangingRunner(t *testing.T) {
	for _, tt := range []struct {
		name, kind, needs string
		files             map[string]string
		want              string
	}{
		{
			name: "pytest at its end", kind: local.Kind, needs: "pytest",
			files: map[string]string{"pytest.ini": "[pytest]\n", "setup.py": "", "test_a.py": hangs +
				"def test_a():\n    threading.Thread(target=hang).start()\n    assert 1 == 2\n\n\ndef test_b():\n    pass\n"},
			want: "1 passed: test test_a.py/test_a (assert 1 == 2); cut  (timed out",
		},
		{
			name: "pytest in a test", kind: sandbox.Kind, needs: "pytest",
			files: map[string]string{"pytest.ini": "[pytest]\n", "setup.py": "", "test_a.py": hangs +
				"def test_a():\n    assert 1 == 2\n\n\ndef test_b():\n    pass\n\n\ndef test_c():\n    hang()\n"},
			want: "1 passed: test test_a.py/test_a (failed; the run was cut short before its details were printed); cut test_a.py/test_c (did not end); cut  (timed out",
		},
		{
			name: "unittest in a test", kind: local.Kind, needs: "python3",
			files: map[string]string{"setup.py": "", "test_a.py": "import unittest\n" + hangs +
				"class A(unittest.TestCase):\n    def test_a(self):\n        self.fail()\n\n    def test_b(self):\n        pass\n\n    def test_c(self):\n        hang()\n"},
			want: "1 passed: test test_a.A/test_a (failed; the run was cut short before its details were printed); cut test_a.A/test_c (did not end); cut  (timed out",
		},
		{
			name: "mocha at its end", kind: sandbox.Kind, needs: "mocha",
			files: map[string]string{
				"package.json":   `{"name": "m", "scripts": {"test": "mocha"}, "devDependencies": {"mocha": "*"}}`,
				"test/a.test.js": "setInterval(() => {}, 1000);\ndescribe('a', () => {\n  it('fails', () => { throw new Error('no'); });\n  it('fine', () => {});\n});\n",
			},
			want: "1 passed: test test/a.test.js/a fails (no); cut  (timed out",
		},
		{
			name: "mocha in a test", kind: sandbox.Kind, needs: "mocha",
			files: map[string]string{
				"package.json":   `{"name": "m", "scripts": {"test": "mocha"}, "devDependencies": {"mocha": "*"}}`,
				"test/a.test.js": "describe('a', () => {\n  it('fails', () => { throw new Error('no'); });\n  it('fine', () => {});\n  it('hangs', () => { for (;;); });\n});\n",
			},
			want: "1 passed: test test/a.test.js/a fails (no); cut  (timed out",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			module := testenv.NeedsProgram(t, tt.needs)
			ws, dir := open(t, tt.kind, tt.files)
			if tt.needs == "mocha" {
				link(t, dir, module)
			}
			r, err := Test(t.Context(), ws, project(t, ws), &Options{Timeout: 8 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			var failures []string
			for _, f := range r.Failures {
				failures = append(failures, fmt.Sprintf("%s %s (%s)", f.Kind, f.Name(), f.Message))
			}
			if got := fmt.Sprintf("%d passed: %s", r.Passed, strings.Join(failures, "; ")); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s\nwant %s\n%s\n%s", got, tt.want, r.Stdout, r.Stderr)
			}
		})
	}
}
