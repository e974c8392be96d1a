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
		"skills.count": {{"skill", aText}, {"count", aNumber}}, "skills.exactlyOne": {{"skill", aText}}, "skills.only": {{"skills", aList | aText}},

		"toolCalls.has": {{"matcher", aTool}}, "toolCalls.count": {{"matcher", aTool}, {"count", aNumber}},
		"toolCalls.atLeast": {{"matcher", aTool}, {"min", aNumber}}, "toolCalls.atMost": {{"matcher", aTool}, {"max", aNumber}},
		"toolCalls.before":   {{"first", aTool}, {"second", aTool}},
		"toolCalls.sequence": {{"matchers", aList | aTool}}, "toolCalls.only": {{"matchers", aList | aTool}},

		"output.includes": {{"matcher", aMatcher}}, "output.notEmpty": {{"", aTrue}},

		"files.exists": {{"path", aText}}, "files.notExists": {{"path", aText}},
		"files.contains": {{"path", aText}, {"matcher", aMatcher}}, "files.notContains": {{"path", aText}, {"matcher", aMatcher}},
		"files.equals": {{"path", aText}, {"text", aText}}, "files.changed": {{"path", aPath}}, "files.unchanged": {{"path", aPath}},
		"files.onlyChanged": {{"paths", pathOrList}},

		"diff.includes": {{"matcher", aMatcher}}, "diff.notIncludes": {{"matcher", aMatcher}}, "diff.empty": {{"", aTrue}}, "diff.notEmpty": {{"", aTrue}},

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

// A check is one assertion as data, as checks.js takes it.
type check struct {
	Name    string         `json:"name"`
	Args    []any          `json:"args"`
	Soft    bool           `json:"soft,omitempty"`
	Class   any            `json:"class,omitempty"`
	Options map[string]any `json:"options,omitempty"`
	script  string         // JavaScript
}

// readCheck reads an assertion that is written as data: one key is its name.
func (r *valueReader) readCheck(v any, path string) check {
	o := r.readObject(v, path)
	var c check
	for _, key := range o.keys {
		switch _, known := checks[key]; {
		case known && c.Name == "":
			c.Name = key
		case known:
			r.reportInvalid(joinPath(path, key), "expected one assertion in each entry; this one has %s, too", c.Name)
		case !slices.Contains(checkOptions, key):
			r.setError(joinPath(path, key), unknownCheck(key))
		}
	}
	if c.Name == "" {
		r.reportInvalid(path, "expected an assertion: one of %s", strings.Join(checkNames, ", "))
		return c
	}
	r.checkOptions(o, path, &c)
	at := joinPath(path, c.Name)
	params := checks[c.Name]
	if params[0].kind == aScript {
		c.script = r.requireText(o.get(c.Name), at)
		return c
	}
	c.Args = r.readArguments(o.get(c.Name), at, params)
	return c
}

func (r *valueReader) checkOptions(o *dataObject, path string, c *check) {
	c.Soft = r.readBool(o.get("soft"), joinPath(path, "soft"))
	c.Options = map[string]any{}
	if s := r.readText(o.get("message"), joinPath(path, "message")); s != "" {
		c.Options["message"] = s
	}
	if s := r.readText(o.get("question"), joinPath(path, "question")); s != "" {
		c.Options["explain"] = map[string]any{"question": s}
	}
	group, _, _ := strings.Cut(c.Name, ".")
	only := func(key, for_ string) bool {
		if isAbsent(o.get(key)) {
			return false
		}
		if group != for_ && c.Name != for_ {
			r.reportInvalid(joinPath(path, key), "expected this key to be omitted: it is for %s", for_)
		}
		return true
	}
	if only("minConfidence", "skills") {
		c.Options["minConfidence"] = r.readEnum(o.get("minConfidence"), joinPath(path, "minConfidence"), "weak", "medium", "strong", "explicit")
	}
	if only("kind", "files.changed") {
		c.Options["kind"] = r.readEnum(o.get("kind"), joinPath(path, "kind"), Added, Modified, Deleted)
	}
	if only("paths", "diff") {
		c.Options["paths"] = r.readTexts(o.get("paths"), joinPath(path, "paths"))
	}
	switch class := o.get("class").(type) {
	case undefined:
	case string:
		c.Class = r.readText(class, joinPath(path, "class"))
	default:
		f := r.readObject(class, joinPath(path, "class"), "id", "label")
		made := map[string]any{"id": r.requireText(f.get("id"), joinPath(path, "class.id"))}
		if label := r.readText(f.get("label"), joinPath(path, "class.label")); label != "" {
			made["label"] = label
		}
		c.Class = made
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
func (r *valueReader) readMatcher(v any, path string) any {
	if s, ok := v.(string); ok {
		return s
	}
	if _, ok := v.(*dataObject); !ok {
		r.reportInvalid(path, "expected a string, or an object with regex")
		return ""
	}
	o := r.readObject(v, path, "regex", "flags")
	m := map[string]any{"regex": r.requireText(o.get("regex"), joinPath(path, "regex"))}
	flags := r.readText(o.get("flags"), joinPath(path, "flags"))
	if strings.Trim(flags, "imsu") != "" {
		r.reportInvalid(joinPath(path, "flags"), "expected letters of i, m, s and u")
	}
	m["flags"] = flags
	return m
}

func (r *valueReader) commandMatcher(v any, path string) any {
	o, ok := v.(*dataObject)
	if !ok || !isAbsent(o.get("regex")) {
		return r.readMatcher(v, path)
	}
	r.readObject(v, path, "executable", "positionals", "options", "endOfOptions", "strict", "exact")
	m := map[string]any{}
	if e := o.get("executable"); !isAbsent(e) {
		m["executable"] = r.readMatcher(e, joinPath(path, "executable"))
	}
	if p := o.get("positionals"); !isAbsent(p) {
		m["positionals"] = r.readList(p, joinPath(path, "positionals"), aMatcher)
	}
	if p := o.get("options"); !isAbsent(p) {
		options := r.readObject(p, joinPath(path, "options"))
		made := map[string]any{}
		for _, name := range options.keys {
			made[name] = r.optionValue(options.fields[name], joinPath(path, "options."+name))
		}
		m["options"] = made
	}
	for _, key := range []string{"endOfOptions", "strict", "exact"} {
		if f := o.get(key); !isAbsent(f) {
			m[key] = r.readBool(f, joinPath(path, key))
		}
	}
	return m
}

func (r *valueReader) optionValue(v any, path string) any {
	if items, ok := v.(dataList); ok {
		out := make([]any, len(items))
		for i, item := range items {
			out[i] = r.optionValue(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return out
	}
	if v == true {
		return true
	}
	return r.readMatcher(v, path)
}

// toolMatcher reads {tool, args}: a call matches if its arguments include these.
func (r *valueReader) toolMatcher(v any, path string) any {
	if s, ok := v.(string); ok {
		return map[string]any{"tool": s}
	}
	o := r.readObject(v, path, "tool", "args", "regex", "flags")
	if !isAbsent(o.get("regex")) {
		return map[string]any{"tool": r.readMatcher(v, path)}
	}
	m := map[string]any{}
	if t := o.get("tool"); !isAbsent(t) {
		m["tool"] = r.readMatcher(t, joinPath(path, "tool"))
	}
	if a := o.get("args"); !isAbsent(a) {
		m["args"] = toPlain(r.readObject(a, joinPath(path, "args")))
	}
	return m
}

// runArgument reads a command: a script, a list of words, or an object with options.
func (r *valueReader) runArgument(v any, path string) any {
	switch v.(type) {
	case string, dataList:
		v = &dataObject{keys: []string{"command"}, fields: map[string]any{"command": v}}
	}
	o := r.readObject(v, path, "command", "cwd", "env", "stdin", "timeoutMs", "exitCode", "stdout", "stderr")
	m := map[string]any{}
	switch c := o.get("command").(type) {
	case dataList:
		m["command"] = r.readTexts(c, joinPath(path, "command"))
		if len(c) == 0 {
			r.reportInvalid(joinPath(path, "command"), "expected a program and its arguments")
		}
	default:
		m["command"] = r.requireText(c, joinPath(path, "command"))
	}
	for _, key := range []string{"cwd", "stdin"} {
		if s := r.readText(o.get(key), joinPath(path, key)); s != "" {
			m[key] = s
		}
	}
	if env := r.readEnv(o.get("env"), joinPath(path, "env")); env != nil {
		m["env"] = env
	}
	if t := o.get("timeoutMs"); !isAbsent(t) {
		m["timeoutMs"] = r.readInt(t, joinPath(path, "timeoutMs"), 1)
	}
	if c := o.get("exitCode"); !isAbsent(c) {
		m["exitCode"] = r.readInt(c, joinPath(path, "exitCode"), 0)
	}
	for _, key := range []string{"stdout", "stderr"} {
		if s := o.get(key); !isAbsent(s) {
			m[key] = r.readMatcher(s, joinPath(path, key))
		}
	}
	return m
}

// budgetUnits are the quantities that can be limited.
var budgetUnits = []string{"durationMs", "inputTokens", "outputTokens", "totalTokens", "costUsd", "steps", "toolCalls", "commands", "peakMemoryBytes", "requests"}

func (r *valueReader) readBudget(v any, path string) any {
	o := r.readObject(v, path, budgetUnits...)
	if len(o.keys) == 0 {
		r.reportInvalid(path, "expected at least one limit of %s", strings.Join(budgetUnits, ", "))
	}
	m := map[string]any{}
	for _, key := range o.keys {
		if n := r.readNumber(o.fields[key], joinPath(path, key)); n != nil {
			m[key] = *n
		}
	}
	return m
}

func (r *valueReader) readJudgment(v any, path string) any {
	if s, ok := v.(string); ok {
		return map[string]any{"rubric": r.readText(s, path)}
	}
	o := r.readObject(v, path, "rubric", "subject", "files", "diff", "model", "minScore")
	m := map[string]any{"rubric": r.requireText(o.get("rubric"), joinPath(path, "rubric")), "diff": r.readBool(o.get("diff"), joinPath(path, "diff"))}
	for _, key := range []string{"subject", "model"} {
		if s := r.readText(o.get(key), joinPath(path, key)); s != "" {
			m[key] = s
		}
	}
	if f := r.readTexts(o.get("files"), joinPath(path, "files")); f != nil {
		m["files"] = f
	}
	if n := r.readNumber(o.get("minScore"), joinPath(path, "minScore")); n != nil {
		m["minScore"] = *n
	}
	return m
}
