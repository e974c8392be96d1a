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

	some      paramKind = 1 << 8       // with one of the above: a list of them
	somePaths           = some | aPath // or one
)

// checks are the assertions that can be written as data: those of the groups, with
// their arguments.
var checks = func() map[string][]param {
	m := map[string][]param{
		"skills.has": {{"skill", aText}}, "skills.notHas": {{"skill", aText}}, "skills.includes": {{"skills", some | aText}},
		"skills.count": {{"skill", aText}, {"count", aNumber}}, "skills.exactlyOne": {{"skill", aText}}, "skills.only": {{"skills", some | aText}},

		"toolCalls.has": {{"matcher", aTool}}, "toolCalls.count": {{"matcher", aTool}, {"count", aNumber}},
		"toolCalls.atLeast": {{"matcher", aTool}, {"min", aNumber}}, "toolCalls.atMost": {{"matcher", aTool}, {"max", aNumber}},
		"toolCalls.before":   {{"first", aTool}, {"second", aTool}},
		"toolCalls.sequence": {{"matchers", some | aTool}}, "toolCalls.only": {{"matchers", some | aTool}},

		"output.includes": {{"matcher", aMatcher}}, "output.notEmpty": {{"", aTrue}},

		"files.exists": {{"path", aText}}, "files.notExists": {{"path", aText}},
		"files.contains": {{"path", aText}, {"matcher", aMatcher}}, "files.notContains": {{"path", aText}, {"matcher", aMatcher}},
		"files.equals": {{"path", aText}, {"text", aText}}, "files.changed": {{"path", aPath}}, "files.unchanged": {{"path", aPath}},
		"files.onlyChanged": {{"paths", somePaths}},

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
		m[group+".only"] = []param{{"matchers", some | one}}
		m[group+".size"] = []param{{"count", aNumber}}
	}
	return m
}()

// checkNames are their names, sorted.
var checkNames = slices.Sorted(maps.Keys(checks))

// checkOptions are what may stand beside an assertion.
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

// check reads an assertion that is written as data: one key is its name.
func (r *reader) check(v any, path string) check {
	o := r.object(v, path)
	var c check
	for _, key := range o.keys {
		switch _, known := checks[key]; {
		case known && c.Name == "":
			c.Name = key
		case known:
			r.bad(join(path, key), "expected one assertion in each entry; this one has %s, too", c.Name)
		case !slices.Contains(checkOptions, key):
			r.fail(join(path, key), unknownCheck(key))
		}
	}
	if c.Name == "" {
		r.bad(path, "expected an assertion: one of %s", strings.Join(checkNames, ", "))
		return c
	}
	r.checkOptions(o, path, &c)
	at := join(path, c.Name)
	params := checks[c.Name]
	if params[0].kind == aScript {
		c.script = r.required(o.get(c.Name), at)
		return c
	}
	c.Args = r.arguments(o.get(c.Name), at, params)
	return c
}

func (r *reader) checkOptions(o *object, path string, c *check) {
	c.Soft = r.flag(o.get("soft"), join(path, "soft"))
	c.Options = map[string]any{}
	if s := r.text(o.get("message"), join(path, "message")); s != "" {
		c.Options["message"] = s
	}
	if s := r.text(o.get("question"), join(path, "question")); s != "" {
		c.Options["explain"] = map[string]any{"question": s}
	}
	group, _, _ := strings.Cut(c.Name, ".")
	only := func(key, for_ string) bool {
		if absent(o.get(key)) {
			return false
		}
		if group != for_ && c.Name != for_ {
			r.bad(join(path, key), "expected this key to be omitted: it is for %s", for_)
		}
		return true
	}
	if only("minConfidence", "skills") {
		c.Options["minConfidence"] = r.oneOf(o.get("minConfidence"), join(path, "minConfidence"), "weak", "medium", "strong", "explicit")
	}
	if only("kind", "files.changed") {
		c.Options["kind"] = r.oneOf(o.get("kind"), join(path, "kind"), Added, Modified, Deleted)
	}
	if only("paths", "diff") {
		c.Options["paths"] = r.texts(o.get("paths"), join(path, "paths"))
	}
	switch class := o.get("class").(type) {
	case undefined:
	case string:
		c.Class = r.text(class, join(path, "class"))
	default:
		f := r.object(class, join(path, "class"), "id", "label")
		made := map[string]any{"id": r.required(f.get("id"), join(path, "class.id"))}
		if label := r.text(f.get("label"), join(path, "class.label")); label != "" {
			made["label"] = label
		}
		c.Class = made
	}
}

// arguments reads the arguments of an assertion: the one it takes, or a list or an
// object of them all.
func (r *reader) arguments(v any, path string, params []param) []any {
	if len(params) == 1 {
		if params[0].kind == aTrue {
			if v != true {
				r.bad(path, "expected true")
			}
			return []any{}
		}
		return []any{r.argument(v, path, params[0].kind)}
	}
	args := make([]any, len(params))
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	if items, ok := v.(list); ok {
		if len(items) != len(params) {
			r.bad(path, "expected %d items: %s", len(params), strings.Join(names, ", "))
			return args
		}
		for i, p := range params {
			args[i] = r.argument(items[i], fmt.Sprintf("%s[%d]", path, i), p.kind)
		}
		return args
	}
	o := r.object(v, path, names...)
	for i, p := range params {
		args[i] = r.argument(o.get(p.name), join(path, p.name), p.kind)
	}
	return args
}

// argument reads one argument.
func (r *reader) argument(v any, path string, kind paramKind) any {
	if kind&some != 0 {
		if _, ok := v.(list); kind == somePaths && !ok {
			return []any{r.argument(v, path, aPath)}
		}
		return r.each(v, path, kind&^some)
	}
	switch kind {
	case aText:
		return r.required(v, path)
	case aNumber:
		if absent(v) {
			r.bad(path, "expected integer >= 0")
		}
		return r.integer(v, path, 0)
	case aMatcher, aPath:
		return r.matcher(v, path)
	case aCommand:
		return r.commandMatcher(v, path)
	case aTool:
		return r.toolMatcher(v, path)
	case aRun:
		return r.runArgument(v, path)
	case aBudget:
		return r.budget(v, path)
	case aJudgment:
		return r.judgment(v, path)
	}
	return nil
}

// unknownCheck says what may have been meant, else all that there is.
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

func (r *reader) each(v any, path string, kind paramKind) []any {
	items, ok := v.(list)
	if !ok {
		r.bad(path, "expected a list")
	}
	out := make([]any, 0, len(items))
	for i, item := range items {
		out = append(out, r.argument(item, fmt.Sprintf("%s[%d]", path, i), kind))
	}
	return out
}

// matcher reads a text, or an expression as {regex, flags}, which goes to JavaScript
// under the same keys.
func (r *reader) matcher(v any, path string) any {
	if s, ok := v.(string); ok {
		return s
	}
	if _, ok := v.(*object); !ok {
		r.bad(path, "expected a string, or an object with regex")
		return ""
	}
	o := r.object(v, path, "regex", "flags")
	m := map[string]any{"regex": r.required(o.get("regex"), join(path, "regex"))}
	flags := r.text(o.get("flags"), join(path, "flags"))
	if strings.Trim(flags, "imsu") != "" {
		r.bad(join(path, "flags"), "expected letters of i, m, s and u")
	}
	m["flags"] = flags
	return m
}

func (r *reader) commandMatcher(v any, path string) any {
	o, ok := v.(*object)
	if !ok || !absent(o.get("regex")) {
		return r.matcher(v, path)
	}
	r.object(v, path, "executable", "positionals", "options", "endOfOptions", "strict", "exact")
	m := map[string]any{}
	if e := o.get("executable"); !absent(e) {
		m["executable"] = r.matcher(e, join(path, "executable"))
	}
	if p := o.get("positionals"); !absent(p) {
		m["positionals"] = r.each(p, join(path, "positionals"), aMatcher)
	}
	if p := o.get("options"); !absent(p) {
		options := r.object(p, join(path, "options"))
		made := map[string]any{}
		for _, name := range options.keys {
			made[name] = r.optionValue(options.fields[name], join(path, "options."+name))
		}
		m["options"] = made
	}
	for _, key := range []string{"endOfOptions", "strict", "exact"} {
		if f := o.get(key); !absent(f) {
			m[key] = r.flag(f, join(path, key))
		}
	}
	return m
}

func (r *reader) optionValue(v any, path string) any {
	if items, ok := v.(list); ok {
		out := make([]any, len(items))
		for i, item := range items {
			out[i] = r.optionValue(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return out
	}
	if v == true {
		return true
	}
	return r.matcher(v, path)
}

// toolMatcher reads {tool, args}: a call fits whose arguments have at least these.
func (r *reader) toolMatcher(v any, path string) any {
	if s, ok := v.(string); ok {
		return map[string]any{"tool": s}
	}
	o := r.object(v, path, "tool", "args", "regex", "flags")
	if !absent(o.get("regex")) {
		return map[string]any{"tool": r.matcher(v, path)}
	}
	m := map[string]any{}
	if t := o.get("tool"); !absent(t) {
		m["tool"] = r.matcher(t, join(path, "tool"))
	}
	if a := o.get("args"); !absent(a) {
		m["args"] = plain(r.object(a, join(path, "args")))
	}
	return m
}

// runArgument reads a command: a text for the shell, a list, or an object with more.
func (r *reader) runArgument(v any, path string) any {
	switch v.(type) {
	case string, list:
		v = &object{keys: []string{"command"}, fields: map[string]any{"command": v}}
	}
	o := r.object(v, path, "command", "cwd", "env", "stdin", "timeoutMs", "exitCode", "stdout", "stderr")
	m := map[string]any{}
	switch c := o.get("command").(type) {
	case list:
		m["command"] = r.texts(c, join(path, "command"))
		if len(c) == 0 {
			r.bad(join(path, "command"), "expected a program and its arguments")
		}
	default:
		m["command"] = r.required(c, join(path, "command"))
	}
	for _, key := range []string{"cwd", "stdin"} {
		if s := r.text(o.get(key), join(path, key)); s != "" {
			m[key] = s
		}
	}
	if env := r.env(o.get("env"), join(path, "env")); env != nil {
		m["env"] = env
	}
	if t := o.get("timeoutMs"); !absent(t) {
		m["timeoutMs"] = r.integer(t, join(path, "timeoutMs"), 1)
	}
	if c := o.get("exitCode"); !absent(c) {
		m["exitCode"] = r.integer(c, join(path, "exitCode"), 0)
	}
	for _, key := range []string{"stdout", "stderr"} {
		if s := o.get(key); !absent(s) {
			m[key] = r.matcher(s, join(path, key))
		}
	}
	return m
}

// budgetUnits are what can be limited.
var budgetUnits = []string{"durationMs", "inputTokens", "outputTokens", "totalTokens", "costUsd", "steps", "toolCalls", "commands", "peakMemoryBytes", "requests"}

func (r *reader) budget(v any, path string) any {
	o := r.object(v, path, budgetUnits...)
	if len(o.keys) == 0 {
		r.bad(path, "expected at least one limit of %s", strings.Join(budgetUnits, ", "))
	}
	m := map[string]any{}
	for _, key := range o.keys {
		if n := r.number(o.fields[key], join(path, key)); n != nil {
			m[key] = *n
		}
	}
	return m
}

func (r *reader) judgment(v any, path string) any {
	if s, ok := v.(string); ok {
		return map[string]any{"rubric": r.text(s, path)}
	}
	o := r.object(v, path, "rubric", "subject", "files", "diff", "model", "minScore")
	m := map[string]any{"rubric": r.required(o.get("rubric"), join(path, "rubric")), "diff": r.flag(o.get("diff"), join(path, "diff"))}
	for _, key := range []string{"subject", "model"} {
		if s := r.text(o.get(key), join(path, key)); s != "" {
			m[key] = s
		}
	}
	if f := r.texts(o.get("files"), join(path, "files")); f != nil {
		m["files"] = f
	}
	if n := r.number(o.get("minScore"), join(path, "minScore")); n != nil {
		m["minScore"] = *n
	}
	return m
}
