package main

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// suitePrefix begins the names of conformance tests.
const suitePrefix = "TestConformance"

// A table has the results of the conformance suite for each provider.
type table struct {
	columns []string
	checks  []string                     // in the order of their first result
	cells   map[string]map[string]string // by check and column
	reasons []string                     // why a check does not apply
}

// columnOf returns the provider and the check of a test, "" if it is not a conformance
// test: sandbox/bubblewrap and Write/keeps-the-mode.
func columnOf(k key) (column, check string) {
	if path.Base(path.Dir(k.pkg)) != "provider" {
		return "", ""
	}
	name, check, ok := strings.Cut(k.test, "/")
	if level, is := strings.CutPrefix(name, suitePrefix); ok && is && strings.Count(check, "/") == 1 {
		column = path.Base(k.pkg)
		if level != "" {
			column += " " + strings.ToLower(level)
		}
		return column, check
	}
	return "", ""
}

// addCell adds the outcome of a check.
func (t *table) addCell(k key, outcome, why string) {
	column, check := columnOf(k)
	if column == "" {
		return
	}
	if t.cells == nil {
		t.cells = map[string]map[string]string{}
	}
	if t.cells[check] == nil {
		t.cells[check] = map[string]string{}
		t.checks = append(t.checks, check)
	}
	if !slices.Contains(t.columns, column) {
		t.columns = append(t.columns, column)
	}
	cell := map[string]string{"pass": "yes", "fail": "**no**"}[outcome]
	if outcome == "skip" {
		cell = t.reasonMark(strings.TrimPrefix(why, "skipped: "))
	}
	if old := t.cells[check][column]; old == "**no**" { // it ran twice, with and without the race detector
		cell = old
	}
	t.cells[check][column] = cell
}

// reasonMark returns the number of the reason why a check does not apply.
func (t *table) reasonMark(why string) string {
	i := slices.Index(t.reasons, why)
	if i < 0 {
		i = len(t.reasons)
		t.reasons = append(t.reasons, why)
	}
	return fmt.Sprintf("(%d)", i+1)
}

// writePage writes the page.
func (t *table) writePage(w io.Writer) {
	fmt.Fprint(w, `# Providers, held against the contract

This page is made of the results of the tests (`+"`make docs` after `make test-all`"+`), never by hand: each row is a check of
package workspacetest, each column a provider. *yes*: it was tried, and it holds. A number: it does not apply, for the reason below.

`)
	slices.Sort(t.columns)
	fmt.Fprintf(w, "| check | %s |\n|---|%s\n", strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, check := range t.checks {
		fmt.Fprintf(w, "| %s |", strings.ReplaceAll(check, "-", " "))
		for _, column := range t.columns {
			fmt.Fprintf(w, " %s |", t.cells[check][column])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "\nA check does not apply because:")
	fmt.Fprintln(w)
	for i, why := range t.reasons {
		fmt.Fprintf(w, "%d. %s\n", i+1, why)
	}
}
