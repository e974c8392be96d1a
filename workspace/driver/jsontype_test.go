package driver

import (
	"strings"
	"testing"
)

// TestStrictTypesInPlainWords: who writes JSON is told of JSON, not of Go.
func TestStrictTypesInPlainWords(t *testing.T) {
	type inner struct {
		N int `json:"n"`
	}
	for text, want := range map[string]string{
		`[]`:               "the value must be an object, not array",
		`{"inner": 1}`:     "inner must be an object, not number",
		`{"list": {}}`:     "list must be an array, not object",
		`{"flag": "yes"}`:  "flag must be true or false, not string",
		`{"text": 1}`:      "text must be a string, not number",
		`{"number": "1"}`:  "number must be a whole number, not string",
		`{"bytes": 1}`:     "bytes must be a string in base64, not number",
		`{"labels": true}`: "labels must be an object, not true or false",
	} {
		var v struct {
			Inner  inner             `json:"inner"`
			List   []inner           `json:"list"`
			Flag   bool              `json:"flag"`
			Text   string            `json:"text"`
			Number *int64            `json:"number"`
			Bytes  []byte            `json:"bytes"`
			Labels map[string]string `json:"labels"`
		}
		if err := DecodeStrict([]byte(text), &v); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
