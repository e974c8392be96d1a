package suite

import (
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// The URLs of the schemas.
const (
	SchemaID       = "https://croft.run/schema/eval-suite.json"
	ConfigSchemaID = "https://croft.run/schema/eval-config.json"
)

type schema = map[string]any

// Schema returns the JSON Schema of a suite in YAML, indented.
func Schema() ([]byte, error) {
	s := closedObject(schema{
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
	return encodeSchema(s)
}

// ConfigSchema returns the JSON Schema of croft.eval.yaml, indented.
func ConfigSchema() ([]byte, error) {
	count := func(least int) schema { return schema{"type": "integer", "minimum": least} }
	s := closedObject(schema{
		"run": closedObject(schema{
			"cwd": textSchema(), "outputDir": textSchema(), "reporter": textSchema(), "schedule": schema{"enum": Schedules}, "workspace": workspaceSchema(),
			"maxSteps": count(1), "maxParallel": count(1), "repeat": count(1), "repeatFailure": count(0),
			"retryFailed": schema{"type": "integer", "minimum": 0, "deprecated": true}, "tags": textListSchema(),
		}),
		"defaults": closedObject(schema{"timeoutMs": count(1)}),
		"runners": schema{"type": "object", "minProperties": 1, "additionalProperties": closedObject(schema{
			"agent": closedObject(schema{"type": schema{"enum": AgentTypes}, "model": textSchema(), "command": textSchema(), "commandArgs": textListSchema(), "env": envSchema()}, "type"),
		}, "agent")},
		"snapshots": closedObject(schema{"path": textSchema(), "metric": schema{"enum": Metrics},
			"tolerance": schema{"type": "object", "additionalProperties": false, "minProperties": 1, "properties": schema{"absolute": amountSchema(), "percent": amountSchema()}}}, "tolerance"),
		"croft": closedObject(schema{
			"provider": textSchema(), "policy": schema{"type": "object"}, "allowNet": textListSchema(), "bootstrap": schema{"enum": []string{"each", "once"}}, "record": textSchema(), "replay": textSchema(),
			"tools":  schema{"enum": Toolsets},
			"limits": closedObject(limitSchemas()),
			"judge":  closedObject(schema{"api": schema{"enum": []string{"openai", "anthropic"}}, "url": textSchema(), "model": textSchema(), "keyEnv": textSchema()}, "model"),
		}),
	}, "runners")
	s["$schema"], s["$id"], s["title"] = "https://json-schema.org/draft/2020-12/schema", ConfigSchemaID, "The configuration of croft eval"
	return encodeSchema(s)
}

// limitSchemas describes the keys of croft.limits.
func limitSchemas() schema {
	count := schema{"type": "integer", "minimum": 1}
	keys := schema{outputKey: count}
	for _, r := range driver.Resources {
		keys[limitKey(r)] = count
		if r.Unit == driver.UnitMillicores {
			keys[limitKey(r)] = amountSchema()
		}
	}
	return keys
}

func encodeSchema(s schema) ([]byte, error) {
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("suite: write a schema: %w: %w", fault.Internal, err)
	}
	return append(out, '\n'), nil
}

// closedObject is an object without other properties.
func closedObject(properties schema, required ...string) schema {
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func textSchema() schema     { return schema{"type": "string", "minLength": 1} }
func textListSchema() schema { return schema{"type": "array", "items": textSchema()} }
func amountSchema() schema   { return schema{"type": "number", "minimum": 0} }
func envSchema() schema {
	return schema{"type": "object", "additionalProperties": schema{"type": "string"}}
}
func refSchema(name string) schema {
	return schema{"$ref": "#/$defs/" + name}
}
func listSchema(item schema) schema { return schema{"type": "array", "items": item} }

func caseSchema() schema {
	return closedObject(schema{
		"id": textSchema(), "prompt": textSchema(), "tags": textListSchema(), "timeoutMs": schema{"type": "integer", "minimum": 1}, "expectedFail": schema{"type": "boolean"},
		"classifyFailure": schema{"type": "string", "description": "JavaScript with result; it returns a class, or nothing."},
		"assert": schema{"description": "Assertions as data, or JavaScript with report, ctx and assert.",
			"oneOf": []any{schema{"type": "array", "minItems": 1, "items": refSchema("assertion")}, textSchema()}},
	}, "prompt", "assert")
}

func workspaceSchema() schema {
	return closedObject(schema{
		"mode": schema{"enum": []string{ModeNone, ModeShared, ModeIsolated}}, "cwd": textSchema(), "templateDir": textSchema(),
		"bootstrap": closedObject(schema{"command": textSchema(), "args": textListSchema(), "timeoutMs": schema{"type": "integer", "minimum": 1}, "env": envSchema()}, "command"),
	}, "mode")
}

// assertionSchema is one entry: one of the assertions, with options.
func assertionSchema() schema {
	properties := schema{
		"soft": schema{"type": "boolean"}, "message": textSchema(), "question": textSchema(), "paths": textListSchema(),
		"class":         schema{"oneOf": []any{textSchema(), closedObject(schema{"id": textSchema(), "label": textSchema()}, "id")}},
		"minConfidence": schema{"enum": []string{"weak", "medium", "strong", "explicit"}}, "kind": schema{"enum": []string{Added, Modified, Deleted}},
	}
	var one []any
	for _, name := range checkNames {
		properties[name] = paramsSchema(checks[name])
		one = append(one, schema{"required": []string{name}})
	}
	s := closedObject(properties)
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
	return schema{"oneOf": []any{closedObject(named, names...), schema{"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}}}
}

func paramSchema(kind paramKind) schema {
	if kind == pathOrList {
		return schema{"oneOf": []any{refSchema("matcher"), listSchema(refSchema("matcher"))}}
	}
	if kind&aList != 0 {
		return listSchema(paramSchema(kind &^ aList))
	}
	switch kind {
	case aNumber:
		return schema{"type": "integer", "minimum": 0}
	case aMatcher, aPath:
		return refSchema("matcher")
	case aCommand:
		return refSchema("command")
	case aTool:
		return refSchema("toolCall")
	case aTrue:
		return schema{"const": true}
	case aRun:
		return refSchema("run")
	case aBudget:
		limits := schema{}
		for _, unit := range budgetUnits {
			limits[unit] = amountSchema()
		}
		s := closedObject(limits)
		s["minProperties"] = 1
		return s
	case aJudgment:
		return schema{"oneOf": []any{textSchema(), closedObject(schema{"rubric": textSchema(), "subject": textSchema(), "files": textListSchema(), "diff": schema{"type": "boolean"}, "model": textSchema(), "minScore": amountSchema()}, "rubric")}}
	}
	return textSchema()
}

// matcherDefs are what assertions compare with.
func matcherDefs() schema {
	expression := closedObject(schema{"regex": textSchema(), "flags": schema{"type": "string", "pattern": "^[imsu]+$"}}, "regex")
	option := schema{"oneOf": []any{schema{"const": true}, refSchema("matcher")}}
	flag := schema{"type": "boolean"}
	return schema{
		"matcher": schema{"description": "A text that must occur, or an expression.", "oneOf": []any{schema{"type": "string"}, expression}},
		"command": schema{"description": "A text, an expression, or the parts of a command line.", "oneOf": []any{schema{"type": "string"}, expression, closedObject(schema{
			"executable": refSchema("matcher"), "positionals": listSchema(refSchema("matcher")),
			"options":      schema{"type": "object", "additionalProperties": schema{"oneOf": []any{schema{"const": true}, refSchema("matcher"), listSchema(option)}}},
			"endOfOptions": flag, "strict": flag, "exact": flag,
		})}},
		"toolCall": schema{"description": "The name of a tool, or its name and some of its arguments.", "oneOf": []any{schema{"type": "string"}, expression,
			closedObject(schema{"tool": refSchema("matcher"), "args": schema{"type": "object"}})}},
		"run": schema{"description": "A script for the shell, a program with its arguments, or either with options.", "oneOf": []any{textSchema(), schema{"type": "array", "minItems": 1, "items": textSchema()},
			closedObject(schema{"command": schema{"oneOf": []any{textSchema(), schema{"type": "array", "minItems": 1, "items": textSchema()}}}, "cwd": textSchema(), "env": envSchema(), "stdin": textSchema(),
				"timeoutMs": schema{"type": "integer", "minimum": 1}, "exitCode": schema{"type": "integer", "minimum": 0}, "stdout": refSchema("matcher"), "stderr": refSchema("matcher")}, "command")}},
	}
}
