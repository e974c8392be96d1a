package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/croft-run/croft/fault"
)

// MaxLine bounds an event as JSON, in bytes.
const MaxLine = 1 << 20

// Marshal returns e as one line of JSON, without the newline. The encoding is stable:
// envelope keys have a fixed order, field keys are sorted, and the time is in UTC. It never
// fails: a field that JSON can't represent becomes text, and an event beyond MaxLine loses
// its fields and says so.
func Marshal(e Event) []byte {
	e.Time = e.Time.UTC()
	line, err := json.Marshal(e)
	if err == nil && len(line) <= MaxLine {
		return line
	}
	if err != nil {
		if y := e.Time.Year(); y < 0 || y > 9999 { // RFC 3339 allows only these years
			e.Time = time.Time{}
		}
		e.Fields = plainFields(e.Fields)
		if line, err = json.Marshal(e); err == nil && len(line) <= MaxLine {
			return line
		}
	}
	size := len(line)
	e.Kind, e.Workspace, e.Session = Kind(Cut(string(e.Kind))), Cut(e.Workspace), Cut(e.Session)
	e.Fields = map[string]any{FieldMessage: fmt.Sprintf("the fields are left out: the event has %d bytes, more than %d", size, MaxLine)}
	line, err = json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("event: marshal a plain event: %v", err)) // strings, numbers and a valid time
	}
	return line
}

// plainFields replaces values that JSON can't represent.
func plainFields(fields map[string]any) map[string]any {
	plain := make(map[string]any, len(fields))
	for name, v := range fields {
		if _, err := json.Marshal(v); err != nil {
			if f, ok := v.(float64); ok {
				v = strconv.FormatFloat(f, 'g', -1, 64) // NaN and the infinities
			} else {
				v = fmt.Sprintf("%T", v)
			}
		}
		plain[name] = v
	}
	return plain
}

// mapTexts returns a copy of v with f applied to every text, keys of maps as well.
func mapTexts(v any, f func(string) string) any {
	switch v := v.(type) {
	case nil, bool, int, int64, uint64, float64, json.Number:
		return v
	case string:
		return f(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = mapTexts(v[i], f)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[f(k)] = mapTexts(x, f)
		}
		return m
	}
	// Another type, such as a list of structs, is what JSON makes of it.
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	var plain any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&plain); err != nil {
		return fmt.Sprintf("%T", v)
	}
	return mapTexts(plainNumbers(plain), f)
}

// Unmarshal parses the output of Marshal. Unknown keys are ignored, so that an older
// program can read a newer program's events. Integers in fields become int64, other numbers
// float64. The error is InvalidArgument.
func Unmarshal(line []byte) (Event, error) {
	var e Event
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&e); err != nil {
		// Not wrapped: the io.EOF of a line is not that of the file.
		return Event{}, fmt.Errorf("event: read line: %w: %v", fault.InvalidArgument, err) //nolint:errorlint // see above
	}
	if dec.More() {
		return Event{}, fmt.Errorf("event: read line: %w: there is data after the event", fault.InvalidArgument)
	}
	if e.Kind == "" {
		return Event{}, fmt.Errorf("event: read line: %w: the key %q is missing", fault.InvalidArgument, "event")
	}
	for name, v := range e.Fields {
		e.Fields[name] = plainNumbers(v)
	}
	return e, nil
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil && !math.IsInf(f, 0) {
			return f
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}
