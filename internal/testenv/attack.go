package testenv

import (
	"encoding/json"
	"os"
	"testing"
)

// AttackPrefix begins the log line of an attack; tools/testreport reads the lines.
const AttackPrefix = "attack: "

// A Verdict says what an attack of the corpus came to.
type Verdict string

// Verdicts of a test that passes. A test that fails is Unreported.
const (
	Prevented  Verdict = "prevented"   // it had no effect
	Reported   Verdict = "reported"    // it had an effect, and an answer, event or apply named it
	NotClaimed Verdict = "not claimed" // the level does not promise to prevent it, and the docs say so
	Unreported Verdict = "unreported"  // it had an effect that nothing named
)

// An Attack is one row of the table that `make attack` prints.
type Attack struct {
	Attack  string  `json:"attack"`
	Level   string  `json:"level"` // of isolation, or the front end that was attacked
	User    string  `json:"user"`  // of Croft: root or ordinary
	Verdict Verdict `json:"verdict"`
	Note    string  `json:"note,omitempty"`
}

// ReportAttack logs the attack that a test runs when the test ends. level is the level of
// isolation, or the front end that is attacked: a column of docs/evidence/attacks.md. The name of the
// test must contain Attack, so that `make attack` runs it.
func ReportAttack(t testing.TB, name, level string, v Verdict, note string) {
	t.Helper()
	ReportAttackAs(t, name, level, os.Getuid(), v, note)
}

// ReportAttackAs is ReportAttack for a test that runs Croft as another user.
func ReportAttackAs(t testing.TB, name, level string, uid int, v Verdict, note string) {
	t.Helper()
	if level == "" {
		t.Fatalf("the attack %q names no level or front end, which is its column of docs/evidence/attacks.md", name)
	}
	a := Attack{Attack: name, Level: level, User: "ordinary", Verdict: v, Note: note}
	if uid == 0 {
		a.User = "root"
	}
	t.Cleanup(func() {
		if t.Failed() {
			a.Verdict = Unreported
		}
		line, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(AttackPrefix + string(line))
	})
}
