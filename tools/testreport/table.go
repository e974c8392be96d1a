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

const (
	held   = "held"
	failed = "**fails**"
)

// A table has the results of the conformance suite for each provider.
type table struct {
	columns []string
	checks  []string                     // in the order of their first result
	cells   map[string]map[string]string // held, failed, or why it does not apply, by check and column
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
	cell := map[string]string{"pass": held, "fail": failed}[outcome]
	if outcome == "skip" {
		cell = strings.TrimPrefix(why, "skipped: ")
	}
	if old := t.cells[check][column]; old == failed { // it ran twice, with and without the race detector
		cell = old
	}
	t.cells[check][column] = cell
}

// writePage writes the page: the checks are grouped by what they say of the providers.
func (t *table) writePage(w io.Writer) {
	slices.Sort(t.columns)
	fmt.Fprintf(w, `# Providers, held against the contract

This page is made of the results of the tests (`+"`make docs` after `make test-all`"+`), never by hand. Package workspacetest has the checks (`+"`go test ./provider/KIND -run Conformance -v`"+` names them);
it was run on %s.
`, strings.Join(t.columns, ", "))
	var groups grouped
	for _, check := range t.checks {
		groups.add(t.exceptions(check), strings.ReplaceAll(check, "-", " "))
	}
	fmt.Fprintf(w, "\n## What holds for every provider\n\n%d checks: ", len(groups.members[""]))
	var families grouped
	for _, check := range groups.members[""] {
		family, what, _ := strings.Cut(check, "/")
		families.add(family, what)
	}
	for i, family := range families.order {
		fmt.Fprintf(w, "%s%s %d", map[bool]string{true: ", "}[i > 0], family, len(families.members[family]))
	}
	fmt.Fprint(w, ".\n\n## What does not apply to some\n\n| checks | does not apply to |\n|---|---|\n")
	for _, exceptions := range groups.order {
		if exceptions != "" {
			fmt.Fprintf(w, "| %s | %s |\n", strings.Join(groups.members[exceptions], "; "), exceptions)
		}
	}
}

// exceptions says for which providers a check did not pass, and why; "" if it passed for all.
func (t *table) exceptions(check string) string {
	var groups grouped
	for _, column := range t.columns {
		cell, tried := t.cells[check][column]
		if !tried {
			cell = "not tried"
		}
		if cell != held {
			groups.add(cell, column)
		}
	}
	return groups.text()
}

// A grouped has strings by what is said of them, in the order of the first.
type grouped struct {
	order   []string
	members map[string][]string
}

func (g *grouped) add(said, member string) {
	if g.members == nil {
		g.members = map[string][]string{}
	}
	if g.members[said] == nil {
		g.order = append(g.order, said)
	}
	g.members[said] = append(g.members[said], member)
}

// text returns the groups in one line.
func (g *grouped) text() string {
	var parts []string
	for _, said := range g.order {
		parts = append(parts, fmt.Sprintf("%s: %s", said, strings.Join(g.members[said], ", ")))
	}
	return strings.Join(parts, "; ")
}
