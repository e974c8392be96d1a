package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/strictjson"
)

// arguments decodes the arguments of a tool strictly; every error names the argument.
type arguments struct {
	fields   map[string]int // argument -> index of the field
	required []string
	known    []string
	schema   *jsonschema.Schema
}

func newArguments(t reflect.Type, schema *jsonschema.Schema) arguments {
	a := arguments{fields: map[string]int{}, required: schema.Required, known: argumentNames(schema), schema: schema}
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

// splitArguments splits the JSON object of a call into its arguments. An argument that is
// null is omitted.
func splitArguments(args json.RawMessage) (map[string]json.RawMessage, error) {
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
	maps.DeleteFunc(m, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return m, nil
}

// withoutAliases gives arguments the names that the tool knows. A name that is given, too, wins.
func (t *Tool) withoutAliases(args map[string]json.RawMessage) {
	for alias, name := range t.Aliases {
		value, ok := args[alias]
		if !ok {
			continue
		}
		delete(args, alias)
		if _, given := args[name]; name != "" && !given {
			args[name] = value
		}
	}
}

// checkNames returns an error for unknown and missing arguments.
func (a arguments) checkNames(args map[string]json.RawMessage) error {
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

// decode decodes args into in, a struct. args may contain "workspace".
func (a arguments) decode(args map[string]json.RawMessage, in reflect.Value) error {
	if err := a.checkNames(args); err != nil {
		return err
	}
	for _, k := range a.known {
		raw, given := args[k]
		i, ours := a.fields[k]
		if !given || !ours {
			continue
		}
		if err := decodeArgument(k, raw, in.Field(i).Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
}

// integral returns a number without a fraction, such as 1.0, as an integer, which it is in
// JSON Schema.
func integral(raw json.RawMessage) json.RawMessage {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !bytes.ContainsAny(raw, ".eE") || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return raw
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

// decodeArgument decodes one argument.
func decodeArgument(name string, raw json.RawMessage, v any) error {
	err := strictjson.Decode(name, integral(raw), v)
	var bad *strictjson.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return Errorf(fault.InvalidArgument, "%s", bad.Text)
	}
	return Errorf(fault.InvalidArgument, "%s: %v", name, err)
}
