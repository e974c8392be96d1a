package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/suggest"
)

// A param is one argument of an assertion that is written as data.
type param struct {
	name string
	kind paramKind
}

type paramKind int

const (
	aText     paramKind = iota + 1 // a string
	aMatcher                       // a string, or {regex, flags}
	aCommand                       // a matcher, or a structured one
	aTool                          // {tool, args}
	aNumber                        // a whole number of at least 0
	aPath                          // a path, a glob, or {regex, flags}
	aTrue                          // true: the assertion takes nothing
	aRun                           // a command for the workspace
	aBudget                        // limits
	aJudgment                      // a rubric
	aScript                        // JavaScript

	aList      paramKind = 1 << 8        // with one of the above: a list of them
	pathOrList           = aList | aPath // or one
)

// checks are the assertions that can be written as data, with their parameters.
var checks = func() map[string][]param {
	m := map[string][]param{
		"skills.has": {{"skill", aText}}, "skills.notHas": {{"skill", aText}}, "skills.includes": {{"skills", aList | aText}},
		"skills.count": {{"skill", aText}, {"count", aNumber}}, "skills.exactlyOne": {{"skill", aText}}, "skills.only": {{"skills",
			aList | aText}},

		"toolCalls.has": {{"matcher", aTool}}, "toolCalls.count": {{"matcher", aTool}, {"count", aNumber}},
		"toolCalls.atLeast": {{"matcher", aTool}, {"min", aNumber}}, "toolCalls.atMost": {{"matcher", aTool}, {"max", aNumber}},
		"toolCalls.before":   {{"first", aTool}, {"second", aTool}},
		"toolCalls.sequence": {{"matchers", aList | aTool}}, "toolCalls.only": {{"matchers", aList | aTool}},

		"output.includes": {{"matcher", aMatcher}}, "output.notEmpty": {{"", aTrue}},

		"files.exists": {{"path", aText}}, "files.notExists": {{"path", aText}},
		"files.contains": {{"path", aText}, {"matcher", aMatcher}}, "files.notContains": {{"path", aText}, {"matcher", aMatcher}},
		"files.equals": {{"path", aText}, {"text", aText}}, "files.changed": {{"path", aPath}}, "files.unchanged": {{"path", aPath}},
		"files.onlyChanged": {{"paths", pathOrList}},

		"diff.includes": {{"matcher", aMatcher}}, "diff.notIncludes": {{"matcher", aMatcher}}, "diff.empty": {{"", aTrue}},
		"diff.notEmpty": {{"", aTrue}},

		"workspace.run": {{"command", aRun}}, "budget": {{"limits", aBudget}}, "judge": {{"rubric", aJudgment}}, "js": {{"script", aScript}},
	}
	for group, one := range map[string]paramKind{"commands": aCommand, "fileReads": aMatcher} {
		for _, name := range []string{"includes", "notIncludes", "exactlyOne", "first", "last"} {
			m[group+"."+name] = []param{{"matcher", one}}
		}
		m[group+".count"] = []param{{"matcher", one}, {"count", aNumber}}
		m[group+".atLeast"] = []param{{"matcher", one}, {"min", aNumber}}
		m[group+".atMost"] = []param{{"matcher", one}, {"max", aNumber}}
		m[group+".before"] = []param{{"first", one}, {"second", one}}
		m[group+".only"] = []param{{"matchers", aList | one}}
		m[group+".size"] = []param{{"count", aNumber}}
	}
	return m
}()

// checkNames are the names of checks, sorted.
var checkNames = slices.Sorted(maps.Keys(checks))

// checkOptions are the keys that may stand beside an assertion.
var checkOptions = []string{"soft", "message", "question", "class", "minConfidence", "kind", "paths"}

// A check is one assertion as data. Its arguments are strings, integers, matchers, and lists of them.
type check struct {
	name          string
	args          []any
	soft          bool
	class         *FailureClass // nil: the default
	message       string        // precedes the message of a failure
	question      string        // "" is that of the assertion
	minConfidence string
	kind          string
	paths         []string
	script        string // JavaScript

	file     string // with its position
	position valuePosition
}

// readCheck reads an assertion that is written as data: one key is its name.
func (r *valueReader) readCheck(v any, path string) check {
	o := r.readObject(v, path)
	var c check
	for _, key := range o.keys {
		switch _, known := checks[key]; {
		case known && c.name == "":
			c.name = key
		case known:
			r.reportInvalid(joinPath(path, key), "expected one assertion in each entry; this one has %s, too", c.name)
		case !slices.Contains(checkOptions, key):
			r.setError(joinPath(path, key), unknownCheck(key))
		}
	}
	if c.name == "" {
		r.reportInvalid(path, "expected an assertion: one of %s", strings.Join(checkNames, ", "))
		return c
	}
	r.checkOptions(o, path, &c)
	at := joinPath(path, c.name)
	params := checks[c.name]
	if params[0].kind == aScript {
		c.script = r.requireText(o.get(c.name), at)
		return c
	}
	c.args = r.readArguments(o.get(c.name), at, params)
	return c
}

func (r *valueReader) checkOptions(o *dataObject, path string, c *check) {
	c.soft = r.readBool(o.get("soft"), joinPath(path, "soft"))
	c.message = r.readText(o.get("message"), joinPath(path, "message"))
	c.question = r.readText(o.get("question"), joinPath(path, "question"))
	group, _, _ := strings.Cut(c.name, ".")
	only := func(key, for_ string) bool {
		if isAbsent(o.get(key)) {
			return false
		}
		if group != for_ && c.name != for_ {
			r.reportInvalid(joinPath(path, key), "expected this key to be omitted: it is for %s", for_)
		}
		return true
	}
	if only("minConfidence", "skills") {
		c.minConfidence = r.readEnum(o.get("minConfidence"), joinPath(path, "minConfidence"), "weak", "medium", "strong", "explicit")
	}
	if only("kind", "files.changed") {
		c.kind = r.readEnum(o.get("kind"), joinPath(path, "kind"), Added, Modified, Deleted)
	}
	if only("paths", "diff") {
		c.paths = r.readTexts(o.get("paths"), joinPath(path, "paths"))
	}
	switch class := o.get("class").(type) {
	case undefined:
	case string:
		c.class = &FailureClass{ID: r.readText(class, joinPath(path, "class"))}
	default:
		f := r.readObject(class, joinPath(path, "class"), "id", "label")
		c.class = &FailureClass{ID: r.requireText(f.get("id"), joinPath(path, "class.id")), Label: r.readText(f.get("label"), joinPath(path,
			"class.label"))}
	}
}

// readArguments reads the arguments of an assertion: the only one, or a list or an object
// of all.
func (r *valueReader) readArguments(v any, path string, params []param) []any {
	if len(params) == 1 {
		if params[0].kind == aTrue {
			if v != true {
				r.reportInvalid(path, "expected true")
			}
			return []any{}
		}
		return []any{r.readArgument(v, path, params[0].kind)}
	}
	args := make([]any, len(params))
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	if items, ok := v.(dataList); ok {
		if len(items) != len(params) {
			r.reportInvalid(path, "expected %d items: %s", len(params), strings.Join(names, ", "))
			return args
		}
		for i, p := range params {
			args[i] = r.readArgument(items[i], fmt.Sprintf("%s[%d]", path, i), p.kind)
		}
		return args
	}
	o := r.readObject(v, path, names...)
	for i, p := range params {
		args[i] = r.readArgument(o.get(p.name), joinPath(path, p.name), p.kind)
	}
	return args
}

// readArgument reads one argument.
func (r *valueReader) readArgument(v any, path string, kind paramKind) any {
	if kind&aList != 0 {
		if _, ok := v.(dataList); kind == pathOrList && !ok {
			return []any{r.readArgument(v, path, aPath)}
		}
		return r.readList(v, path, kind&^aList)
	}
	switch kind {
	case aText:
		return r.requireText(v, path)
	case aNumber:
		if isAbsent(v) {
			r.reportInvalid(path, "expected integer >= 0")
		}
		return r.readInt(v, path, 0)
	case aMatcher, aPath:
		return r.readMatcher(v, path)
	case aCommand:
		return r.commandMatcher(v, path)
	case aTool:
		return r.toolMatcher(v, path)
	case aRun:
		return r.runArgument(v, path)
	case aBudget:
		return r.readBudget(v, path)
	case aJudgment:
		return r.readJudgment(v, path)
	}
	return nil
}

// unknownCheck suggests similar names for an unknown key, else lists all.
func unknownCheck(key string) string {
	text := "Unknown assertion or option: " + key
	if hint := suggest.Hint(key, slices.Concat(checkNames, checkOptions)); hint != "" {
		return text + hint
	}
	group, _, _ := strings.Cut(key, ".")
	members := slices.DeleteFunc(slices.Clone(checkNames), func(name string) bool { return !strings.HasPrefix(name, group+".") })
	if len(members) > 0 {
		return text + " (there are " + strings.Join(members, ", ") + ")"
	}
	return fmt.Sprintf("%s (assertions: %s; options: %s)", text, strings.Join(checkNames, ", "), strings.Join(checkOptions, ", "))
}

func (r *valueReader) readList(v any, path string, kind paramKind) []any {
	items, ok := v.(dataList)
	if !ok {
		r.reportInvalid(path, "expected a list")
	}
	out := make([]any, 0, len(items))
	for i, item := range items {
		out = append(out, r.readArgument(item, fmt.Sprintf("%s[%d]", path, i), kind))
	}
	return out
}

// readMatcher reads a text, or a regular expression as {regex, flags}.
func (r *valueReader) readMatcher(v any, path string) *textMatcher {
	if s, ok := v.(string); ok {
		return &textMatcher{text: s}
	}
	if _, ok := v.(*dataObject); !ok {
		r.reportInvalid(path, "expected a string, or an object with regex")
		return &textMatcher{}
	}
	o := r.readObject(v, path, "regex", "flags")
	m := &textMatcher{text: r.requireText(o.get("regex"), joinPath(path, "regex")), flags: r.readText(o.get("flags"), joinPath(path, "flags"))}
	if strings.Trim(m.flags, "imsu") != "" {
		r.reportInvalid(joinPath(path, "flags"), "expected letters of i, m, s and u")
		return m
	}
	var err error
	if m.regexp, err = newRegexp(m.text, m.flags); err != nil {
		r.reportInvalid(joinPath(path, "regex"), "expected a regular expression of Go (https://golang.org/s/re2syntax): %v. "+
			"An assertion js takes those of JavaScript", err)
	}
	return m
}

func (r *valueReader) readMatchers(v any, path string) []*textMatcher {
	items, ok := v.(dataList)
	if !ok {
		r.reportInvalid(path, "expected a list")
	}
	out := make([]*textMatcher, len(items))
	for i, item := range items {
		out[i] = r.readMatcher(item, fmt.Sprintf("%s[%d]", path, i))
	}
	return out
}

func (r *valueReader) commandMatcher(v any, path string) matcher {
	o, ok := v.(*dataObject)
	if !ok || !isAbsent(o.get("regex")) {
		return r.readMatcher(v, path)
	}
	r.readObject(v, path, "executable", "positionals", "options", "endOfOptions", "strict", "exact")
	m := &commandMatcher{}
	if e := o.get("executable"); !isAbsent(e) {
		m.executable = r.readMatcher(e, joinPath(path, "executable"))
	}
	if p := o.get("positionals"); !isAbsent(p) {
		m.positionals = r.readMatchers(p, joinPath(path, "positionals"))
	}
	if p := o.get("options"); !isAbsent(p) {
		options := r.readObject(p, joinPath(path, "options"))
		for _, name := range options.keys {
			m.options = append(m.options, optionMatcher{name, r.optionValues(options.fields[name], joinPath(path, "options."+name))})
		}
	}
	if end := o.get("endOfOptions"); !isAbsent(end) {
		m.endOfOptions = new(r.readBool(end, joinPath(path, "endOfOptions")))
	}
	strict, exact := r.readBool(o.get("strict"), joinPath(path, "strict")), r.readBool(o.get("exact"), joinPath(path, "exact"))
	m.strict = strict || exact
	return m
}

// optionValues reads the values of an option: true, a matcher, or a list of them.
func (r *valueReader) optionValues(v any, path string) []*textMatcher {
	if v == true {
		return []*textMatcher{nil}
	}
	items, ok := v.(dataList)
	if !ok {
		return []*textMatcher{r.readMatcher(v, path)}
	}
	var out []*textMatcher
	for i, item := range items {
		out = append(out, r.optionValues(item, fmt.Sprintf("%s[%d]", path, i))...)
	}
	return out
}

// toolMatcher reads {tool, args}: a call matches if its arguments include these.
func (r *valueReader) toolMatcher(v any, path string) *toolMatcher {
	if s, ok := v.(string); ok {
		return &toolMatcher{tool: &textMatcher{text: s}}
	}
	o := r.readObject(v, path, "tool", "args", "regex", "flags")
	if !isAbsent(o.get("regex")) {
		return &toolMatcher{tool: r.readMatcher(v, path)}
	}
	m := &toolMatcher{}
	if t := o.get("tool"); !isAbsent(t) {
		m.tool = r.readMatcher(t, joinPath(path, "tool"))
	}
	if a := o.get("args"); !isAbsent(a) {
		m.args = r.readWanted(r.readObject(a, joinPath(path, "args")), joinPath(path, "args"))
	}
	return m
}

// readWanted reads data for covers, with an expression in each object that has regex.
func (r *valueReader) readWanted(v any, path string) any {
	switch x := v.(type) {
	case dataList:
		out := make([]any, len(x))
		for i := range x {
			out[i] = r.readWanted(x[i], fmt.Sprintf("%s[%d]", path, i))
		}
		return out
	case *dataObject:
		if _, ok := x.get("regex").(string); ok {
			return r.readMatcher(x, path)
		}
		out := map[string]any{}
		for _, key := range x.keys {
			out[key] = r.readWanted(x.fields[key], joinPath(path, key))
		}
		return out
	}
	return toPlain(v)
}

// A runCheck is a command for the workspace, and how it must end.
type runCheck struct {
	Command
	shown          string
	exitCode       int
	stdout, stderr *textMatcher // nil: any
}

// runArgument reads a command: a script, a list of words, or an object with options.
func (r *valueReader) runArgument(v any, path string) *runCheck {
	switch v.(type) {
	case string, dataList:
		v = &dataObject{keys: []string{"command"}, fields: map[string]any{"command": v}}
	}
	o := r.readObject(v, path, "command", "cwd", "env", "stdin", "timeoutMs", "exitCode", "stdout", "stderr")
	c := &runCheck{}
	switch command := o.get("command").(type) {
	case dataList:
		if c.Argv = r.readTexts(command, joinPath(path, "command")); len(c.Argv) == 0 {
			r.reportInvalid(joinPath(path, "command"), "expected a program and its arguments")
		}
		c.shown = strings.Join(c.Argv, " ")
	default:
		c.Script = r.requireText(command, joinPath(path, "command"))
		c.shown = c.Script
	}
	c.Dir = r.readText(o.get("cwd"), joinPath(path, "cwd"))
	c.Stdin = r.readText(o.get("stdin"), joinPath(path, "stdin"))
	c.Env = r.readEnv(o.get("env"), joinPath(path, "env"))
	c.Timeout = r.readMillis(o.get("timeoutMs"), joinPath(path, "timeoutMs"))
	c.exitCode = r.readInt(o.get("exitCode"), joinPath(path, "exitCode"), 0)
	for key, to := range map[string]**textMatcher{"stdout": &c.stdout, "stderr": &c.stderr} {
		if s := o.get(key); !isAbsent(s) {
			*to = r.readMatcher(s, joinPath(path, key))
		}
	}
	return c
}

// budgetUnits are the quantities that can be limited.
var budgetUnits = []string{"durationMs", "inputTokens", "outputTokens", "totalTokens", "costUsd", "steps", "toolCalls", "commands",
	"peakMemoryBytes", "requests"}

// A budgetLimit is the most that may be used of a quantity.
type budgetLimit struct {
	unit string
	most float64
}

func (r *valueReader) readBudget(v any, path string) []budgetLimit {
	o := r.readObject(v, path, budgetUnits...)
	if len(o.keys) == 0 {
		r.reportInvalid(path, "expected at least one limit of %s", strings.Join(budgetUnits, ", "))
	}
	var limits []budgetLimit
	for _, key := range o.keys {
		if n := r.readNumber(o.fields[key], joinPath(path, key)); n != nil {
			limits = append(limits, budgetLimit{key, *n})
		}
	}
	return limits
}

// A judgeCheck is a question for a judge, and the score that its answer must have.
type judgeCheck struct {
	Judge
	minScore *float64 // nil: the judge says whether it holds
}

func (r *valueReader) readJudgment(v any, path string) *judgeCheck {
	if s, ok := v.(string); ok {
		return &judgeCheck{Judge: Judge{Rubric: r.readText(s, path)}}
	}
	o := r.readObject(v, path, "rubric", "subject", "files", "diff", "model", "minScore")
	text := func(key string) string { return r.readText(o.get(key), joinPath(path, key)) }
	return &judgeCheck{
		Judge: Judge{Rubric: r.requireText(o.get("rubric"), joinPath(path, "rubric")), Subject: text("subject"), Model: text("model"),
			Diff: r.readBool(o.get("diff"), joinPath(path, "diff")), Files: r.readTexts(o.get("files"), joinPath(path, "files"))},
		minScore: r.readNumber(o.get("minScore"), joinPath(path, "minScore")),
	}
}
