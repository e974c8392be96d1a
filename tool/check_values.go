package tool

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/strictjson"
)

// checkValues checks arguments of a tool of the workspace against its schema, as far as
// type, range, enum and items. The error says which argument is wrong and what is allowed.
func checkValues(schema *jsonschema.Schema, args map[string]any) error {
	for _, name := range argumentNames(schema) {
		value, given := args[name]
		if !given {
			continue
		}
		if err := checkValue(schema.Properties[name], name, value); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(s *jsonschema.Schema, name string, value any) error {
	if s.Type != "" && !hasJSONType(s.Type, value) {
		return Errorf(fault.InvalidArgument, "%s must be %s, not %s", name, describeType(s), strictjson.Kind(value))
	}
	if n, ok := value.(float64); ok && (s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum) {
		return Errorf(fault.InvalidArgument, "%s must be %s", name, describeRange(s.Minimum, s.Maximum))
	}
	if len(s.Enum) > 0 && isScalar(value) && !slices.Contains(s.Enum, value) {
		return Errorf(fault.InvalidArgument, "%s must be one of %s", name, joinValues(s.Enum))
	}
	if items, ok := value.([]any); ok && s.Items != nil {
		for i, item := range items {
			if err := checkValue(s.Items, fmt.Sprintf("%s[%d]", name, i), item); err != nil {
				return err
			}
		}
	}
	return nil
}

// describeType returns the type of a schema in words.
func describeType(s *jsonschema.Schema) string {
	switch s.Type {
	case "integer":
		return "an integer"
	case "array":
		if s.Items != nil && s.Items.Type == "string" {
			return "an array of strings"
		}
		return "an array"
	case "object":
		return "an object"
	}
	return "a " + s.Type
}

// hasJSONType reports whether a value has a JSON schema type.
func hasJSONType(kind string, value any) bool {
	switch v := value.(type) {
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == math.Trunc(v)
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return kind == "null"
}

// isScalar reports whether a value is comparable.
func isScalar(value any) bool {
	switch value.(type) {
	case string, bool, float64, nil:
		return true
	}
	return false
}

// describeRange returns the allowed range of a number in words. At least one bound is set.
func describeRange(least, most *float64) string {
	switch {
	case most == nil:
		return fmt.Sprintf("at least %v", *least)
	case least == nil:
		return fmt.Sprintf("at most %v", *most)
	}
	return fmt.Sprintf("between %v and %v", *least, *most)
}

// joinValues joins values with commas.
func joinValues(values []any) string {
	var words []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			words = append(words, s)
		} else if data, err := json.Marshal(v); err == nil {
			words = append(words, string(data))
		}
	}
	return strings.Join(words, ", ")
}
