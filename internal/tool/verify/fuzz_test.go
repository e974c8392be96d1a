package verify

import (
	"strconv"
	"strings"
	"testing"
)

// FuzzParsers holds that no output, whatever it is, makes a parser fail, and that
// what is read of it is in bounds.
func FuzzParsers(f *testing.F) {
	for _, name := range []string{
		"go.jsonl", "cargo.txt", "cargo-build.txt", "pytest.xml", "unittest.txt", "jest.json", "vitest.json", "mocha.jsonl",
		"mocha-crash.txt", "node.jsonl", "bun.txt", "surefire.xml", "gradle.xml", "maven-build.txt", "clippy.txt", "eslint.json", "eslint.txt", "pyright.txt",
	} {
		f.Add(data(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, r := range knownRunners() {
			res := r.parse(runnerOutput{stdout: b, stderr: b, reports: [][]byte{b}}, home)
			if res.passed < 0 || res.skipped < 0 {
				t.Errorf("%s: %d passed, %d skipped", r.name, res.passed, res.skipped)
			}
			for _, x := range res.failures {
				if x.Line < 0 || len(x.Message) > maxMessage+100 || strings.ContainsRune(x.Message, 0x1b) && !strings.Contains(string(b), "\x1b") {
					t.Errorf("%s: failure %+v", r.name, x)
				}
			}
			if len(res.failures) > 0 {
				r.rerun([]string{"x", "test", "--test", "unittest"}, res.failures, func(s string) string { return s })
			}
		}
		for _, l := range knownLinters() {
			for _, d := range l.parse(b, home) {
				if d.Line < 0 || d.Column < 0 || d.Message == "" {
					t.Errorf("%s: finding %+v", l.name, d)
				}
			}
		}
		readScript(b, home)
	})
}

// FuzzSplitter holds that text and reports come out as they went in, however they
// are cut.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("some text"), []byte("a report"), 3)
	f.Fuzz(func(t *testing.T, text, report []byte, step int) {
		const mark = "croft-verify-mark"
		if strings.Contains(string(text), mark) {
			t.Skip()
		}
		all := string(text) + "\n" + mark + "\n" + mark + " " + strconv.Itoa(len(report)) + "\n" + string(report)
		var got strings.Builder
		s := &splitter{mark: []byte("\n" + mark + "\n"), text: func(b []byte) { got.Write(b) }}
		step = max(1, min(step, 1000))
		for i := 0; i < len(all); i += step {
			s.write([]byte(all[i:min(len(all), i+step)]))
		}
		s.flush()
		if got.String() != string(text)+"\n" {
			t.Errorf("text %q, want %q", got.String(), text)
		}
		if r := s.reports(mark); len(r) != 1 || string(r[0]) != string(report) {
			t.Errorf("reports %q, want %q", r, report)
		}
	})
}
