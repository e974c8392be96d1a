package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

// textual is a text that reads itself.
type textual string

func (t *textual) UnmarshalText(text []byte) error {
	*t = textual("read " + string(text))
	return nil
}

// TestTypesInPlainWords: errors speak of JSON, not of Go.
func TestTypesInPlainWords(t *testing.T) {
	type inner struct {
		N int    `json:"n"`
		M string `json:"m"`
	}
	for text, want := range map[string]string{
		`[]`:                                "the value must be an object, not an array",
		`{"inner": 1}`:                      "inner must be an object, not the number 1",
		`{"list": {}}`:                      "list must be an array, not an object",
		`{"flag": "yes"}`:                   "flag must be a boolean, not a string",
		`{"text": 1}`:                       "text must be a string, not the number 1",
		`{"list": [{"n": 1}, {"m": true}]}`: "list[1].m must be a string, not a boolean",
		`{"labels": {"a": "b", "c": 4}}`:    "labels.c must be a string, not the number 4",
		`{"number": "1"}`:                   "number must be an integer, not a string",
		`{"number": 1.5}`:                   "number must be an integer, not the number 1.5",
		`{"number": 99999999999999999999}`:  "number must be an integer, not number 99999999999999999999",
		`{"strings": ["a", 1]}`:             "strings[1] must be a string, not the number 1",
		`{"strings": "a"}`:                  "strings must be an array of strings, not a string",
		`{"list": [{"o": 1}]}`:              `unknown key "list[0].o"; allowed are m, n`,
		`{"Flag": true}`:                    `unknown key "Flag"; allowed are bytes, flag, inner, labels, list, number, strings, text`,
		`{"flag": true, "flag": false}`:     `key "flag" appears twice`,
		`{"labels": {"a": "", "a": ""}}`:    `key "labels.a" appears twice`,
		`{} {}`:                             "data after the JSON value",
		`{"flag"`:                           "not valid JSON: EOF",
		`{"bytes": 1}`:                      "bytes must be a string in base64, not the number 1",
		`{"labels": true}`:                  "labels must be an object, not a boolean",
	} {
		var v struct {
			Inner  inner             `json:"inner"`
			List   []inner           `json:"list"`
			Flag   bool              `json:"flag"`
			Text   string            `json:"text"`
			Number *int64            `json:"number"`
			Bytes  []byte            `json:"bytes"`
			Labels map[string]string `json:"labels"`
			Texts  []string          `json:"strings"`
		}
		if err := Decode("", []byte(text), &v); fault.Of(err) != fault.InvalidArgument || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	var free struct {
		N json.Number `json:"n"`
		T textual     `json:"t"`
	}
	if err := Decode("", []byte(`{"n": 4, "t": "x"}`), &free); err != nil || free.N != "4" || free.T != "read x" {
		t.Errorf("a number that is kept as it is written, and a text that is read by its type: %+v, %v", free, err)
	}
}

func TestPathOfTheValue(t *testing.T) {
	var list []struct {
		N int `json:"n"`
	}
	for text, want := range map[string]string{
		`[{"n": "x"}]`: "edits[0].n must be an integer, not a string",
		`{}`:           "edits must be an array, not an object",
		`[{"m": 1}]`:   `unknown key "edits[0].m"; allowed are n`,
	} {
		if err := Decode("edits", []byte(text), &list); err == nil || err.Error() != "invalid argument: "+want {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

type color string

func (color) JSONKeys() []string { return []string{"red", "green"} }

func TestKeysOfAMapThatAreListed(t *testing.T) {
	var v map[color]int
	if err := Decode("", []byte(`{"red":1}`), &v); err != nil || v["red"] != 1 {
		t.Errorf("got %v, %v", v, err)
	}
	if err := Decode("paint", []byte(`{"blue":1}`), &v); err == nil || err.Error() != `invalid argument: unknown key "paint.blue"; allowed are green, red` {
		t.Errorf("got %v, want that the key is unknown", err)
	}
}

// FuzzDecode: what is accepted is what encoding/json makes of it, and errors have a code.
func FuzzDecode(f *testing.F) {
	type value struct {
		A int               `json:"a"`
		B []string          `json:"b"`
		C map[string]*value `json:"c"`
		D []byte            `json:"d"`
		E any               `json:"e"`
		F float64           `json:"f"`
	}
	for _, text := range []string{`{"a":1,"b":["x",null],"c":{"y":{"a":2}},"d":"eA==","e":[{}],"f":1e3}`, `{"a":1.0}`, `null`, `[`, `{"a":1}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want value
		err := Decode("", data, &got)
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Errorf("%q: %v, want InvalidArgument", data, err)
			}
			return
		}
		if err := json.Unmarshal(data, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v, %v", data, got, want, err)
		}
	})
}
