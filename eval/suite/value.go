package suite

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The data of a file, evaluated as JavaScript or parsed as YAML: nil (null), undefined,
// bool, float64, string, dataList, *dataObject, or opaque.
type (
	undefined  struct{}
	dataList   []any
	opaque     string // what can't be data: "function", "symbol", "bigint"
	dataObject struct {
		keys   []string // in the order of the file
		fields map[string]any
	}
)

func (o *dataObject) get(key string) any {
	if v, ok := o.fields[key]; ok {
		return v
	}
	return undefined{}
}

func newObject() *dataObject { return &dataObject{fields: map[string]any{}} }

func (o *dataObject) set(key string, v any) {
	if _, ok := o.fields[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.fields[key] = v
}

// aFunction is a function of JavaScript.
const aFunction = opaque("function")

// readExported reads engine.js's description of what a module exports.
func readExported(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return undefined{}
	}
	return exportedValue(v)
}

func exportedValue(v any) any {
	switch x := v.(type) {
	case []any:
		items := make(dataList, len(x))
		for i := range x {
			items[i] = exportedValue(x[i])
		}
		return items
	case map[string]any:
		entries, isObject := x["entries"].([]any)
		switch kind, _ := x["$"].(string); {
		case kind == "undefined":
			return undefined{}
		case !isObject:
			return opaque(kind)
		}
		out := newObject()
		for _, entry := range entries {
			pair := entry.([]any)
			out.set(pair[0].(string), exportedValue(pair[1]))
		}
		return out
	}
	return v
}

// A valueReader reads values and keeps the first error, which the caller checks after
// reading a whole structure. Its messages are skillgym's.
type valueReader struct {
	what string // "config" or "suite"
	err  *badValue
}

// A badValue is an error at a key path.
type badValue struct{ path, message string }

// reportInvalid sets the error "expected ..." at a path.
func (r *valueReader) reportInvalid(path, format string, args ...any) {
	where := "Invalid " + r.what
	if path != "" {
		where += " at " + path
	}
	r.setError(path, where+": "+fmt.Sprintf(format, args...))
}

func (r *valueReader) setError(path, message string) {
	if r.err == nil {
		r.err = &badValue{path, message}
	}
}

func isAbsent(v any) bool { _, ok := v.(undefined); return ok }

// readObject returns v as an object. With known keys any other key is an error.
func (r *valueReader) readObject(v any, path string, known ...string) *dataObject {
	o, ok := v.(*dataObject)
	if !ok {
		r.reportInvalid(path, "expected plain object")
		return newObject()
	}
	for _, key := range o.keys {
		if len(known) > 0 && !slices.Contains(known, key) {
			full := joinPath(path, key)
			r.setError(full, fmt.Sprintf("Unknown %s key: %s (allowed: %s)", r.what, full, strings.Join(known, ", ")))
		}
	}
	return o
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// readText returns a string that is not blank, "" if it is absent.
func (r *valueReader) readText(v any, path string) string {
	if isAbsent(v) {
		return ""
	}
	s, ok := v.(string)
	if !ok || strings.TrimSpace(s) == "" {
		r.reportInvalid(path, "expected non-empty string")
	}
	return s
}

func (r *valueReader) requireText(v any, path string) string {
	if isAbsent(v) {
		r.reportInvalid(path, "expected non-empty string")
	}
	return r.readText(v, path)
}

// readEnum returns one of the allowed strings, "" if it is absent.
func (r *valueReader) readEnum(v any, path string, allowed ...string) string {
	if isAbsent(v) {
		return ""
	}
	s, ok := v.(string)
	if !ok || !slices.Contains(allowed, s) {
		r.reportInvalid(path, "expected one of: %s", strings.Join(allowed, ", "))
	}
	return s
}

// readTexts returns a list of strings that are not blank.
func (r *valueReader) readTexts(v any, path string) []string {
	if isAbsent(v) {
		return nil
	}
	items, ok := v.(dataList)
	if !ok {
		r.reportInvalid(path, "expected array of non-empty strings")
		return nil
	}
	out := make([]string, 0, len(items))
	for i, item := range items {
		s, ok := item.(string)
		if !ok || strings.TrimSpace(s) == "" {
			r.reportInvalid(fmt.Sprintf("%s[%d]", path, i), "expected non-empty string")
		}
		out = append(out, s)
	}
	return out
}

func (r *valueReader) readEnv(v any, path string) map[string]string {
	if isAbsent(v) {
		return nil
	}
	o := r.readObject(v, path)
	env := make(map[string]string, len(o.keys))
	for _, key := range o.keys {
		s, ok := o.fields[key].(string)
		switch {
		case !ok:
			r.reportInvalid(joinPath(path, key), "expected string")
		case key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(s, 0):
			r.reportInvalid(joinPath(path, key), "expected a name without = and NUL, and a value without NUL")
		}
		env[key] = s
	}
	return env
}

// readInt returns an integer of at least least, 0 if it is absent.
func (r *valueReader) readInt(v any, path string, least int) int {
	if isAbsent(v) {
		return 0
	}
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || f < float64(least) || f > 1<<53 {
		r.reportInvalid(path, "expected integer >= %d", least)
		return 0
	}
	return int(f)
}

func (r *valueReader) readMillis(v any, path string) time.Duration {
	ms := r.readInt(v, path, 1)
	if ms > int(math.MaxInt64/time.Millisecond) {
		r.reportInvalid(path, "expected integer >= 1 and at most %d", math.MaxInt64/time.Millisecond)
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// readNumber returns a number of at least 0, nil if it is absent.
func (r *valueReader) readNumber(v any, path string) *float64 {
	if isAbsent(v) {
		return nil
	}
	f, ok := v.(float64)
	if !ok || math.IsInf(f, 0) || math.IsNaN(f) || f < 0 {
		r.reportInvalid(path, "expected number >= 0")
		return nil
	}
	return &f
}

func (r *valueReader) readBool(v any, path string) bool {
	if isAbsent(v) {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		r.reportInvalid(path, "expected true or false")
	}
	return b
}

// toPlain converts v to types of encoding/json.
func toPlain(v any) any {
	switch x := v.(type) {
	case dataList:
		out := make([]any, len(x))
		for i := range x {
			out[i] = toPlain(x[i])
		}
		return out
	case *dataObject:
		out := make(map[string]any, len(x.keys))
		for key, field := range x.fields {
			if !isAbsent(field) {
				out[key] = toPlain(field)
			}
		}
		return out
	case undefined, opaque:
		return nil
	}
	return v
}
