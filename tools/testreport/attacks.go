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

// writePage writes a page of docs/. The attacks are grouped by their results.
func (as attacks) writePage(w io.Writer) {
	fmt.Fprint(w, `# Attacks

This page is made of the results of `+"`make attack`"+`, never by hand: what tests tried from inside a workspace or as a client, at each
level of isolation (or front end), by an ordinary user and by root.

- *prevented*: it had no effect.
- *reported*: it had an effect inside a directory that the workload may write, and the answer, an event or `+"`ws apply`"+` names it.
- *not claimed*: this level does not promise to prevent it.

| attacks | results |
|---|---|
`)
	var groups grouped
	of := as.byName()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		groups.add(results(of[name]), name)
	}
	for _, result := range groups.order {
		fmt.Fprintf(w, "| %s | %s |\n", strings.Join(groups.members[result], "; "), result)
	}
}

func (as attacks) byName() map[string][]testenv.Attack {
	of := map[string][]testenv.Attack{}
	for _, a := range as {
		of[a.Attack] = append(of[a.Attack], a)
	}
	return of
}

// results says what came of one attack at each level; a level with the same result for both
// users is named without them.
func results(runs []testenv.Attack) string {
	verdict, users := map[[2]string]string{}, map[[2]string][]string{} // by level and user, and by level and verdict
	for _, a := range runs {
		said := string(a.Verdict)
		if a.Note != "" {
			said += " (" + a.Note + ")"
		}
		verdict[[2]string{a.Level, a.User}] = said
		users[[2]string{a.Level, said}] = append(users[[2]string{a.Level, said}], a.User)
	}
	var groups grouped
	for _, k := range slices.SortedFunc(maps.Keys(verdict), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		level, said := k[0], verdict[k]
		if of := users[[2]string{level, said}]; len(of) == 1 {
			level += " as " + of[0]
		}
		if !slices.Contains(groups.members[said], level) {
			groups.add(said, level)
		}
	}
	return groups.text()
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
