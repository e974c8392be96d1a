package driver

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
)

// DecodeStrict decodes one JSON value into v, a pointer to a struct. Unlike
// encoding/json it refuses keys that are unknown, repeated, or spelled with
// other case, and anything after the value. Keys of maps are free, except that those of
// type Resource must be in Resources, and a type
// with its own UnmarshalJSON below v judges its own keys. Errors are
// InvalidArgument and name the key and the ones that are allowed.
func DecodeStrict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := checkKeys(dec, reflect.TypeOf(v).Elem(), "", 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: data after the JSON value", fault.InvalidArgument)
	}
	if err := json.Unmarshal(data, v); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			return fmt.Errorf("%w: %s must be %s, not %s", fault.InvalidArgument, cmpOr(typ.Field, "the value"), jsonType(typ.Type), strings.ReplaceAll(typ.Value, "bool", "true or false"))
		}
		if code := fault.Of(err); code != fault.Internal {
			return err
		}
		return fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	return nil
}

// jsonType says in plain words what JSON a Go type is written in.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string in base64"
		}
		return "an array"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "another kind of value"
}

// maxDepth is far more than any of our types nests.
const maxDepth = 64

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// checkKeys reads one value from dec and holds its keys against t; a nil t
// accepts any keys that are not repeated.
func checkKeys(dec *json.Decoder, t reflect.Type, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: nested too deeply", fault.InvalidArgument)
	}
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("%w: not valid JSON: %w", fault.InvalidArgument, err)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && depth > 0 && reflect.PointerTo(t).Implements(unmarshaler) {
		t = nil
	}
	if err := checkText(tok, t, path); err != nil {
		return err
	}
	switch tok {
	case json.Delim('['):
		var elem reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			elem = t.Elem()
		}
		for i := 0; dec.More(); i++ {
			if err := checkKeys(dec, elem, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := checkObject(dec, t, path, depth); err != nil {
			return err
		}
	default:
		return nil
	}
	if _, err := dec.Token(); err != nil { // the closing delimiter
		return fmt.Errorf("%w: not valid JSON: %w", fault.InvalidArgument, err)
	}
	return nil
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// checkText refuses a number, or true and false, where a text is wanted: what people
// forget to quote. encoding/json says so, too, but not of which entry of a list.
func checkText(tok json.Token, t reflect.Type, path string) error {
	if t == nil || t.Kind() != reflect.String || t == reflect.TypeFor[json.Number]() || reflect.PointerTo(t).Implements(textUnmarshaler) {
		return nil
	}
	got := ""
	switch tok.(type) {
	case float64:
		got = "number"
	case bool:
		got = "true or false"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s must be a string, not %s", fault.InvalidArgument, cmpOr(path, "the value"), got)
}

func checkObject(dec *json.Decoder, t reflect.Type, path string, depth int) error {
	var fields map[string]reflect.Type
	var elem reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		fields = jsonFields(t)
	} else if t != nil && t.Kind() == reflect.Map {
		elem = t.Elem()
		if t.Key() == reflect.TypeFor[Resource]() {
			fields = map[string]reflect.Type{}
			for _, r := range Resources {
				fields[string(r.Name)] = elem
			}
		}
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("%w: not valid JSON: %w", fault.InvalidArgument, err)
		}
		key, _ := tok.(string)
		at := strings.TrimPrefix(path+"."+key, ".")
		if seen[key] {
			return fmt.Errorf("%w: key %q appears twice", fault.InvalidArgument, at)
		}
		seen[key] = true
		value := elem
		if fields != nil {
			var known bool
			if value, known = fields[key]; !known {
				return fmt.Errorf("%w: unknown key %q; allowed are %s", fault.InvalidArgument, at, allowed(fields))
			}
		}
		if err := checkKeys(dec, value, at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func allowed(fields map[string]reflect.Type) string {
	if len(fields) == 0 {
		return "none"
	}
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// knownFields remembers what jsonFields has answered, by type.
var knownFields sync.Map

// jsonFields returns the keys that encoding/json knows for a struct. Nobody changes
// the map.
func jsonFields(t reflect.Type) map[string]reflect.Type {
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

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
