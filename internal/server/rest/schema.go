package rest

import (
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/workspace/driver"
)

// bytesKeys lists the B64 keys that types of package driver have in JSON for values that
// are not UTF-8. MarshalJSON adds them, so huma does not see them.
var bytesKeys = map[string][]string{
	"Info":    {"pathB64", "targetB64"},
	"Listing": {"nextB64"},
	"Match":   {"pathB64", "textB64"},
	"Skip":    {"pathB64"},
	"Edit":    {"oldB64", "newB64"},
}

// bytesLists lists the B64 keys whose value is a list.
var bytesLists = map[string][]string{"Match": {"beforeB64", "afterB64"}}

// documentBytes adds the B64 keys to the OpenAPI document.
func documentBytes(schemas map[string]*huma.Schema) {
	encoded := &huma.Schema{Type: huma.TypeString, ContentEncoding: "base64", Description: "the bytes, if they are not UTF-8"}
	for name, keys := range bytesKeys {
		for _, key := range keys {
			schemas[name].Properties[key] = encoded
		}
	}
	info := schemas["Info"]
	info.Required = slices.DeleteFunc(info.Required, func(key string) bool { return key == "size" || key == "mode" })
	for name, keys := range bytesLists {
		for _, key := range keys {
			schemas[name].Properties[key] = &huma.Schema{Type: huma.TypeArray, Items: encoded}
		}
	}
}

// documentLimits adds the names of the resources, which are the keys of a map in Go, to the
// OpenAPI document.
func documentLimits(schemas map[string]*huma.Schema) {
	for _, name := range []string{"Policy", "Exec", "Traits"} {
		limits := schemas[name].Properties["limits"]
		each := limits.AdditionalProperties.(*huma.Schema)
		limits.AdditionalProperties, limits.Properties = false, map[string]*huma.Schema{}
		for _, r := range driver.Resources {
			limits.Properties[string(r.Name)] = &huma.Schema{Ref: each.Ref, Description: "limit of " + r.Doc + "; in " + string(r.Unit)}
		}
		limits.PrecomputeMessages()
	}
}

// documentDurations documents that a duration may be a number of nanoseconds or a string.
func documentDurations(schemas map[string]*huma.Schema) {
	for name, keys := range map[string][]string{"Exec": {"timeout", "grace"}, "Code": {"timeout"}} {
		for _, key := range keys {
			text := schemas[name].Properties[key].Description
			schemas[name].Properties[key] = &huma.Schema{Description: text, OneOf: []*huma.Schema{
				{Type: huma.TypeString, Examples: []any{"1m30s"}}, {Type: huma.TypeInteger, Format: "int64"},
			}}
		}
	}
}

// schemaOf returns the schema of a type that is not the type of an input or an output.
func (s *Server) schemaOf(v any) *huma.Schema {
	t := reflect.TypeOf(v)
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
}
