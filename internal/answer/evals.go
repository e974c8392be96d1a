package answer

// A EvalComparison is two runs side by side: B against A.
type EvalComparison struct {
	A       string                 `json:"a"` // directories
	B       string                 `json:"b"`
	Runners []EvalRunnerComparison `json:"runners"`
	Common  int                    `json:"common"` // executions that both runs have and that are compared
	OnlyA   int                    `json:"onlyA"`  // executions that are not in the other run
	OnlyB   int                    `json:"onlyB"`
	Changed []EvalCaseChange       `json:"changed"` // executions whose verdict differs, or that only one has
}

// A EvalRunnerComparison is what differs for one runner.
type EvalRunnerComparison struct {
	Runner   string        `json:"runner"`
	Measures []EvalMeasure `json:"measures"`
}

// A EvalMeasure is one quantity that is compared. Diff is the difference of pass rates, and
// the ratio of other quantities, both of B to A.
type EvalMeasure struct {
	Name        string       `json:"name"` // "pass rate", "tokens", "time" or "cost"
	A           EvalInterval `json:"a"`
	B           EvalInterval `json:"b"`
	Diff        EvalInterval `json:"diff"`
	Significant bool         `json:"significant"` // the interval of Diff leaves out "no difference"
	Better      bool         `json:"better"`      // B is better; set only if Significant

	// Texts for reports of package eval; empty in an answer.
	AText, BText, DiffText, Word string `json:"-"`
}

// A EvalCaseChange is an execution that came out differently.
type EvalCaseChange struct {
	Case   string `json:"case"`
	Runner string `json:"runner"`
	A      string `json:"a"` // status, with passed repetitions; "" is not in the run
	B      string `json:"b"`
	Word   string `json:"change"` // "newly failing", "newly passing", "added", "removed" or "differs"
}

// An EvalInterval is a number with its 95 % confidence interval.
type EvalInterval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	N     int     `json:"n"` // observations
}
