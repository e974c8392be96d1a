package driver

import "github.com/croft-run/croft/internal/strictjson"

// DecodeStrict decodes one JSON value into v, a pointer to a struct. Unlike
// encoding/json it refuses keys that are unknown, repeated, or spelled with
// other case, and anything after the value. Keys of maps are free, except that those of
// type Resource must be in Resources, and a type
// with its own UnmarshalJSON below v judges its own keys. Errors are
// InvalidArgument and name the key and the ones that are allowed.
func DecodeStrict(data []byte, v any) error { return strictjson.Decode("", data, v) }

// JSONKeys lists the keys of a map by resource, for strictjson.
func (Resource) JSONKeys() []string {
	var names []string
	for _, r := range Resources {
		names = append(names, string(r.Name))
	}
	return names
}
