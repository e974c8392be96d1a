package main

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// suitePrefix begins the name of a test that holds a provider against the contract.
const suitePrefix = "TestConformance"

// A table is what the suite says of each provider.
type table struct {
	columns []string
	checks  []string                     // in the order in which they were met
	cells   map[string]map[string]string // by check and column
	reasons []string                     // why a check does not apply
}

// columnOf names the provider that a test is about, and its check; "" where it is
// about neither: sandbox/bubblewrap and Write/keeps-the-mode.
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

// addCell takes the outcome of a check into the table.
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
	if old := t.cells[check][column]; old == "**no**" { // it ran twice, raced and not
		cell = old
	}
	t.cells[check][column] = cell
}

// reasonMark returns the mark of why a check does not apply.
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

This page is made of the results of the tests (`+"`make docs` after `make test`"+`), never by hand: each row is a check of
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
