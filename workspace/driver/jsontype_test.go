package driver

import (
	"encoding/json"
	"strings"
	"testing"
)

// textual is a text that reads itself.
type textual string

func (t *textual) UnmarshalText(text []byte) error {
	*t = textual("read " + string(text))
	return nil
}

// TestStrictTypesInPlainWords: who writes JSON is told of JSON, not of Go.
func TestStrictTypesInPlainWords(t *testing.T) {
	type inner struct {
		N int    `json:"n"`
		M string `json:"m"`
	}
	for text, want := range map[string]string{
		`[]`:                                "the value must be an object, not array",
		`{"inner": 1}`:                      "inner must be an object, not number",
		`{"list": {}}`:                      "list must be an array, not object",
		`{"flag": "yes"}`:                   "flag must be true or false, not string",
		`{"text": 1}`:                       "text must be a string, not number",
		`{"list": [{"n": 1}, {"m": true}]}`: "list[1].m must be a string, not true or false",
		`{"labels": {"a": "b", "c": 4}}`:    "labels.c must be a string, not number",
		`{"number": "1"}`:                   "number must be a whole number, not string",
		`{"bytes": 1}`:                      "bytes must be a string in base64, not number",
		`{"labels": true}`:                  "labels must be an object, not true or false",
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
	var free struct {
		N json.Number `json:"n"`
		T textual     `json:"t"`
	}
	if err := DecodeStrict([]byte(`{"n": 4, "t": "x"}`), &free); err != nil || free.N != "4" || free.T != "read x" {
		t.Errorf("a number that is kept as it is written, and a text that is read by its type: %+v, %v", free, err)
	}
}
