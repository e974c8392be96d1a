package ast

import "github.com/croft-run/croft/internal/tool/ast/grammar"

// rules describe the nodes of a grammar.
type rules struct {
	funcs      map[string]string // kind of a function -> field with its name
	holders    map[string]string // kind that names the function which is its value -> field with the name
	values     map[string]bool   // kinds of functions without a name
	scopes     map[string]string // kind that functions are in -> field with its name
	idents     map[string]bool   // kinds of names that a rename may change
	indentUnit string            // of indentation, where the file has none
	python     bool              // bodies are indented, not in braces
}

func kindSet(kinds ...string) map[string]bool {
	m := map[string]bool{}
	for _, k := range kinds {
		m[k] = true
	}
	return m
}

var rulesOf = map[grammar.Language]*rules{
	grammar.Python:     &pythonRules,
	grammar.JavaScript: &scriptRules,
	grammar.TypeScript: &scriptRules,
	grammar.TSX:        &scriptRules,
	grammar.Rust:       &rustRules,
	grammar.Java:       &javaRules,
	grammar.C:          &cRules,
	grammar.CPP:        &cRules,
}

var pythonRules = rules{
	funcs:      map[string]string{"function_definition": "name"},
	scopes:     map[string]string{"class_definition": "name"},
	idents:     kindSet("identifier"),
	indentUnit: "    ", python: true,
}

var scriptRules = rules{
	funcs: map[string]string{
		"function_declaration": "name", "generator_function_declaration": "name", "method_definition": "name",
		"function_signature": "name", "method_signature": "name", "abstract_method_signature": "name",
	},
	holders: map[string]string{
		"variable_declarator": "name", "pair": "key", "public_field_definition": "name", "field_definition": "property",
		"assignment_expression": "left",
	},
	values: kindSet("arrow_function", "function_expression", "generator_function"),
	scopes: map[string]string{
		"class_declaration": "name", "abstract_class_declaration": "name", "class": "name",
		"interface_declaration": "name", "internal_module": "name", "module": "name", "variable_declarator": "name",
	},
	idents:     kindSet("identifier", "type_identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern"),
	indentUnit: "  ",
}

var rustRules = rules{
	funcs:      map[string]string{"function_item": "name", "function_signature_item": "name"},
	scopes:     map[string]string{"impl_item": "type", "trait_item": "name", "mod_item": "name"},
	idents:     kindSet("identifier", "type_identifier"),
	indentUnit: "    ",
}

var javaRules = rules{
	funcs: map[string]string{"method_declaration": "name", "constructor_declaration": "name", "compact_constructor_declaration": "name"},
	scopes: map[string]string{
		"class_declaration": "name", "interface_declaration": "name", "enum_declaration": "name", "record_declaration": "name",
		"annotation_type_declaration": "name",
	},
	idents:     kindSet("identifier", "type_identifier"),
	indentUnit: "    ",
}

var cRules = rules{
	funcs:      map[string]string{"function_definition": "declarator"},
	scopes:     map[string]string{"class_specifier": "name", "struct_specifier": "name", "namespace_definition": "name", "union_specifier": "name"},
	idents:     kindSet("identifier", "type_identifier"),
	indentUnit: "    ",
}
