package rest_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the list of routes in docs/http.md")

// TestRoutesAreDocumented compares the list of routes, which ends docs/http.md,
// with the OpenAPI document.
func TestRoutesAreDocumented(t *testing.T) {
	data, err := newHost(t).srv.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct{ Summary string }
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for path, methods := range doc.Paths {
		for method, op := range methods {
			rows = append(rows, fmt.Sprintf("- `%s %s`: %s\n", strings.ToUpper(method), path, op.Summary))
		}
	}
	slices.SortFunc(rows, func(a, b string) int { return strings.Compare(pathFirst(a), pathFirst(b)) })
	const page, head = "../../../docs/http.md", "-update writes it -->\n\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, got, ok := strings.Cut(string(text), head)
	if !ok {
		t.Fatalf("%s has no list of routes", page)
	}
	want := strings.Join(rows, "")
	if *update {
		if err := os.WriteFile(page, []byte(before+head+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the list of routes in %s is\n%s\nwant\n%s\n-update rewrites it", page, got, want)
	}
}

// pathFirst orders rows by path, then method.
func pathFirst(row string) string {
	method, rest, _ := strings.Cut(row, " /")
	path, _, _ := strings.Cut(rest, "`")
	return path + " " + method
}
