package config

import (
	"os"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"
)

const published = "../../../docs/croft.schema.json"

func TestSchemaIsCurrent(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, published, got)
}

// validator holds YAML against the schema that is published.
func validator(t *testing.T) func(data []byte) error {
	t.Helper()
	data, err := os.ReadFile(published)
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
	return func(data []byte) error {
		var v any
		if err := yaml.Unmarshal(data, &v); err != nil {
			return err
		}
		return r.Validate(v)
	}
}

func TestExamplesValidateAndLoad(t *testing.T) {
	validate := validator(t)
	for _, path := range examples(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(data); err != nil {
			t.Errorf("%s: the schema refuses it: %v", path, err)
		}
		c, err := Load(path)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if err := validate(c.YAML()); err != nil {
			t.Errorf("%s: the schema refuses what is printed: %v", path, err)
		}
	}
	if err := validate(Default().YAML()); err != nil {
		t.Errorf("the schema refuses the default: %v", err)
	}
}

// TestSchemaRefusesToo holds that an editor with the schema finds mistakes of
// form, which are most of them.
func TestSchemaRefusesToo(t *testing.T) {
	validate := validator(t)
	form := map[string]bool{
		"empty": true, "not a mapping": true, "no version": true, "other version": true, "version as text": true,
		"unknown key": true, "unknown nested key": true, "other case": true, "repeated key": true,
		"list for mapping": true, "mapping for list": true, "number for text": true, "bool for text": true, "text for bool": true,
		"nothing for text": true, "nothing for a limit": true, "limit without max": true, "syntax": true,
		"size": true, "negative": true, "wall without unit": true, "cpus": true, "isolation": true,
		"rule without host": true, "rule of nothing": true, "port": true, "credential without secret": true, "sync": true,
	}
	tried := 0
	for _, tt := range refused {
		if !form[tt.name] {
			continue
		}
		tried++
		if err := validate([]byte(tt.text)); err == nil {
			t.Errorf("%s: the schema accepts\n%s", tt.name, tt.text)
		}
	}
	if tried != len(form) {
		t.Errorf("%d of %d files were tried", tried, len(form))
	}
}

func TestSchemaAcceptsEmptySections(t *testing.T) {
	text := []byte("version: 1\nserver:\nproviders:\npolicies:\n  a:\n    network:\n    limits:\n    env:\nhostRoots:\ncaps:\n")
	if _, err := Parse(text); err != nil {
		t.Error(err)
	}
	if err := validator(t)(text); err != nil {
		t.Error(err)
	}
}
