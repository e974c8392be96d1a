package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/testenv"
)

// attacks are the results of the attack corpus: the worst verdict for each attack,
// level and user.
type attacks map[testenv.Attack]testenv.Attack // the key has no verdict and no note

// severity orders verdicts: the worst comes last.
var severity = []testenv.Verdict{testenv.Prevented, testenv.NotClaimed, testenv.Reported, testenv.Unreported}

// addLine adds the attack that a line of output reports, if it reports one.
func (as attacks) addLine(line string) {
	_, text, ok := strings.Cut(line, testenv.AttackPrefix+"{")
	if !ok {
		return
	}
	var a testenv.Attack
	if json.Unmarshal([]byte("{"+strings.TrimSpace(text)), &a) != nil {
		return
	}
	k := a
	k.Verdict, k.Note = "", ""
	if old, ok := as[k]; !ok || slices.Index(severity, a.Verdict) > slices.Index(severity, old.Verdict) {
		as[k] = a
	}
}

// writePage writes the table as a page of docs/.
func (as attacks) writePage(w io.Writer) {
	fmt.Fprint(w, `# Attacks

This page is made of the results of `+"`make attack`"+`, never by hand. Each row is an attack that a test runs from inside a workspace or
as a client; the columns are the level of isolation (or the front end) and the user that Croft runs as.

- *prevented*: it had no effect.
- *reported*: it had an effect inside a directory that the workload may write, and the answer, an event or `+"`ws apply`"+` names it.
- *not claimed*: this level does not promise to prevent it.

`)
	var columns, names []string
	cells := map[string]map[string]testenv.Attack{}
	for _, a := range as {
		column := a.Level + ", " + a.User
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
		if cells[a.Attack] == nil {
			cells[a.Attack] = map[string]testenv.Attack{}
			names = append(names, a.Attack)
		}
		cells[a.Attack][column] = a
	}
	slices.Sort(columns)
	slices.Sort(names)
	fmt.Fprintf(w, "| attack | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	var notes []string
	for _, name := range names {
		fmt.Fprintf(w, "| %s |", name)
		for _, column := range columns {
			a := cells[name][column]
			text := string(a.Verdict)
			if a.Note != "" {
				if !slices.Contains(notes, a.Note) {
					notes = append(notes, a.Note)
				}
				text += fmt.Sprintf(" (%d)", slices.Index(notes, a.Note)+1)
			}
			fmt.Fprintf(w, " %s |", text)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for i, note := range notes {
		fmt.Fprintf(w, "%d. %s\n", i+1, note)
	}
}

// printCounts prints how many attacks had each verdict.
func (as attacks) printCounts(w io.Writer) {
	count := map[testenv.Verdict]int{}
	for a := range maps.Values(as) {
		count[a.Verdict]++
	}
	fmt.Fprintf(w, "\n%d attacks:", len(as))
	for _, v := range severity {
		fmt.Fprintf(w, " %d %s", count[v], v)
	}
	fmt.Fprintln(w)
}
