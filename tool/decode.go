package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/fault"
)

// arguments says how the arguments of a tool are decoded: strictly, and so that
// every error names the argument.
type arguments struct {
	fields   map[string]int // argument -> index of the field
	required []string
	known    []string
	schema   *jsonschema.Schema
}

func newArguments(t reflect.Type, schema *jsonschema.Schema) arguments {
	a := arguments{fields: map[string]int{}, required: schema.Required, known: names(schema), schema: schema}
	if t.Kind() != reflect.Struct {
		panic(fmt.Errorf("tool: arguments are a %s, not a struct", t))
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			a.fields[name] = i
		}
	}
	return a
}

// split takes the arguments of a call apart. Null stands for an argument that is
// left out.
func split(args json.RawMessage) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(args)) == 0 || string(bytes.TrimSpace(args)) == "null" {
		return map[string]json.RawMessage{}, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(args, &m); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, Errorf(fault.InvalidArgument, "arguments are not JSON: %v", err)
		}
		return nil, Errorf(fault.InvalidArgument, "arguments must be a JSON object")
	}
	return given(m), nil
}

// given drops the arguments that are null.
func given(m map[string]json.RawMessage) map[string]json.RawMessage {
	for k, v := range m {
		if string(v) == "null" {
			delete(m, k)
		}
	}
	return m
}

// check refuses unknown and missing arguments.
func (a arguments) check(args map[string]json.RawMessage) error {
	var unknown []string
	for k := range args {
		if !slices.Contains(a.known, k) {
			unknown = append(unknown, fmt.Sprintf("%q", k))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return Errorf(fault.InvalidArgument, "unknown argument %s; known: %s", strings.Join(unknown, ", "), strings.Join(a.known, ", "))
	}
	for _, k := range a.required {
		if _, ok := args[k]; !ok {
			return Errorf(fault.InvalidArgument, "%s is required", k)
		}
	}
	return nil
}

// decode fills in, a struct, with args, which may hold "workspace", too.
func (a arguments) decode(args map[string]json.RawMessage, in reflect.Value) error {
	if err := a.check(args); err != nil {
		return err
	}
	for _, k := range a.known {
		raw, given := args[k]
		i, ours := a.fields[k]
		if !given || !ours {
			continue
		}
		if err := decodeStrictly(raw, in.Field(i)); err != nil {
			return a.mistyped(k, raw, err)
		}
	}
	return nil
}

// decodeStrictly decodes a value, in which nothing may be unknown.
func decodeStrictly(raw json.RawMessage, into reflect.Value) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(into.Addr().Interface())
}

// mistyped says which argument is wrong, and what it should be.
func (a arguments) mistyped(name string, raw json.RawMessage, err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field != "" {
			return Errorf(fault.InvalidArgument, "%s: %s must be %s, not %s", name, wrong.Field, kindOf(wrong.Type), wrong.Value)
		}
		return Errorf(fault.InvalidArgument, "%s must be %s, not %s", name, wanted(a.schema.Properties[name]), jsonKind(raw))
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Errorf(fault.InvalidArgument, "%s: unknown field %s; known: %s", name, field, strings.Join(fields(a.schema.Properties[name]), ", "))
	}
	return Errorf(fault.InvalidArgument, "%s: %v", name, err)
}

// fields are the names in an object, or in each of a list of them.
func fields(s *jsonschema.Schema) []string {
	if s.Items != nil {
		s = s.Items
	}
	return names(s)
}

// wanted says what a schema takes, in words.
func wanted(s *jsonschema.Schema) string {
	t := s.Type
	if t == "" && len(s.Types) > 0 {
		t = s.Types[len(s.Types)-1]
	}
	switch t {
	case "integer":
		return "an integer"
	case "array":
		if s.Items != nil && s.Items.Type == "string" {
			return "an array of strings"
		}
		return "an array"
	case "object":
		return "an object"
	case "":
		return "something else"
	}
	return "a " + t
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// jsonKind says what a value is, in words.
func jsonKind(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '"':
		return "a string"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "an array"
	case raw[0] == 't' || raw[0] == 'f':
		return "a boolean"
	}
	return "the number " + string(raw)
}
