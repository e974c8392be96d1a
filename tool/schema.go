package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/workspace/driver"
)

// workspaceKey is the argument that every tool takes.
const workspaceKey = "workspace"

// allWorkspaces is the name that stands for every workspace.
const allWorkspaces = "all"

func workspaceSchema(fanOut bool) *jsonschema.Schema {
	text := "name of the workspace; may be left out where there is only one"
	if fanOut {
		text += `; "all" is each of them`
	}
	return &jsonschema.Schema{Type: "string", Description: text}
}

func inputSchema[In any](spec Spec) *jsonschema.Schema {
	s := schemaFor[In](spec.Name + ": input")
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	s.Properties[workspaceKey] = workspaceSchema(spec.FanOut)
	s.PropertyOrder = append(s.PropertyOrder, workspaceKey)
	return s
}

// outputSchema is that of the answer. The answer of a tool for "all" is one for
// each workspace instead, so that nothing of the single answer is required there.
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
		Type: "object", Description: `with workspace "all": the answer of each, or its error, by name`,
		AdditionalProperties: &jsonschema.Schema{Type: "object"},
	}
	return s
}

// schemaFor infers a schema. Lists are never null in what we read and write.
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

// A contentSplitter answer is one of a tool that is TextOnly: its data without the string
// under the key content, as a struct, and that string, which is nearly all of its
// text.
type contentSplitter interface {
	splitContent() (beside any, content string)
}

// encode is JSON without the escapes that are for pages.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// argumentNames lists the arguments of a schema, in order.
func argumentNames(s *jsonschema.Schema) []string {
	var list []string
	for name := range s.Properties {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
