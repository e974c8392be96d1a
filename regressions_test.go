package croft

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
)

// TestRegressionsNameTests: each test that docs/evidence/regressions.md names exists.
func TestRegressionsNameTests(t *testing.T) {
	page, err := os.ReadFile("docs/evidence/regressions.md")
	if err != nil {
		t.Fatal(err)
	}
	named := namedTest.FindAllStringSubmatch(string(page), -1)
	if len(named) < 100 {
		t.Fatalf("docs/evidence/regressions.md names %d tests", len(named))
	}
	tests := map[string]map[string]bool{} // by package
	for _, m := range named {
		if tests[m[1]] == nil {
			tests[m[1]] = testsOf(t, m[1])
		}
		if !tests[m[1]][m[2]] {
			t.Errorf("docs/evidence/regressions.md names %s of %s, which does not exist", m[2], m[1])
		}
	}
	if bare := regexp.MustCompile("`Test[A-Za-z0-9]+`").FindString(string(page)); bare != "" {
		t.Errorf("docs/evidence/regressions.md names %s without its package", bare)
	}
}

func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(data), -1) {
			tests[m[1]] = true
		}
	}
	return tests
}
