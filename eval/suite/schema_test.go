package suite

import (
	"flag"
	"os"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write the schemas that are published")

func TestSchemasAreCurrent(t *testing.T) {
	for path, make := range map[string]func() ([]byte, error){"../../docs/eval-suite.schema.json": Schema, "../../docs/eval-config.schema.json": ConfigSchema} {
		got, err := make()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not current; run go test ./eval/suite -run Schemas -update (-want +got):\n%s", path, diff)
		}
	}
}

func valid(t *testing.T, make func() ([]byte, error), text string) error {
	t.Helper()
	data, err := make()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := s.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return r.Validate(v)
}

// every holds each assertion once. The schema and the reader must agree on them.
const every = `cases:
  all:
    prompt: p
    assert:
      - skills.has: a
        minConfidence: strong
      - skills.count: [a, 2]
      - skills.includes: [a, b]
      - commands.includes: {executable: npm, positionals: [test, {regex: x}], options: {--a: true, --b: [x, {regex: y}]}, strict: true}
      - commands.count: {matcher: ls, count: 2}
      - commands.before: [a, {regex: b, flags: i}]
      - commands.only: [a, {executable: b}]
      - commands.size: 3
      - fileReads.first: {regex: x}
      - toolCalls.has: bash
      - toolCalls.sequence: [{tool: a, args: {x: 1}}, {regex: b}, c]
      - output.notEmpty: true
      - files.contains: {path: a, matcher: b}
      - files.changed: "src/**"
        kind: added
      - files.onlyChanged: [a, {regex: b}]
      - files.onlyChanged: "src/**"
      - files.onlyChanged: {regex: b}
      - diff.empty: true
        paths: [src]
      - workspace.run: npm test
      - workspace.run: [npm, test]
      - workspace.run: {command: npm test, cwd: a, env: {A: b}, timeoutMs: 5, exitCode: 1, stdout: {regex: x}}
      - budget: {totalTokens: 5, costUsd: 0.5}
      - judge: is kind
        soft: true
        class: {id: x, label: X}
      - judge: {rubric: is kind, minScore: 0.5, files: [a]}
      - js: assert.ok(true)
        message: m
        question: why
`

func TestSchemaAndReaderAgree(t *testing.T) {
	for name, text := range map[string]string{"every": every, "example": yamlExample} {
		if err := valid(t, Schema, text); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
		if _, err := tryLoad(t, "a.suite.yaml", text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"cases: []", "cases: [{id: a, prompt: p}]", "cases: [{id: a, prompt: p, assert: [{output.include: x}]}]", "cases: [{id: a, prompt: p, assert: [{output.includes: x, output.notEmpty: true}]}]",
		"cases: [{id: a, prompt: p, assert: [{commands.count: [x]}]}]", "cases: [{id: a, prompt: p, assert: [{budget: {money: 1}}]}]", "workspace: {mode: x}\ncases: [{id: a, prompt: p, assert: x()}]"} {
		if err := valid(t, Schema, text); err == nil {
			t.Errorf("the schema accepts %s", text)
		}
		if _, err := tryLoad(t, "a.suite.yaml", text); err == nil {
			t.Errorf("Load accepts %s", text)
		}
	}
	const config = "runners: {a: {agent: {type: codex, model: m}}}\nrun: {schedule: parallel}\ncroft: {bootstrap: once}\n"
	if err := valid(t, ConfigSchema, config); err != nil {
		t.Errorf("the schema refuses a configuration: %v", err)
	}
	if err := valid(t, ConfigSchema, config+"x: 1\n"); err == nil {
		t.Error("the schema accepts an unknown key")
	}
}
