package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// kindTag is the struct tag with the kind of an argument, as in `croft:"path"`.
const kindTag = "croft"

// argUnknown is the kind of every string of a tool that does not declare its argument
// kinds.
const argUnknown driver.ArgumentKind = "unknown"

// A subject is an argument that says what a call acts on.
type subject struct {
	kind driver.ArgumentKind
	text string
	list bool // an element of a list
}

// pathSubjects returns the paths among subjects.
func pathSubjects(subjects []subject) []string {
	var paths []string
	for _, s := range subjects {
		if s.kind == driver.ArgPath {
			paths = append(paths, s.text)
		}
	}
	return paths
}

// addKinds records the argument kinds of a type's fields. It panics on an unknown tag, or
// one on a field that is not a string or []string, since that is a bug.
func addKinds(kinds map[string]driver.ArgumentKind, prefix string, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		tag, ok := f.Tag.Lookup(kindTag)
		if !ok {
			addKinds(kinds, prefix+name+".", f.Type)
			continue
		}
		kind := driver.ArgumentKind(tag)
		if text := f.Type.Kind() == reflect.String || f.Type == reflect.TypeFor[[]string](); !text || !slices.Contains(driver.ArgumentKinds(), kind) {
			panic(fmt.Errorf("tool: argument %s%s: a %s can't be %s:%q", prefix, name, f.Type, kindTag, tag))
		}
		kinds[prefix+name] = kind
	}
}

// fieldSubjects appends the subjects of a decoded input. It reads the decoded struct, not
// the JSON, in which a key may have several spellings.
func fieldSubjects(list []subject, v reflect.Value) []subject {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			list = fieldSubjects(list, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			list = fieldSubjects(list, v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			list = fieldSubjects(list, it.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			tag, ok := v.Type().Field(i).Tag.Lookup(kindTag)
			if !ok {
				list = fieldSubjects(list, v.Field(i))
				continue
			}
			kind := driver.ArgumentKind(tag)
			if v.Field(i).Kind() == reflect.String {
				list = append(list, subject{kind: kind, text: v.Field(i).String()})
				continue
			}
			for _, text := range v.Field(i).Interface().([]string) {
				list = append(list, subject{kind: kind, text: text, list: true})
			}
		}
	}
	return list
}

// sourceSubjects returns the subjects of a tool of the workspace's own sources.
func sourceSubjects(kinds map[string]driver.ArgumentKind, args map[string]json.RawMessage) []subject {
	var list []subject
	for _, name := range slices.Sorted(maps.Keys(args)) {
		kind, ok := kinds[name]
		if kinds == nil {
			kind, ok = argUnknown, name != workspaceKey
		}
		var v any
		if ok && json.Unmarshal(args[name], &v) == nil {
			list = valueSubjects(list, kind, v, false)
		}
	}
	return list
}

// valueSubjects appends every string within a value.
func valueSubjects(list []subject, kind driver.ArgumentKind, v any, within bool) []subject {
	switch v := v.(type) {
	case string:
		list = append(list, subject{kind, v, within})
	case []any:
		for _, one := range v {
			list = valueSubjects(list, kind, one, true)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = valueSubjects(list, kind, v[key], true)
		}
	}
	return list
}

// primarySubject returns the main subject of a call: its command, else its path, else a
// name. A path is cleaned and made relative to the workspace, so that a rule can't be
// bypassed by another spelling.
func primarySubject(subjects []subject, root string) subject {
	for _, kind := range []driver.ArgumentKind{driver.ArgCommand, driver.ArgPath, driver.ArgName} {
		i := slices.IndexFunc(subjects, func(s subject) bool { return s.kind == kind && !s.list && s.text != "" })
		if i < 0 {
			continue
		}
		what := subjects[i]
		switch kind {
		case driver.ArgPath:
			what.text = relativeToRoot(what.text, root)
		case driver.ArgCommand:
			for _, s := range subjects {
				if s.kind == driver.ArgWord {
					what.text += " " + s.text
				}
			}
		}
		return what
	}
	return subject{}
}

// workspaceScheme is the prefix of a path in arguments that take other URIs as well.
const workspaceScheme = "workspace://"

// paths returns the paths in an argument.
func (s subject) paths() []string {
	switch {
	case s.text == "":
	case s.kind == driver.ArgPath || s.kind == argUnknown:
		return []string{strings.TrimPrefix(s.text, workspaceScheme)}
	case s.kind == driver.ArgPatch:
		ops, err := parsePatch(s.text)
		if err != nil {
			return nil // the call itself fails with the error
		}
		var list []string
		for _, op := range ops {
			list = append(list, op.path)
			if op.to != "" {
				list = append(list, op.to)
			}
		}
		return list
	}
	return nil
}
