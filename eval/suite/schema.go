package suite

import (
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Where the schemas are published.
const (
	SchemaID       = "https://croft.run/schema/eval-suite.json"
	ConfigSchemaID = "https://croft.run/schema/eval-config.json"
)

type schema = map[string]any

// Schema returns the JSON Schema of a suite in YAML, indented.
func Schema() ([]byte, error) {
	s := closed(schema{
		"cases": schema{"description": "The cases: a list, or an object of them by id.", "oneOf": []any{
			schema{"type": "array", "minItems": 1, "items": schema{"$ref": "#/$defs/case"}},
			schema{"type": "object", "minProperties": 1, "additionalProperties": schema{"$ref": "#/$defs/case"}},
		}},
		"workspace": schema{"$ref": "#/$defs/workspace"},
	}, "cases")
	s["$schema"], s["$id"], s["title"] = "https://json-schema.org/draft/2020-12/schema", SchemaID, "A suite of croft eval"
	defs := matcherDefs()
	defs["case"] = caseSchema()
	defs["assertion"] = assertionSchema()
	defs["workspace"] = workspaceSchema()
	s["$defs"] = defs
	return indented(s)
}

// ConfigSchema returns the JSON Schema of croft.eval.yaml, indented.
func ConfigSchema() ([]byte, error) {
	count := func(least int) schema { return schema{"type": "integer", "minimum": least} }
	s := closed(schema{
		"run": closed(schema{
			"cwd": text(), "outputDir": text(), "reporter": text(), "schedule": schema{"enum": Schedules}, "workspace": workspaceSchema(),
			"maxSteps": count(1), "maxParallel": count(1), "repeat": count(1), "repeatFailure": count(0),
			"retryFailed": schema{"type": "integer", "minimum": 0, "deprecated": true}, "tags": texts(),
		}),
		"defaults": closed(schema{"timeoutMs": count(1)}),
		"runners": schema{"type": "object", "minProperties": 1, "additionalProperties": closed(schema{
			"agent": closed(schema{"type": schema{"enum": AgentTypes}, "model": text(), "command": text(), "commandArgs": texts(), "env": environment()}, "type"),
		}, "agent")},
		"snapshots": closed(schema{"path": text(), "metric": schema{"enum": Metrics},
			"tolerance": schema{"type": "object", "additionalProperties": false, "minProperties": 1, "properties": schema{"absolute": amount(), "percent": amount()}}}, "tolerance"),
		"croft": closed(schema{
			"provider": text(), "policy": schema{"type": "object"}, "allowNet": texts(), "bootstrap": schema{"enum": []string{"each", "once"}}, "record": text(), "replay": text(),
			"tools":  schema{"enum": Toolsets},
			"limits": closed(limitSchemas()),
			"judge":  closed(schema{"api": schema{"enum": []string{"openai", "anthropic"}}, "url": text(), "model": text(), "keyEnv": text()}, "model"),
		}),
	}, "runners")
	s["$schema"], s["$id"], s["title"] = "https://json-schema.org/draft/2020-12/schema", ConfigSchemaID, "The configuration of croft eval"
	return indented(s)
}

// limitSchemas describes the keys of croft.limits.
func limitSchemas() schema {
	count := schema{"type": "integer", "minimum": 1}
	keys := schema{outputKey: count}
	for _, r := range driver.Resources {
		keys[limitKey(r)] = count
		if r.Unit == driver.UnitMillicores {
			keys[limitKey(r)] = amount()
		}
	}
	return keys
}

func indented(s schema) ([]byte, error) {
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("suite: write a schema: %w: %w", fault.Internal, err)
	}
	return append(out, '\n'), nil
}

// closed is an object with no properties but these.
func closed(properties schema, required ...string) schema {
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func text() schema   { return schema{"type": "string", "minLength": 1} }
func texts() schema  { return schema{"type": "array", "items": text()} }
func amount() schema { return schema{"type": "number", "minimum": 0} }
func environment() schema {
	return schema{"type": "object", "additionalProperties": schema{"type": "string"}}
}
func ref(name string) schema {
	return schema{"$ref": "#/$defs/" + name}
}
func listOf(item schema) schema { return schema{"type": "array", "items": item} }

func caseSchema() schema {
	return closed(schema{
		"id": text(), "prompt": text(), "tags": texts(), "timeoutMs": schema{"type": "integer", "minimum": 1}, "expectedFail": schema{"type": "boolean"},
		"classifyFailure": schema{"type": "string", "description": "JavaScript with result; it returns a class, or nothing."},
		"assert": schema{"description": "Assertions as data, or JavaScript with report, ctx and assert.",
			"oneOf": []any{schema{"type": "array", "minItems": 1, "items": ref("assertion")}, text()}},
	}, "prompt", "assert")
}

func workspaceSchema() schema {
	return closed(schema{
		"mode": schema{"enum": []string{ModeNone, ModeShared, ModeIsolated}}, "cwd": text(), "templateDir": text(),
		"bootstrap": closed(schema{"command": text(), "args": texts(), "timeoutMs": schema{"type": "integer", "minimum": 1}, "env": environment()}, "command"),
	}, "mode")
}

// assertionSchema is one entry: one of the assertions, with options.
func assertionSchema() schema {
	properties := schema{
		"soft": schema{"type": "boolean"}, "message": text(), "question": text(), "paths": texts(),
		"class":         schema{"oneOf": []any{text(), closed(schema{"id": text(), "label": text()}, "id")}},
		"minConfidence": schema{"enum": []string{"weak", "medium", "strong", "explicit"}}, "kind": schema{"enum": []string{Added, Modified, Deleted}},
	}
	var one []any
	for _, name := range checkNames {
		properties[name] = paramsSchema(checks[name])
		one = append(one, schema{"required": []string{name}})
	}
	s := closed(properties)
	s["oneOf"] = one
	return s
}

func paramsSchema(params []param) schema {
	if len(params) == 1 {
		return paramSchema(params[0].kind)
	}
	named, names := schema{}, []string{}
	var items []any
	for _, p := range params {
		named[p.name] = paramSchema(p.kind)
		names = append(names, p.name)
		items = append(items, paramSchema(p.kind))
	}
	return schema{"oneOf": []any{closed(named, names...), schema{"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}}}
}

func paramSchema(kind paramKind) schema {
	if kind == somePaths {
		return schema{"oneOf": []any{ref("matcher"), listOf(ref("matcher"))}}
	}
	if kind&some != 0 {
		return listOf(paramSchema(kind &^ some))
	}
	switch kind {
	case aNumber:
		return schema{"type": "integer", "minimum": 0}
	case aMatcher, aPath:
		return ref("matcher")
	case aCommand:
		return ref("command")
	case aTool:
		return ref("toolCall")
	case aTrue:
		return schema{"const": true}
	case aRun:
		return ref("run")
	case aBudget:
		limits := schema{}
		for _, unit := range budgetUnits {
			limits[unit] = amount()
		}
		s := closed(limits)
		s["minProperties"] = 1
		return s
	case aJudgment:
		return schema{"oneOf": []any{text(), closed(schema{"rubric": text(), "subject": text(), "files": texts(), "diff": schema{"type": "boolean"}, "model": text(), "minScore": amount()}, "rubric")}}
	}
	return text()
}

// matcherDefs are what assertions compare with.
func matcherDefs() schema {
	expression := closed(schema{"regex": text(), "flags": schema{"type": "string", "pattern": "^[imsu]+$"}}, "regex")
	option := schema{"oneOf": []any{schema{"const": true}, ref("matcher")}}
	flag := schema{"type": "boolean"}
	return schema{
		"matcher": schema{"description": "A text that must occur, or an expression.", "oneOf": []any{schema{"type": "string"}, expression}},
		"command": schema{"description": "A text, an expression, or the parts of a command line.", "oneOf": []any{schema{"type": "string"}, expression, closed(schema{
			"executable": ref("matcher"), "positionals": listOf(ref("matcher")),
			"options":      schema{"type": "object", "additionalProperties": schema{"oneOf": []any{schema{"const": true}, ref("matcher"), listOf(option)}}},
			"endOfOptions": flag, "strict": flag, "exact": flag,
		})}},
		"toolCall": schema{"description": "The name of a tool, or its name and some of its arguments.", "oneOf": []any{schema{"type": "string"}, expression,
			closed(schema{"tool": ref("matcher"), "args": schema{"type": "object"}})}},
		"run": schema{"description": "A script for the shell, a program with its arguments, or either with options.", "oneOf": []any{text(), schema{"type": "array", "minItems": 1, "items": text()},
			closed(schema{"command": schema{"oneOf": []any{text(), schema{"type": "array", "minItems": 1, "items": text()}}}, "cwd": text(), "env": environment(), "stdin": text(),
				"timeoutMs": schema{"type": "integer", "minimum": 1}, "exitCode": schema{"type": "integer", "minimum": 0}, "stdout": ref("matcher"), "stderr": ref("matcher")}, "command")}},
	}
}
