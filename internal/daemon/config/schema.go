package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Patterns of the strings that ParseBytes, ParseCPUs and ParseDuration accept.
const (
	bytesPattern    = `^[0-9]+(\.[0-9]+)? *([KMGTPkmgtp]?([iI]?[bB])?|[KMGTPkmgtp][iI])$`
	cpusPattern     = `^([0-9]+(\.[0-9]+)?|[0-9]+m)$`
	durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`
)

// Schema returns the JSON Schema of croft.yaml, generated from the types of this package.
// It refuses unknown keys and wrong types, as Parse does. Rules about more than one key
// are only in Parse.
func Schema() ([]byte, error) {
	s, err := buildSchema()
	if err != nil {
		return nil, fmt.Errorf("config: make schema: %w: %w", fault.Internal, err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("config: make schema: %w: %w", fault.Internal, err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, fmt.Errorf("config: make schema: %w: %w", fault.Internal, err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func buildSchema() (*jsonschema.Schema, error) {
	types := scalarSchemas()
	types[reflect.TypeFor[Limits]()] = limitsSchema(types)
	cred, err := jsonschema.For[Credential](&jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, err
	}
	types[reflect.TypeFor[Credential]()] = anyOf(&jsonschema.Schema{Type: "string"}, cred)
	rule, err := jsonschema.For[NetRule](&jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, err
	}
	types[reflect.TypeFor[NetRule]()] = anyOf(&jsonschema.Schema{Type: "string"}, rule)
	s, err := jsonschema.For[Config](&jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, err
	}
	restrictNull(s, false)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "croft.yaml, version 1"
	s.Properties["version"].Const = jsonschema.Ptr[any](Version)
	s.Properties["events"].Properties["sync"].Enum = toAnys(syncs)
	return s, nil
}

// scalarSchemas returns the schemas of the types that implement scalar.
func scalarSchemas() map[reflect.Type]*jsonschema.Schema {
	zero := jsonschema.Ptr(0.0)
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Bytes]():            {Types: []string{"integer", "string"}, Minimum: zero, Pattern: bytesPattern},
		reflect.TypeFor[CPUs]():             {Types: []string{"number", "string"}, Minimum: zero, Pattern: cpusPattern},
		reflect.TypeFor[Duration]():         {Types: []string{"integer", "string"}, Minimum: zero, Maximum: zero, Pattern: durationPattern},
		reflect.TypeFor[Count]():            {Types: []string{"integer", "string"}, Minimum: zero, Pattern: `^\+?[0-9]+$`},
		reflect.TypeFor[Port]():             {Type: "integer", Minimum: jsonschema.Ptr(1.0), Maximum: jsonschema.Ptr(65535.0)},
		reflect.TypeFor[driver.Isolation](): {Type: "string", Enum: append(toAnys(driver.Isolations), "")},
	}
}

// limitsSchema returns the schema of limits: each is a value, or a mapping.
func limitsSchema(types map[reflect.Type]*jsonschema.Schema) *jsonschema.Schema {
	units := map[driver.Unit]*jsonschema.Schema{
		driver.UnitBytes: types[reflect.TypeFor[Bytes]()], driver.UnitMillicores: types[reflect.TypeFor[CPUs]()],
		driver.UnitNanoseconds: types[reflect.TypeFor[Duration]()], driver.UnitCount: types[reflect.TypeFor[Count]()],
	}
	closed := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	s := &jsonschema.Schema{Type: "object", AdditionalProperties: closed, Properties: map[string]*jsonschema.Schema{}}
	for _, r := range driver.Resources {
		limit := anyOf(units[r.Unit], &jsonschema.Schema{
			Type: "object", Required: []string{"max"}, AdditionalProperties: closed,
			Properties:    map[string]*jsonschema.Schema{"max": units[r.Unit], "bestEffort": {Type: "boolean"}},
			PropertyOrder: []string{"max", "bestEffort"},
		})
		limit.Description = r.Doc + ", such as " + Example(r.Unit)
		s.Properties[string(r.Name)] = limit
		s.PropertyOrder = append(s.PropertyOrder, string(r.Name))
	}
	return s
}

func anyOf(a, b *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{a.CloneSchemas(), b.CloneSchemas()}}
}

func toAnys[T ~string](list []T) []any {
	var out []any
	for _, x := range list {
		out = append(out, string(x))
	}
	return out
}

// restrictNull allows null only for sections, whose keys may all be commented out. The
// schema generator allows null for every pointer and list.
func restrictNull(s *jsonschema.Schema, section bool) {
	if s == nil {
		return
	}
	kinds := slices.DeleteFunc(slices.Concat(s.Types, []string{s.Type}), func(t string) bool { return t == "null" || t == "" })
	if section && len(kinds) == 1 && (kinds[0] == "object" || kinds[0] == "array") {
		kinds = append(kinds, "null")
	}
	s.Type, s.Types = "", nil
	switch len(kinds) {
	case 0:
	case 1:
		s.Type = kinds[0]
	default:
		s.Types = kinds
	}
	for _, p := range s.Properties {
		restrictNull(p, true)
	}
	restrictNull(s.Items, false)
	restrictNull(s.AdditionalProperties, true)
	for _, a := range s.AnyOf {
		restrictNull(a, false)
	}
}
