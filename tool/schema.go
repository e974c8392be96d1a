package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/workspace/driver"
)

// workspaceKey is the argument that every tool takes.
const workspaceKey = "workspace"

// enumTag is the tag of an argument that is one of a few words, with "|" between them. The
// tool itself checks it.
const enumTag = "enum"

// allWorkspaces is the name that stands for every workspace.
const allWorkspaces = "all"

func workspaceSchema(fanOut bool) *jsonschema.Schema {
	text := "name of the workspace; may be omitted if there is only one"
	if fanOut {
		text += `; "all" is every workspace`
	}
	return &jsonschema.Schema{Type: "string", Description: text}
}

func inputSchema[In any](spec Spec) *jsonschema.Schema {
	s := schemaFor[In](spec.Name + ": input")
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if values, ok := field.Tag.Lookup(enumTag); ok {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			for value := range strings.SplitSeq(values, "|") {
				s.Properties[name].Enum = append(s.Properties[name].Enum, value)
			}
		}
	}
	s.Properties[workspaceKey] = workspaceSchema(spec.FanOut)
	s.PropertyOrder = append(s.PropertyOrder, workspaceKey)
	return s
}

// InputWithoutWorkspace returns the schema of the arguments without "workspace", for
// clients that reach one workspace.
func (t *Tool) InputWithoutWorkspace() *jsonschema.Schema {
	s := t.Input.CloneSchemas()
	delete(s.Properties, workspaceKey)
	s.PropertyOrder = slices.DeleteFunc(slices.Clone(s.PropertyOrder), func(name string) bool { return name == workspaceKey })
	return s
}

// InputWithWorkspace returns the schema of the arguments with another description of "workspace".
func (t *Tool) InputWithWorkspace(description string) *jsonschema.Schema {
	s := t.Input.CloneSchemas()
	s.Properties[workspaceKey].Description = description
	return s
}

// outputSchema returns the schema of the answer. With workspace "all" the answer has a part
// for each workspace instead, so no property is required then.
func outputSchema[Out any](spec Spec) *jsonschema.Schema {
	s := schemaFor[Out](spec.Name + ": output")
	if spec.FanOut {
		return fanOutSchema(s)
	}
	return s
}

func fanOutSchema(s *jsonschema.Schema) *jsonschema.Schema {
	s = s.CloneSchemas()
	s.Required = nil
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	s.Properties["workspaces"] = &jsonschema.Schema{
		Type: "object", Description: `with workspace "all": answer or error by workspace name`,
		AdditionalProperties: &jsonschema.Schema{Type: "object"},
	}
	return s
}

// schemaFor infers a schema. Lists are never null.
func schemaFor[T any](what string) *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[driver.Info]():     {Type: "object"},
		reflect.TypeFor[driver.Match]():    {Type: "object"},
		reflect.TypeFor[driver.Skip]():     {Type: "object"},
	}})
	if err != nil {
		panic(fmt.Errorf("tool: schema of %s: %w", what, err))
	}
	if s.Type != "object" {
		panic(fmt.Errorf("tool: schema of %s: it is no object", what))
	}
	return s
}

// A contentSplitter is the answer of a TextOnly tool. It returns its data without the
// string under the key content, as a struct, and that string, which is nearly all of the
// text.
type contentSplitter interface {
	splitContent() (data any, content string)
}

// encode marshals JSON without HTML escapes.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// argumentNames returns the properties of a schema, sorted.
func argumentNames(s *jsonschema.Schema) []string {
	var list []string
	for name := range s.Properties {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
