// Package strictjson decodes JSON and rejects what encoding/json accepts silently: unknown,
// repeated or differently cased keys, and data after the value. Errors name the key with
// its path, and what is allowed there.
package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
)

// An Error says what is wrong with a value. Its code is InvalidArgument.
type Error struct{ Text string }

func (e *Error) Error() string { return fault.InvalidArgument.Error() + ": " + e.Text }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return fault.InvalidArgument }

func errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// maxDepth bounds nesting; no type of ours nests so deep.
const maxDepth = 64

// Decode decodes one JSON value into v, a pointer. path is the name of the value in errors;
// it may be "". Map keys are free unless their type has a method JSONKeys that lists them,
// and a type with its own UnmarshalJSON below v checks its own keys. Errors are an *Error,
// or the error of such a type.
func Decode(path string, data []byte, v any) error { return DecodeKnown(path, data, v, nil) }

// DecodeKnown is Decode that skips an unknown key if skip returns true for its path. A key that
// differs from a known one by case alone is not skipped: encoding/json would take it.
func DecodeKnown(path string, data []byte, v any, skip func(path string) bool) error {
	d := decoder{json.NewDecoder(bytes.NewReader(data)), skip}
	d.UseNumber()
	if err := d.checkValue(reflect.TypeOf(v).Elem(), path, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errorf("data after the JSON value")
	}
	err := json.Unmarshal(data, v)
	if err == nil || fault.Of(err) != fault.Internal {
		return err
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return typeError(joinPath(path, typ.Field), typ.Type, typ.Value)
	}
	return errorf("%v", err)
}

func typeError(path string, want reflect.Type, got string) error {
	if path == "" {
		path = "the value"
	}
	return errorf("%s must be %s, not %s", path, kindOf(want), got)
}

func joinPath(path, key string) string { return strings.Trim(path+"."+key, ".") }

type decoder struct {
	*json.Decoder
	skip func(path string) bool // of unknown keys; may be nil
}

// next returns the next token.
func (d decoder) next() (json.Token, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, errorf("not valid JSON: %v", err)
	}
	return tok, nil
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// checkValue reads one value and checks its keys and kinds against t. A nil t allows any
// keys that are not repeated.
func (d decoder) checkValue(t reflect.Type, path string, depth int) error {
	if depth > maxDepth {
		return errorf("nested too deeply")
	}
	tok, err := d.next()
	if err != nil {
		return err
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && (depth > 0 && reflect.PointerTo(t).Implements(unmarshaler) || reflect.PointerTo(t).Implements(textUnmarshaler)) {
		t = nil
	}
	if t != nil && !fitsType(tok, t) {
		return typeError(path, t, Kind(tok))
	}
	switch tok {
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			if err := d.checkValue(elemType(t), fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := d.checkObject(t, path, depth); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = d.next() // the closing delimiter
	return err
}

// elemType returns the element type of a list or a map, nil if any is allowed.
func elemType(t reflect.Type) reflect.Type {
	if t == nil || t.Kind() == reflect.Interface || t.Kind() == reflect.Struct {
		return nil
	}
	return t.Elem()
}

func (d decoder) checkObject(t reflect.Type, path string, depth int) error {
	var fields map[string]reflect.Type
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		fields = fieldsOf(t)
	case t.Kind() == reflect.Map:
		if key, ok := reflect.Zero(t.Key()).Interface().(interface{ JSONKeys() []string }); ok {
			fields = map[string]reflect.Type{}
			for _, name := range key.JSONKeys() {
				fields[name] = t.Elem()
			}
		}
	}
	seen := map[string]bool{}
	for d.More() {
		tok, err := d.next()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		at := joinPath(path, key)
		if seen[key] {
			return errorf("key %q appears twice", at)
		}
		seen[key] = true
		value, known := fields[key]
		if fields == nil {
			value = elemType(t)
		} else if !known && !d.skips(fields, key, at) {
			return errorf("unknown key %q; allowed are %s", at, allowedKeys(fields))
		}
		if err := d.checkValue(value, at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (d decoder) skips(fields map[string]reflect.Type, key, path string) bool {
	for name := range fields {
		if strings.EqualFold(name, key) {
			return false
		}
	}
	return d.skip != nil && d.skip(path)
}

func allowedKeys(fields map[string]reflect.Type) string {
	if len(fields) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

// knownFields caches the results of fieldsOf by type.
var knownFields sync.Map

// fieldsOf returns the JSON keys of a struct. The map is shared.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := knownFields.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-", f.Anonymous && name == "", !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		if _, shadowed := fields[name]; !shadowed || len(f.Index) == 1 {
			fields[name] = f.Type
		}
	}
	knownFields.Store(t, fields)
	return fields
}

// fitsType reports whether a value that begins with a token can have a type, by its kind.
// Null fits every type.
func fitsType(tok json.Token, t reflect.Type) bool {
	if tok == nil || t.Kind() == reflect.Interface {
		return true
	}
	number, isNumber := tok.(json.Number)
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return tok == json.Delim('{')
	case reflect.Slice, reflect.Array:
		if !isBytes(t) {
			return tok == json.Delim('[')
		}
	case reflect.Bool:
		_, ok := tok.(bool)
		return ok
	case reflect.Float32, reflect.Float64:
		return isNumber
	case reflect.String:
		if t == reflect.TypeFor[json.Number]() {
			return isNumber
		}
	default:
		return isNumber && !strings.ContainsAny(string(number), ".eE")
	}
	_, ok := tok.(string)
	return ok
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// kindOf returns the JSON form of a type in words.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		switch {
		case isBytes(t):
			return "a string in base64"
		case t.Elem().Kind() == reflect.String:
			return "an array of strings"
		}
		return "an array"
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer that is not negative"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	}
	return "another kind of value"
}

// Kind returns in words what a value is: a token of encoding/json, or a value decoded into
// an any.
func Kind(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number, float64:
		return fmt.Sprint("the number ", v)
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case json.Delim:
		if v == '[' {
			return "an array"
		}
		return "an object"
	}
	return "null"
}
