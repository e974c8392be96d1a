package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A schema is the part of JSON Schema that the OpenAPI document uses.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        types             `json:"type"`
	Description string            `json:"description"`
	Enum        []any             `json:"enum"`
	OneOf       []schema          `json:"oneOf"`
	Items       *schema           `json:"items"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Additional  json.RawMessage   `json:"additionalProperties"`
}

// types is a type, or a list of them.
type types []string

func (t *types) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// writeTypes writes the schemas of an OpenAPI document as TypeScript interfaces.
func writeTypes(document, out string) error {
	data, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	var doc struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	var b strings.Builder
	b.WriteString("// Written by internal/web/build from docs/openapi.json. Do not edit.\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		if s.Properties == nil {
			fmt.Fprintf(&b, "\nexport type %s = %s;\n", name, s.text())
			continue
		}
		fmt.Fprintf(&b, "\nexport interface %s {\n", name)
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[key]
			if p.Description != "" {
				fmt.Fprintf(&b, "  /** %s */\n", strings.ReplaceAll(p.Description, "*/", "* /"))
			}
			fmt.Fprintf(&b, "  %s;\n", s.field(key, p))
		}
		b.WriteString("}\n")
	}
	return os.WriteFile(out, []byte(b.String()), 0o644)
}

func (s schema) field(key string, p schema) string {
	mark := "?"
	if slices.Contains(s.Required, key) {
		mark = ""
	}
	return strconv.Quote(key) + mark + ": " + p.text()
}

// text returns the TypeScript type of a schema.
func (s schema) text() string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	case len(s.Enum) > 0:
		return union(s.Enum, func(v any) string { text, _ := json.Marshal(v); return string(text) })
	case len(s.OneOf) > 0:
		return union(s.OneOf, schema.text)
	case len(s.Type) == 0:
		return "unknown"
	}
	return union(s.Type, s.typeText)
}

func union[T any](list []T, text func(T) string) string {
	var parts []string
	for _, v := range list {
		if t := text(v); !slices.Contains(parts, t) {
			parts = append(parts, t)
		}
	}
	return strings.Join(parts, " | ")
}

func (s schema) typeText(name string) string {
	switch name {
	case "integer", "number":
		return "number"
	case "array":
		if s.Items == nil {
			return "unknown[]"
		}
		return "Array<" + s.Items.text() + ">"
	case "object":
		return s.objectText()
	}
	return name // string, boolean and null have the same name in TypeScript
}

func (s schema) objectText() string {
	if s.Properties != nil {
		var fields []string
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			fields = append(fields, s.field(key, s.Properties[key]))
		}
		return "{ " + strings.Join(fields, "; ") + " }"
	}
	var value schema
	if json.Unmarshal(s.Additional, &value) == nil && len(s.Additional) > 0 && s.Additional[0] == '{' {
		return "Record<string, " + value.text() + ">"
	}
	return "Record<string, unknown>"
}
