package config

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// A field is a field of a struct that is a key of the file.
type field struct {
	key      string
	doc      string
	required bool
	index    []int
}

// fieldsOf lists the keys of a struct in the order of their declaration.
func fieldsOf(t reflect.Type) []field {
	var list []field
	for _, f := range reflect.VisibleFields(t) {
		if key, rest, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && f.IsExported() {
			list = append(list, field{key: key, doc: f.Tag.Get("jsonschema"), required: rest == "", index: f.Index})
		}
	}
	return list
}

func keysOf(fields []field) string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	return strings.Join(keys, ", ")
}

// scalarText returns the text of a scalar, false for other nodes.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode:
		return n.Token.Value, true
	case *ast.FloatNode:
		return n.Token.Value, true
	}
	return "", false
}

func isScalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return true
	}
	return false
}

// nodeName returns the name of a node's type for errors.
func nodeName(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.BoolNode:
		return "true or false"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "this"
}

// typeName describes the values of a type for errors.
func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Bytes]():
		return "a size, such as 512M"
	case reflect.TypeFor[CPUs]():
		return "a number of cores, such as 1.5"
	case reflect.TypeFor[Duration]():
		return "a duration, such as 1m30s"
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ shorthand(string) error }]()) {
		return "a value or a mapping"
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	default:
		return "a whole number"
	}
}
