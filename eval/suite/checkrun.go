package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
)

// reportData is what checks look at in the report of a session, which may be partial.
type reportData struct {
	Events []reportEvent `json:"events"`
	Files  struct {
		ObservedReads []string `json:"observedReads"`
	} `json:"files"`
	DetectedSkills []reportSkill  `json:"detectedSkills"`
	FinalOutput    string         `json:"finalOutput"`
	Usage          map[string]any `json:"usage"`
	DurationMs     *float64       `json:"durationMs"`
}

type reportEvent struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Path    string `json:"path"`
	Tool    string `json:"tool"`
	Args    any    `json:"args"`
}

type reportSkill struct {
	Skill      string `json:"skill"`
	Confidence string `json:"confidence"`
}

func (d *reportData) eventsOf(kind string) []reportEvent {
	return slices.DeleteFunc(slices.Clone(d.Events), func(e reportEvent) bool { return e.Type != kind })
}

// A checkFailure is why a check does not hold. Its texts are those of skillgym.js and workspace.js.
type checkFailure struct {
	Message  string        `json:"message"`
	Question string        `json:"question,omitempty"`
	Class    *FailureClass `json:"class,omitempty"`
	Soft     bool          `json:"soft,omitempty"`
	Hook     bool          `json:"hook,omitempty"` // the check could not be made
	Place    Location      `json:"place"`

	frame Frame
}

// A checkRun is a check on the session of an execution.
type checkRun struct {
	*check
	ex     *execution
	report *reportData
}

// run makes a check; nil is that it holds.
func (c *check) run(ex *execution) *checkFailure {
	f := c.verdict(ex)
	if f == nil {
		return nil
	}
	if c.message != "" && !f.Hook {
		f.Message = c.message + ". " + f.Message
	}
	if c.question != "" {
		f.Question = c.question
	}
	f.Class, f.Soft = c.class, c.soft && !f.Hook
	f.frame = Frame{c.file, c.position.Line, c.position.Column}
	f.Place = Location{fileURL(c.file), strconv.Itoa(f.frame.Line), strconv.Itoa(f.frame.Column)}
	return f
}

func (c *check) verdict(ex *execution) *checkFailure {
	ex.decode.Do(func() { ex.badReport = json.Unmarshal(ex.report, &ex.data) })
	r := &checkRun{check: c, ex: ex, report: &ex.data}
	var f *checkFailure
	err := ex.badReport
	if err == nil {
		f, err = r.dispatch()
	}
	if err != nil {
		return &checkFailure{Message: err.Error(), Hook: true}
	}
	return f
}

func (c *checkRun) dispatch() (*checkFailure, error) {
	group, member, _ := strings.Cut(c.name, ".")
	switch group {
	case "skills":
		return c.skills(member), nil
	case "commands":
		var values []string
		for _, e := range c.report.eventsOf("command") {
			values = append(values, e.Command)
		}
		return c.sequence("commands", commandQuestions, values, showCommand, member), nil
	case "fileReads":
		var values []string
		for _, e := range c.report.eventsOf("fileRead") {
			values = append(values, e.Path)
		}
		if len(values) == 0 {
			values = c.report.Files.ObservedReads
		}
		return c.sequence("file reads", readQuestions, values, func(path string) string { return path }, member), nil
	case "toolCalls":
		return c.toolCalls(member), nil
	case "output":
		return c.output(member), nil
	case "budget":
		return c.budget()
	}
	if c.ex.env == nil {
		return nil, errNoWorkspace
	}
	switch group {
	case "files":
		return c.files(member)
	case "diff":
		return c.diff(member)
	case "workspace":
		return c.command()
	case "judge":
		return c.judge()
	}
	return nil, fmt.Errorf("suite: %s: %w: there is no such check", c.name, fault.Internal)
}

// expect returns nil where ok, else the failure with what was expected and seen.
func expect(ok bool, detail, observed, question string) *checkFailure {
	if ok {
		return nil
	}
	return &checkFailure{Message: detail + " " + observed, Question: question}
}

// observe lists what was seen.
func observe[T any](what string, values []T, show func(T) string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = show(v)
	}
	return "Observed " + what + ": " + orNone(strings.Join(texts, " | "))
}

func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return text
}

func count[T any](values []T, holds func(T) bool) (n int) {
	for _, v := range values {
		if holds(v) {
			n++
		}
	}
	return n
}

// Questions of failures, with matchers and numbers.
var (
	commandQuestions = map[string]string{
		"includes":    "You were expected to run a command matching %s. Why did you not do that?",
		"notIncludes": "You were expected not to run a command matching %s. Why did you run it anyway?",
		"count":       "You were expected to run %[2]d command(s) matching %[1]s. Why did your command choices differ?",
		"atLeast":     "You were expected to run at least %[2]d command(s) matching %[1]s. Why did you run fewer?",
		"atMost":      "You were expected to run at most %[2]d command(s) matching %[1]s. Why did you run more?",
		"before":      "You were expected to run a command matching %s before %s. Why did you choose a different order?",
		"only":        "You were expected to run only commands matching one of: %s. Why did you choose a different command set?",
		"size":        "You were expected to run exactly %d command(s), but ran %d. Why?",
		"exactlyOne":  "You were expected to run exactly one command matching %s. Why did you not do that?",
		"first":       "You were expected to make your first command match %s. Why did you choose a different first step?",
		"last":        "You were expected to make your last command match %s. Why did you choose a different final command?",
	}
	readQuestions = map[string]string{
		"includes":    "You were expected to read a file matching %s. Why did you not read it?",
		"notIncludes": "You were expected not to read a file matching %s. Why did you read it anyway?",
		"count":       "You were expected to read %[2]d file(s) matching %[1]s. Why did your reads differ?",
		"atLeast":     "You were expected to read at least %[2]d file(s) matching %[1]s. Why did you read fewer?",
		"atMost":      "You were expected to read at most %[2]d file(s) matching %[1]s. Why did you read more?",
		"before":      "You were expected to read a file matching %s before %s. Why did you choose a different order?",
		"only":        "You were expected to read only files matching one of: %s. Why did you read different files?",
		"size":        "You were expected to read exactly %d file(s), but read %d. Why?",
		"exactlyOne":  "You were expected to read exactly one file matching %s. Why did you not do that?",
		"first":       "You were expected to make your first file read match %s. Why did you choose a different first read?",
		"last":        "You were expected to make your last file read match %s. Why did you choose a different final read?",
	}
)

// sequence checks a list of values: commands or file reads.
func (c *checkRun) sequence(label string, questions map[string]string, values []string, show func(string) string,
	member string) *checkFailure {
	observed := observe(label, values, show)
	ask := func(args ...any) string { return fmt.Sprintf(questions[member], args...) }
	plain := func(text string) string { return text }
	switch member {
	case "size":
		n := c.args[0].(int)
		return expect(len(values) == n, fmt.Sprintf("Expected %s to contain exactly %d value(s), but found %d.", label, n, len(values)),
			observe(label, values, plain), ask(n, len(values)))
	case "only":
		allowed := matchersOf[matcher](c.args[0])
		others := slices.DeleteFunc(slices.Clone(values), func(value string) bool {
			return slices.ContainsFunc(allowed, func(m matcher) bool { return m.matches(value) })
		})
		names := orNone(describeAll(allowed, ", "))
		return expect(len(others) == 0, fmt.Sprintf("Expected %s to contain only values matching one of: %s. Unexpected: %s.",
			label, names, orNone(strings.Join(others, " | "))), observed, ask(names))
	case "before":
		first, second := c.args[0].(matcher), c.args[1].(matcher)
		detail := fmt.Sprintf("Expected %s to contain a value matching %s before %s.", label, first.describe(), second.describe())
		return inOrder(slices.IndexFunc(values, first.matches), slices.IndexFunc(values, second.matches), detail, observed,
			ask(first.describe(), second.describe()))
	}
	m := c.args[0].(matcher)
	what := m.describe()
	found := count(values, m.matches)
	switch member {
	case "includes":
		return expect(found > 0, fmt.Sprintf("Expected %s to include a value matching %s.", label, what), observed, ask(what))
	case "notIncludes":
		return expect(found == 0, fmt.Sprintf("Expected %s not to include a value matching %s.", label, what), observed, ask(what))
	case "first":
		ok := len(values) > 0 && m.matches(values[0])
		return expect(ok, fmt.Sprintf("Expected the first %s value to match %s.", label, what), observed, ask(what))
	case "last":
		ok := len(values) > 0 && m.matches(values[len(values)-1])
		return expect(ok, fmt.Sprintf("Expected the last %s value to match %s.", label, what), observed, ask(what))
	case "exactlyOne":
		return expect(found == 1, fmt.Sprintf("Expected %s to have 1 value(s) matching %s, but found %d.", label, what, found), observed,
			ask(what))
	}
	n := c.args[1].(int)
	ok, amount := amountOf(member, found, n)
	return expect(ok, fmt.Sprintf("Expected %s to have %s value(s) matching %s, but found %d.", label, amount, what, found), observed,
		ask(what, n))
}

// amountOf says whether a number is as the member wants it, and how messages say that.
func amountOf(member string, found, n int) (ok bool, amount string) {
	switch member {
	case "atLeast":
		return found >= n, fmt.Sprintf("at least %d", n)
	case "atMost":
		return found <= n, fmt.Sprintf("at most %d", n)
	}
	return found == n, strconv.Itoa(n)
}

// inOrder holds where both places exist, and the first is before the second.
func inOrder(first, second int, detail, observed, question string) *checkFailure {
	why := fmt.Sprintf("Found first match at index %d and second match at index %d.", first, second)
	switch {
	case first < 0:
		why = "First match was not found."
	case second < 0:
		why = "Second match was not found."
	case first < second:
		return nil
	}
	return expect(false, detail+" "+why, observed, question)
}

// matchersOf returns the matchers of a list.
func matchersOf[M any](list any) []M {
	var out []M
	for _, m := range list.([]any) {
		out = append(out, m.(M))
	}
	return out
}

// pointers are what the methods of matchers take.
func pointers[T any](values []T) []*T {
	out := make([]*T, len(values))
	for i := range values {
		out[i] = &values[i]
	}
	return out
}

func showToolCall(e *reportEvent) string {
	if e.Args == nil {
		return e.Tool
	}
	return e.Tool + " " + jsonText(e.Args)
}

func (c *checkRun) toolCalls(member string) *checkFailure {
	calls := pointers(c.report.eventsOf("toolCall"))
	observed := observe("tool calls", calls, showToolCall)
	switch member {
	case "before":
		first, second := c.args[0].(*toolMatcher), c.args[1].(*toolMatcher)
		both := first.describe() + " before " + second.describe()
		return inOrder(slices.IndexFunc(calls, first.matches), slices.IndexFunc(calls, second.matches),
			"Expected tool calls to contain "+both+".", observed,
			"You were expected to make a tool call matching "+both+". Why did you choose a different order?")
	case "sequence":
		wanted := matchersOf[*toolMatcher](c.args[0])
		whole := describeAll(wanted, " -> ")
		at := -1
		for _, m := range wanted {
			next := slices.IndexFunc(calls[at+1:], m.matches)
			if next < 0 {
				return expect(false, fmt.Sprintf("Expected tool calls to contain the sequence %s, but %s was not found after index %d.", whole,
					m.describe(), at), observed,
					"You were expected to follow this tool call sequence: "+whole+". Why did you choose a different sequence?")
			}
			at += 1 + next
		}
		return nil
	case "only":
		allowed := matchersOf[*toolMatcher](c.args[0])
		others := slices.DeleteFunc(slices.Clone(calls), func(e *reportEvent) bool {
			return slices.ContainsFunc(allowed, func(m *toolMatcher) bool { return m.matches(e) })
		})
		names := orNone(describeAll(allowed, ", "))
		unexpected := strings.TrimPrefix(observe("", others, showToolCall), "Observed : ")
		return expect(len(others) == 0, fmt.Sprintf("Expected tool calls to contain only matches from: %s. Unexpected: %s.", names,
			unexpected), observed,
			"You were expected to make only tool calls matching one of: "+names+". Why did you choose different tools?")
	}
	m := c.args[0].(*toolMatcher)
	found := count(calls, m.matches)
	if member == "has" {
		return expect(found > 0, "Expected tool calls to include "+m.describe()+".", observed,
			"You were expected to make a tool call matching "+m.describe()+". Why did you not do that?")
	}
	ok, amount := amountOf(member, found, c.args[1].(int))
	why := map[string]string{"count": "Why did your tool choices differ?", "atLeast": "Why did you make fewer?",
		"atMost": "Why did you make more?"}[member]
	return expect(ok, fmt.Sprintf("Expected tool calls to have %s match(es) for %s, but found %d.", amount, m.describe(), found), observed,
		fmt.Sprintf("You were expected to make %s tool call(s) matching %s. %s", amount, m.describe(), why))
}

func (c *checkRun) output(member string) *checkFailure {
	text := c.report.FinalOutput
	if member == "notEmpty" {
		return expect(text != "", "Expected final output not to be empty.", "Observed final output: (empty)", "")
	}
	m := c.args[0].(*textMatcher)
	return expect(m.matches(text), "Expected final output to include a value matching "+m.describe()+".", "Observed final output: "+text, "")
}

// confidences are the ranks of how sure a detected skill is.
var confidences = []string{"weak", "medium", "strong", "explicit"}

func (c *checkRun) skills(member string) *checkFailure {
	sure := slices.DeleteFunc(slices.Clone(c.report.DetectedSkills), func(s reportSkill) bool {
		return c.minConfidence != "" && slices.Index(confidences, s.Confidence) < slices.Index(confidences, c.minConfidence)
	})
	least := ""
	if c.minConfidence != "" {
		least = " with minimum confidence " + c.minConfidence
	}
	show := func(s reportSkill) string { return s.Skill + " (" + s.Confidence + ")" }
	observed := observe("detectedSkills", c.report.DetectedSkills, show)
	quoted := func(names []string) string {
		texts := make([]string, len(names))
		for i, name := range names {
			texts[i] = jsonText(name)
		}
		return strings.Join(texts, ", ")
	}
	found := func(name string) int { return count(sure, func(s reportSkill) bool { return s.Skill == name }) }
	switch member {
	case "includes":
		names := matchersOf[string](c.args[0])
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return found(name) > 0 })
		lost := orNone(quoted(missing))
		return expect(len(missing) == 0, fmt.Sprintf("Expected detectedSkills to include all of: %s%s. Missing: %s.", quoted(names), least,
			lost), observed,
			fmt.Sprintf("You were expected to load all required skills%s. Why were these skills missing: %s?", least, lost))
	case "only":
		names := matchersOf[string](c.args[0])
		others := slices.DeleteFunc(slices.Clone(sure), func(s reportSkill) bool { return slices.Contains(names, s.Skill) })
		shown := strings.TrimPrefix(observe("", others, show), "Observed : ")
		wanted := orNone(quoted(names))
		return expect(len(others) == 0, fmt.Sprintf("Expected detectedSkills to contain only: %s%s. Unexpected: %s.", wanted, least, shown),
			observed,
			fmt.Sprintf("You were expected to load only these skills%s: %s. Why did you also load: %s?", least, wanted, shown))
	}
	name := c.args[0].(string)
	n, what := found(name), jsonText(name)
	switch member {
	case "has":
		return expect(n > 0, fmt.Sprintf("Expected detectedSkills to include %s%s.", what, least), observed,
			fmt.Sprintf("You were expected to load the skill %s%s. Why did you not load it?", what, least))
	case "notHas":
		return expect(n == 0, fmt.Sprintf("Expected detectedSkills not to include %s%s.", what, least), observed,
			fmt.Sprintf("You were expected not to load the skill %s%s. Why did you load it anyway?", what, least))
	case "exactlyOne":
		return expect(n == 1, fmt.Sprintf("Expected detectedSkills to include %s exactly once%s, but found %d.", what, least, n), observed,
			fmt.Sprintf("You were expected to load the skill %s exactly once%s, but loaded it %d time(s). Why?", what, least, n))
	}
	want := c.args[1].(int)
	return expect(n == want, fmt.Sprintf("Expected detectedSkills to include %s exactly %d time(s)%s, but found %d.", what, want, least,
		n), observed,
		fmt.Sprintf("You were expected to load the skill %s exactly %d time(s)%s, but loaded it %d time(s). Why?", what, want, least, n))
}

// cut shortens what a message shows.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return fmt.Sprintf("%s... (%d more characters)", string(runes[:most]), len(runes)-most)
	}
	return text
}

func showChange(c Change) string { return c.Path + " (" + c.Kind + ")" }

func (c *checkRun) files(member string) (*checkFailure, error) {
	switch member {
	case "changed", "unchanged", "onlyChanged":
		return c.changes(member)
	}
	path := c.args[0].(string)
	name := jsonText(path)
	if member == "exists" || member == "notExists" {
		_, err := c.ex.env.Stat(c.ex.ctx, path)
		if err != nil && fault.Of(err) != fault.NotFound {
			return nil, err
		}
		if member == "exists" {
			return expect(err == nil, "Expected file "+name+" to exist.", "Observed file: (missing)",
				"You were expected to leave a file "+name+". Why is it not there?"), nil
		}
		return expect(err != nil, "Expected file "+name+" not to exist.", "Observed file: present",
			"You were expected to leave no file "+name+". Why is it there?"), nil
	}
	data, err := c.ex.env.ReadFile(c.ex.ctx, path)
	if err != nil && fault.Of(err) != fault.NotFound {
		return nil, err
	}
	var ok bool
	var detail, question string
	text := string(data)
	observed := "Observed content: " + cut(text, 400)
	switch member {
	case "equals":
		want := c.args[1].(string)
		ok, detail, observed = text == want, fmt.Sprintf("Expected file %s to equal %s.", name, jsonText(cut(want, 400))),
			"Observed content: "+jsonText(cut(text, 400))
		question = "You were expected to leave other content in " + name + ". Why does it differ?"
	case "contains":
		m := c.args[1].(*textMatcher)
		ok, detail = m.matches(text), fmt.Sprintf("Expected file %s to contain text matching %s.", name, m.describe())
		question = fmt.Sprintf("You were expected to leave text matching %s in %s. Why is it not there?", m.describe(), name)
	default:
		m := c.args[1].(*textMatcher)
		ok, detail = !m.matches(text), fmt.Sprintf("Expected file %s not to contain text matching %s.", name, m.describe())
		question = fmt.Sprintf("You were expected to leave no text matching %s in %s. Why is it there?", m.describe(), name)
	}
	if err != nil {
		ok, detail, observed = false, "Expected file "+name+" to exist.", "Observed file: (missing)"
	}
	return expect(ok, detail, observed, question), nil
}

func (c *checkRun) changes(member string) (*checkFailure, error) {
	all, err := c.ex.env.Changes(c.ex.ctx)
	if err != nil {
		return nil, err
	}
	observed := cut(observe("changes", all, showChange), 2000)
	if member == "onlyChanged" {
		allowed := matchersOf[*textMatcher](c.args[0])
		names := orNone(describeAll(allowed, ", "))
		others := slices.DeleteFunc(slices.Clone(all), func(change Change) bool {
			return slices.ContainsFunc(allowed, func(m *textMatcher) bool { return m.matchesPath(change.Path) })
		})
		unexpected := strings.TrimPrefix(observe("", others, showChange), "Observed : ")
		return expect(len(others) == 0, fmt.Sprintf("Expected only files matching one of: %s to be changed. Unexpected: %s.", names,
			unexpected), observed,
			"You were expected to change only files matching one of: "+names+". Why did you change others?"), nil
	}
	m := c.args[0].(*textMatcher)
	found := count(all, func(change Change) bool { return m.matchesPath(change.Path) && (c.kind == "" || change.Kind == c.kind) })
	if member == "unchanged" {
		return expect(found == 0, "Expected no file matching "+m.describe()+" to be changed.", observed,
			"You were expected not to change a file matching "+m.describe()+". Why did you change it?"), nil
	}
	kind := c.kind
	if kind == "" {
		kind = "changed"
	}
	return expect(found > 0, fmt.Sprintf("Expected a file matching %s to be %s.", m.describe(), kind), observed,
		"You were expected to change a file matching "+m.describe()+". Why did you not do that?"), nil
}

func (c *checkRun) diff(member string) (*checkFailure, error) {
	text, err := c.ex.env.Diff(c.ex.ctx, c.paths)
	if err != nil {
		return nil, err
	}
	observed := "Observed diff: " + cut(text, 2000)
	if text == "" {
		observed = "Observed diff: (empty)"
	}
	switch member {
	case "empty":
		return expect(text == "", "Expected the diff to be empty.", observed,
			"You were expected to change nothing. Why did you change files?"), nil
	case "notEmpty":
		return expect(text != "", "Expected the diff not to be empty.", observed,
			"You were expected to change something. Why did you not do that?"), nil
	}
	m := c.args[0].(*textMatcher)
	if member == "includes" {
		return expect(m.matches(text), "Expected the diff to contain text matching "+m.describe()+".", observed,
			"You were expected to make a change matching "+m.describe()+". Why did you not do that?"), nil
	}
	return expect(!m.matches(text), "Expected the diff not to contain text matching "+m.describe()+".", observed,
		"You were expected not to make a change matching "+m.describe()+". Why did you make it?"), nil
}

func (c *checkRun) command() (*checkFailure, error) {
	want := c.args[0].(*runCheck)
	got, err := c.ex.env.Run(c.ex.ctx, want.Command)
	if err != nil {
		return nil, err
	}
	ended := fmt.Sprintf("exit %d", got.ExitCode)
	if got.TimedOut {
		ended = "timed out"
	}
	shown := jsonText(want.shown)
	seen := fmt.Sprintf("Observed: %s, stdout %s, stderr %s", ended, jsonText(cut(got.Stdout, 1000)), jsonText(cut(got.Stderr, 1000)))
	question := "After your work the command " + shown + " was expected to succeed. Why does it not?"
	if f := expect(!got.TimedOut && got.ExitCode == want.exitCode, fmt.Sprintf("Expected command %s to exit with %d.", shown,
		want.exitCode), seen, question); f != nil {
		return f, nil
	}
	for _, stream := range []struct {
		name, text string
		want       *textMatcher
	}{{"stdout", got.Stdout, want.stdout}, {"stderr", got.Stderr, want.stderr}} {
		if stream.want != nil && !stream.want.matches(stream.text) {
			return expect(false, fmt.Sprintf("Expected %s of command %s to match %s.", stream.name, shown, stream.want.describe()), seen,
				question), nil
		}
	}
	return nil, nil
}

// used is what is known of the cost: from the run, else from the report itself.
func (c *checkRun) used() (map[string]any, error) {
	amounts := map[string]any{}
	maps.Copy(amounts, c.report.Usage)
	if c.report.Events != nil {
		amounts["toolCalls"], amounts["commands"] = len(c.report.eventsOf("toolCall")), len(c.report.eventsOf("command"))
	}
	if c.report.DurationMs != nil {
		amounts["durationMs"] = *c.report.DurationMs
	}
	raw, err := json.Marshal(c.ex.info.Usage)
	if err == nil {
		err = json.Unmarshal(raw, &amounts)
	}
	return amounts, err
}

func (c *checkRun) budget() (*checkFailure, error) {
	amounts, err := c.used()
	if err != nil {
		return nil, err
	}
	var limits, over, seen []string
	for _, l := range c.args[0].([]budgetLimit) {
		amount := "(unknown)"
		n, known := amounts[l.unit].(float64)
		if whole, ok := amounts[l.unit].(int); ok {
			n, known = float64(whole), true
		}
		if known {
			amount = strconv.FormatFloat(n, 'f', -1, 64)
		}
		limits = append(limits, l.unit+" <= "+strconv.FormatFloat(l.most, 'f', -1, 64))
		seen = append(seen, l.unit+" "+amount)
		if !known || n > l.most {
			over = append(over, l.unit)
		}
	}
	names := strings.Join(over, ", ")
	return expect(len(over) == 0, fmt.Sprintf("Expected use within budget: %s. Exceeded: %s.", strings.Join(limits, ", "), names),
		"Observed: "+strings.Join(seen, ", "),
		"You were expected to stay within a budget, and exceeded "+names+". Why?"), nil
}

func (c *checkRun) judge() (*checkFailure, error) {
	want := c.args[0].(*judgeCheck)
	q := want.Judge
	if q.Subject == "" {
		q.Subject = c.report.FinalOutput
	}
	got, err := c.ex.askJudge(q)
	if err != nil {
		return nil, err
	}
	ok, least := got.Pass, ""
	if want.minScore != nil {
		ok, least = got.Score >= *want.minScore, fmt.Sprintf(" (score >= %v)", *want.minScore)
	}
	return expect(ok, fmt.Sprintf("Expected the judge to accept: %s%s.", q.Rubric, least), fmt.Sprintf("Observed score %v: %s", got.Score,
		got.Reason),
		fmt.Sprintf("Your work was judged by this rubric: %s. It was not accepted: %s. Why?", q.Rubric, got.Reason)), nil
}

var errNoWorkspace = fmt.Errorf("suite: look at the workspace: %w: this execution has no workspace to look at", fault.Unsupported)

// runChecks makes the checks of a case, until one fails that is not soft. Its outcome is that of
// run.js for the same assertions.
func runChecks(ex *execution, checks []*check) (*Outcome, error) {
	out := &Outcome{Passed: true}
	var failed []*checkFailure
	for _, c := range checks {
		f := c.run(ex)
		if err := ex.ctx.Err(); err != nil {
			return nil, fmt.Errorf("suite: %w", fault.Of(err))
		}
		if f != nil {
			failed = append(failed, f)
		}
		if f != nil && !f.Soft {
			break
		}
	}
	if len(failed) == 0 {
		return out, nil
	}
	out.Passed, out.Origin = false, OriginAssertion
	for _, f := range failed {
		if f.Soft {
			out.Soft = append(out.Soft, f.info())
		}
		if f.Question != "" && !f.Hook {
			out.Questions = append(out.Questions, Question{f.Question, f.Place})
		}
		if out.Class == nil {
			out.Class = f.Class
		}
	}
	first := failed[0].info()
	out.Error = &first
	if len(out.Soft) == 0 {
		if failed[0].Hook {
			out.Origin = OriginHook
		}
		return out, nil
	}
	plural := "s"
	if len(failed) == 1 {
		plural = ""
	}
	lines := []string{fmt.Sprintf("%d assertion failure%s collected during case execution:", len(failed), plural)}
	stacks := []string{""}
	for i, f := range failed {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, f.text()))
		stacks = append(stacks, fmt.Sprintf("Assertion %d\n%s", i+1, f.info().Stack))
	}
	out.Error.Message = strings.Join(lines, "\n")
	stacks[0] = "AssertionError: " + out.Error.Message
	out.Error.Name, out.Error.Stack = "AssertionError", strings.Join(stacks, "\n\n")
	return out, nil
}

// text is the line of the failure in a sum.
func (f *checkFailure) text() string {
	if f.Hook {
		return "Error: " + f.Message
	}
	return f.Message
}

func (f *checkFailure) info() ErrorInfo {
	name, head := "AssertionError", "AssertionError [ERR_ASSERTION]: "
	if f.Hook {
		name, head = "Error", "Error: "
	}
	return ErrorInfo{Name: name, Message: f.Message, Frame: &f.frame,
		Stack: fmt.Sprintf("%s%s\n    at %s:%s:%s", head, f.Message, f.Place.FilePath, f.Place.Line, f.Place.Column)}
}

// A yamlPlan is a suite in YAML: what its module would export, and its checks.
type yamlPlan struct {
	exports *dataObject
	checks  []*check
	plain   map[string][]*check // of the cases without JavaScript, by id
	scripts bool                // some case has JavaScript
}

// check makes a check by its number, for a case that has JavaScript, too.
func (p *yamlPlan) check(ex *execution, args []json.RawMessage) (any, error) {
	var number int
	if err := readArgs(args, &number); err != nil {
		return nil, err
	}
	if p == nil || number < 0 || number >= len(p.checks) {
		return nil, errors.New("there is no such check")
	}
	if f := p.checks[number].run(ex); f != nil {
		return f, nil
	}
	return nil, nil
}

// plainChecks returns the checks of a case that has no JavaScript; false where Node is asked.
func (p *yamlPlan) plainChecks(verb, caseID string) ([]*check, bool) {
	if p == nil || verb != "assert" {
		return nil, false
	}
	checks, ok := p.plain[caseID]
	return checks, ok
}
