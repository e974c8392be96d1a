package driver

import "github.com/croft-run/croft/internal/strictjson"

// DecodeStrict decodes one JSON value into v, a pointer to a struct. Unlike
// encoding/json it refuses keys that are unknown, repeated, or differ in case, and
// anything after the value. Keys of maps are free, except that keys of type Resource
// must be in Resources. A type below v with its own UnmarshalJSON checks its own
// keys. Errors are InvalidArgument and name the key and the allowed keys.
func DecodeStrict(data []byte, v any) error { return strictjson.Decode("", data, v) }

// JSONKeys lists the allowed keys of a map with keys of type Resource, for
// strictjson.
func (Resource) JSONKeys() []string {
	var names []string
	for _, r := range Resources {
		names = append(names, string(r.Name))
	}
	return names
}
