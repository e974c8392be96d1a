package suite

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
)

// yamlSuite reads a suite that is written as data, and writes the module that it
// stands for. Each assertion is on its own line and column of the file, so that a
// failure names the place where it was written.
func yamlSuite(path string) (source, error) {
	doc, err := parseYAMLFile("load", path)
	if err != nil {
		return source{}, err
	}
	text, bad := doc.module()
	if bad != nil {
		return source{}, &Error{Verb: "load", File: path + doc.at(bad.path), Code: fault.InvalidArgument, Message: bad.message}
	}
	return source{path: path, text: text}, nil
}

// module is the suite of a document as TypeScript.
func (d *document) module() (string, *badValue) {
	r := &reader{what: "suite"}
	top := r.object(d.value, "", "cases", "workspace")
	w := &layout{}
	w.add(`import { check, ready } from "croft:builtin/checks"; import { assert, commandMatcher } from "skillgym"; const run = [], classes = [];`)
	var out []string
	each := func(v any, path, id string) { out = append(out, d.caseModule(r, w, v, path, id)) }
	switch cases := top.get("cases").(type) {
	case list:
		for i, c := range cases {
			each(c, fmt.Sprintf("cases[%d]", i), "")
		}
	case *object:
		for _, id := range cases.keys {
			each(cases.fields[id], join("cases", id), id)
		}
	default:
		r.bad("cases", "expected a list of cases, or an object of them by id")
	}
	if r.err == nil && len(out) == 0 {
		r.bad("cases", "expected at least one case")
	}
	if ws := top.get("workspace"); !absent(ws) {
		r.what = "suite config"
		r.workspace(ws, "workspace")
		w.add("\nexport const workspace = " + r.json(ws, "workspace") + ";")
	}
	w.add("\nexport default [" + strings.Join(out, ",") + "];\n")
	return w.text(), r.err
}

// caseModule writes the assertions of a case, and returns the case as an expression
// that refers to them.
func (d *document) caseModule(r *reader, w *layout, v any, path, id string) string {
	o := r.object(v, path, "id", "prompt", "tags", "timeoutMs", "expectedFail", "classifyFailure", "assert")
	fields := map[string]any{}
	for _, key := range []string{"id", "prompt", "tags", "timeoutMs", "expectedFail"} {
		if f := o.get(key); !absent(f) {
			fields[key] = plain(f)
		}
	}
	if _, given := fields["id"]; !given && id != "" {
		fields["id"] = id
	}
	if s, ok := fields["id"].(string); !ok || strings.TrimSpace(s) == "" {
		r.bad(join(path, "id"), "expected non-empty string")
	}
	r.required(o.get("prompt"), join(path, "prompt"))
	r.millis(o.get("timeoutMs"), join(path, "timeoutMs"))
	r.texts(o.get("tags"), join(path, "tags"))
	r.flag(o.get("expectedFail"), join(path, "expectedFail"))

	data, err := json.Marshal(fields)
	if err != nil {
		r.bad(path, "expected plain data")
	}
	from := w.asserts
	d.assertions(r, w, o.get("assert"), join(path, "assert"))
	expr := fmt.Sprintf("{...%s, async assert(report, ctx) { for (const step of run.slice(%d, %d)) await step(report, ctx); }", data, from, w.asserts)
	if script := r.text(o.get("classifyFailure"), join(path, "classifyFailure")); script != "" {
		expr += fmt.Sprintf(", classifyFailure(result) { return classes[%d](result); }", w.classes)
		w.classes++
		d.script(w, script, join(path, "classifyFailure"), "classes.push((result) => {")
	}
	return expr + "}"
}

// assertions writes those of a case: a list of data, or JavaScript.
func (d *document) assertions(r *reader, w *layout, v any, path string) {
	switch x := v.(type) {
	case string:
		w.asserts++
		d.script(w, r.text(x, path), path, scriptHead)
	case list:
		if len(x) == 0 {
			r.bad(path, "expected at least one assertion")
		}
		for i, item := range x {
			at := fmt.Sprintf("%s[%d]", path, i)
			c := r.check(item, at)
			w.asserts++
			if c.script != "" {
				d.script(w, c.script, at+".js", scriptHead)
				continue
			}
			raw, err := json.Marshal(c)
			if err != nil {
				r.bad(at, "expected plain data")
			}
			p := d.places[at]
			w.put(p.Line-1, 1, "run.push(((entry) => (report) =>")
			w.put(p.Line, p.Column, "check(entry, report))(ready("+string(raw)+")));")
		}
	default:
		r.bad(path, "expected a list of assertions, or JavaScript with report, ctx and assert")
	}
}

const scriptHead = "run.push(async (report, ctx) => {"

// script writes JavaScript of the file at the place where it is in the file.
func (d *document) script(w *layout, text, path, head string) {
	p := d.places[path]
	if p.text == 0 { // on the line of its key
		w.put(p.Line-1, 1, head)
		w.put(p.Line, p.Column, text+"\n});")
		return
	}
	w.put(p.text-1, 1, head)
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		w.put(p.text+i, p.indent+1, line)
	}
	w.add("\n});")
}

// json writes data into the module.
func (r *reader) json(v any, path string) string {
	raw, err := json.Marshal(plain(v))
	if err != nil {
		r.bad(path, "expected plain data")
	}
	return string(raw)
}

// A layout is text that is written at given lines and columns, as far as what was
// written before leaves them free.
type layout struct {
	b            strings.Builder
	line, column int // of what comes next, from 0
	asserts      int // functions in run
	classes      int // functions in classes
}

func (w *layout) add(text string) {
	w.b.WriteString(text)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		w.line += strings.Count(text, "\n")
		w.column = len([]rune(text[i+1:]))
		return
	}
	w.column += len([]rune(text))
}

// put writes text at a place, counted from 1, or at the first one behind it.
func (w *layout) put(line, column int, text string) {
	if n := line - 1 - w.line; n > 0 {
		w.add(strings.Repeat("\n", n))
	}
	if n := column - 1 - w.column; n > 0 && line-1 == w.line {
		w.add(strings.Repeat(" ", n))
	}
	w.add(text)
}

func (w *layout) text() string { return w.b.String() }
