package suite

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// What a file holds, whether it was evaluated as JavaScript or parsed as YAML: nil
// (null), undefined, bool, float64, string, list, *object, or opaque.
type (
	undefined struct{}
	list      []any
	opaque    string // what can't be data: "function", "symbol", "bigint"
	object    struct {
		keys   []string // in the order of the file
		fields map[string]any
	}
)

func (o *object) get(key string) any {
	if v, ok := o.fields[key]; ok {
		return v
	}
	return undefined{}
}

func newObject() *object { return &object{fields: map[string]any{}} }

func (o *object) set(key string, v any) {
	if _, ok := o.fields[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.fields[key] = v
}

// A reader takes values apart, and remembers the first thing that is wrong: who
// reads a whole structure asks for err at the end. Its sentences are skillgym's.
type reader struct {
	what string // "config" or "suite"
	err  *badValue
}

// A badValue is what is wrong, and at which path.
type badValue struct{ path, message string }

// bad says what was expected at a path.
func (r *reader) bad(path, format string, args ...any) {
	where := "Invalid " + r.what
	if path != "" {
		where += " at " + path
	}
	r.fail(path, where+": "+fmt.Sprintf(format, args...))
}

func (r *reader) fail(path, message string) {
	if r.err == nil {
		r.err = &badValue{path, message}
	}
}

func absent(v any) bool { _, ok := v.(undefined); return ok }

// object returns v as an object with no keys but those that are known.
func (r *reader) object(v any, path string, known ...string) *object {
	o, ok := v.(*object)
	if !ok {
		r.bad(path, "expected plain object")
		return newObject()
	}
	for _, key := range o.keys {
		if len(known) > 0 && !slices.Contains(known, key) {
			full := join(path, key)
			r.fail(full, fmt.Sprintf("Unknown %s key: %s (allowed: %s)", r.what, full, strings.Join(known, ", ")))
		}
	}
	return o
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// text returns a string that is not blank, "" where it is absent.
func (r *reader) text(v any, path string) string {
	if absent(v) {
		return ""
	}
	s, ok := v.(string)
	if !ok || strings.TrimSpace(s) == "" {
		r.bad(path, "expected non-empty string")
	}
	return s
}

func (r *reader) required(v any, path string) string {
	if absent(v) {
		r.bad(path, "expected non-empty string")
	}
	return r.text(v, path)
}

// oneOf returns a string that is among those allowed, "" where it is absent.
func (r *reader) oneOf(v any, path string, allowed ...string) string {
	if absent(v) {
		return ""
	}
	s, ok := v.(string)
	if !ok || !slices.Contains(allowed, s) {
		r.bad(path, "expected one of: %s", strings.Join(allowed, ", "))
	}
	return s
}

// texts returns strings none of which is blank.
func (r *reader) texts(v any, path string) []string {
	if absent(v) {
		return nil
	}
	items, ok := v.(list)
	if !ok {
		r.bad(path, "expected array of non-empty strings")
		return nil
	}
	out := make([]string, 0, len(items))
	for i, item := range items {
		s, ok := item.(string)
		if !ok || strings.TrimSpace(s) == "" {
			r.bad(fmt.Sprintf("%s[%d]", path, i), "expected non-empty string")
		}
		out = append(out, s)
	}
	return out
}

func (r *reader) env(v any, path string) map[string]string {
	if absent(v) {
		return nil
	}
	o := r.object(v, path)
	env := make(map[string]string, len(o.keys))
	for _, key := range o.keys {
		s, ok := o.fields[key].(string)
		switch {
		case !ok:
			r.bad(join(path, key), "expected string")
		case key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(s, 0):
			r.bad(join(path, key), "expected a name without = and NUL, and a value without NUL")
		}
		env[key] = s
	}
	return env
}

// integer returns a whole number of at least least, 0 where it is absent.
func (r *reader) integer(v any, path string, least int) int {
	if absent(v) {
		return 0
	}
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || f < float64(least) || f > 1<<53 {
		r.bad(path, "expected integer >= %d", least)
		return 0
	}
	return int(f)
}

func (r *reader) millis(v any, path string) time.Duration {
	ms := r.integer(v, path, 1)
	if ms > int(math.MaxInt64/time.Millisecond) {
		r.bad(path, "expected integer >= 1 and at most %d", math.MaxInt64/time.Millisecond)
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// number returns a number of at least 0, nil where it is absent.
func (r *reader) number(v any, path string) *float64 {
	if absent(v) {
		return nil
	}
	f, ok := v.(float64)
	if !ok || math.IsInf(f, 0) || math.IsNaN(f) || f < 0 {
		r.bad(path, "expected number >= 0")
		return nil
	}
	return &f
}

func (r *reader) flag(v any, path string) bool {
	if absent(v) {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		r.bad(path, "expected true or false")
	}
	return b
}

// plain returns v as encoding/json knows it, for what others decode.
func plain(v any) any {
	switch x := v.(type) {
	case list:
		out := make([]any, len(x))
		for i := range x {
			out[i] = plain(x[i])
		}
		return out
	case *object:
		out := make(map[string]any, len(x.keys))
		for key, field := range x.fields {
			if !absent(field) {
				out[key] = plain(field)
			}
		}
		return out
	case undefined, opaque:
		return nil
	}
	return v
}
