package suite

import (
	"fmt"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/strictyaml"
)

// yamlSuite reads a suite in YAML, and generates a module for its JavaScript. Each script is at its
// line and column of the file, so that stack traces have the positions of the YAML file.
func yamlSuite(path string) (bundleInput, error) {
	doc, err := parseYAMLFile("load", path)
	if err != nil {
		return bundleInput{}, err
	}
	plan, text, bad, broken := doc.readSuite(path)
	if broken != nil {
		return bundleInput{}, &Error{Verb: "load", File: path + broken.At.String(), Code: fault.InvalidArgument, Message: broken.Text}
	}
	if bad != nil {
		return bundleInput{}, &Error{Verb: "load", File: path + doc.positionOf(bad.path), Code: fault.InvalidArgument, Message: bad.message}
	}
	return bundleInput{path: path, text: text, plan: plan}, nil
}

// readSuite reads a suite, and generates its module. broken is the first script with a syntax
// error.
func (d *yamlDocument) readSuite(file string) (plan *yamlPlan, text string, bad *badValue, broken *strictyaml.Error) {
	r := &valueReader{what: "suite"}
	plan = &yamlPlan{exports: newObject(), plain: map[string][]*check{}}
	top := r.readObject(d.value, "", "cases", "workspace")
	w := &layout{plan: plan, file: file}
	w.write(`import { check } from "croft:builtin/checks"; import { assert, commandMatcher } from "skillgym"; const run = [], classes = [];`)
	var out []string
	var list dataList
	each := func(v any, path, id string) {
		data, expr := d.writeCase(r, w, v, path, id)
		list, out = append(list, data), append(out, expr)
	}
	switch cases := top.get("cases").(type) {
	case dataList:
		for i, c := range cases {
			each(c, fmt.Sprintf("cases[%d]", i), "")
		}
	case *dataObject:
		for _, id := range cases.keys {
			each(cases.fields[id], joinPath("cases", id), id)
		}
	default:
		r.reportInvalid("cases", "expected a list of cases, or an object of them by id")
	}
	if r.err == nil && len(out) == 0 {
		r.reportInvalid("cases", "expected at least one case")
	}
	if ws := top.get("workspace"); !isAbsent(ws) {
		r.what = "suite config"
		r.readWorkspace(ws, "workspace")
		plan.exports.set("workspace", ws)
	}
	w.write("\nexport default [" + strings.Join(out, ",") + "];\n")
	plan.exports.set("default", list)
	return plan, w.text(), r.err, w.broken
}

// writeCase writes the JavaScript of a case, and returns the case as data, and as an expression that
// refers to it.
func (d *yamlDocument) writeCase(r *valueReader, w *layout, v any, path, id string) (data *dataObject, expr string) {
	o := r.readObject(v, path, "id", "prompt", "tags", "timeoutMs", "expectedFail", "classifyFailure", "assert")
	data = newObject()
	for _, key := range []string{"id", "prompt", "tags", "timeoutMs", "expectedFail"} {
		if f := o.get(key); !isAbsent(f) {
			data.set(key, f)
		}
	}
	if isAbsent(data.get("id")) && id != "" {
		data.set("id", id)
	}
	data.set("assert", aFunction)
	id = r.requireText(data.get("id"), joinPath(path, "id"))
	r.requireText(o.get("prompt"), joinPath(path, "prompt"))
	r.readMillis(o.get("timeoutMs"), joinPath(path, "timeoutMs"))
	r.readTexts(o.get("tags"), joinPath(path, "tags"))
	r.readBool(o.get("expectedFail"), joinPath(path, "expectedFail"))

	from := w.asserts
	checks, plain := d.readAssertions(r, w, o.get("assert"), joinPath(path, "assert"))
	if plain {
		w.plan.plain[id] = checks
	}
	expr = fmt.Sprintf("{id: %s, async assert(report, ctx) { for (const step of run.slice(%d, %d)) await step(report, ctx); }",
		jsonText(id), from, w.asserts)
	if script := r.readText(o.get("classifyFailure"), joinPath(path, "classifyFailure")); script != "" {
		data.set("classifyFailure", aFunction)
		expr += fmt.Sprintf(", classifyFailure(result) { return classes[%d](result); }", w.classes)
		w.classes++
		d.writeScript(w, script, joinPath(path, "classifyFailure"), "classes.push((result) => {")
	}
	return data, expr + "}"
}

// readAssertions reads the assertions of a case: a list of data, or JavaScript, which it writes. plain
// is that there is none.
func (d *yamlDocument) readAssertions(r *valueReader, w *layout, v any, path string) (checks []*check, plain bool) {
	switch x := v.(type) {
	case string:
		w.asserts++
		d.writeScript(w, r.readText(x, path), path, scriptHead)
		return nil, false
	case dataList:
		if len(x) == 0 {
			r.reportInvalid(path, "expected at least one assertion")
		}
		plain = true
		for i, item := range x {
			at := fmt.Sprintf("%s[%d]", path, i)
			c := r.readCheck(item, at)
			w.asserts++
			if c.script != "" {
				plain = false
				d.writeScript(w, c.script, at+".js", scriptHead)
				continue
			}
			c.file, c.position = w.file, d.positions[at]
			w.write(fmt.Sprintf(" run.push(() => check(%d));", len(w.plan.checks)))
			w.plan.checks = append(w.plan.checks, &c)
			checks = append(checks, &c)
		}
	default:
		r.reportInvalid(path, "expected a list of assertions, or JavaScript with report, ctx and assert")
	}
	return checks, plain
}

const scriptHead = "run.push(async (report, ctx) => {"

// writeScript writes JavaScript at its position in the file.
func (d *yamlDocument) writeScript(w *layout, text, path, head string) {
	w.plan.scripts = true
	p := d.positions[path]
	if w.broken == nil {
		w.broken = p.checkScript(text)
	}
	if p.text == 0 { // on the line of its key
		w.writeAt(p.Line-1, 1, head)
		w.writeAt(p.Line, p.Column, text+"\n});")
		return
	}
	w.writeAt(p.text-1, 1, head)
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		w.writeAt(p.text+i, p.indent+1, line)
	}
	w.write("\n});")
}

// checkScript parses a script alone. In the module a script with a bracket too many or too
// few is an error at the code that follows it, which the file does not have.
func (p valuePosition) checkScript(text string) *strictyaml.Error {
	text = strings.TrimRight(text, "\n")
	res := api.Transform("async (report, ctx) => {\n"+text+"\n}", api.TransformOptions{Loader: api.LoaderTS, LogLevel: api.LogLevelSilent,
		LogLimit: 1})
	if len(res.Errors) == 0 || res.Errors[0].Location == nil {
		return nil
	}
	lines := strings.Split(text, "\n")
	bad := res.Errors[0]
	row, column, told := bad.Location.Line-2, bad.Location.Column, bad.Text
	if row >= len(lines) {
		row, column = len(lines)-1, len([]rune(lines[len(lines)-1]))
		told = strings.ReplaceAll(told, `found "}"`, "found the end of the script")
		if !strings.Contains(told, "the end of the script") {
			told = "the brackets of the script do not match: " + told
		}
	}
	at := strictyaml.Position{Line: p.Line, Column: p.Column + column}
	if p.text != 0 {
		at = strictyaml.Position{Line: p.text + row, Column: p.indent + 1 + column}
	}
	return &strictyaml.Error{At: at, Text: told}
}

// A layout is text that is written at given lines and columns, if earlier text has not
// passed them.
type layout struct {
	b            strings.Builder
	line, column int // of what comes next, from 0
	asserts      int // functions in run
	classes      int // functions in classes

	plan *yamlPlan
	file string

	broken *strictyaml.Error // the first script with a syntax error
}

func (w *layout) write(text string) {
	w.b.WriteString(text)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		w.line += strings.Count(text, "\n")
		w.column = len([]rune(text[i+1:]))
		return
	}
	w.column += len([]rune(text))
}

// writeAt writes text at a position, counted from 1, or at the first one behind it.
func (w *layout) writeAt(line, column int, text string) {
	if n := line - 1 - w.line; n > 0 {
		w.write(strings.Repeat("\n", n))
	}
	if n := column - 1 - w.column; n > 0 && line-1 == w.line {
		w.write(strings.Repeat(" ", n))
	}
	w.write(text)
}

func (w *layout) text() string { return w.b.String() }
