package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/croft-run/croft/fault"
)

// MaxLine is the most bytes that an event takes as JSON.
const MaxLine = 1 << 20

// Marshal returns e as one line of JSON, without the newline. The encoding is
// stable: keys of the envelope come in a fixed order, those of the fields
// sorted, and the time is in UTC. It never fails: a field that JSON can't hold
// becomes its text, and an event beyond MaxLine loses its fields and says so.
func Marshal(e Event) []byte {
	e.Time = e.Time.UTC()
	if line, ok := appendPlain(make([]byte, 0, 256), e); ok {
		return line
	}
	line, err := json.Marshal(e)
	if err == nil && len(line) <= MaxLine {
		return line
	}
	if err != nil {
		if y := e.Time.Year(); y < 0 || y > 9999 { // what RFC 3339 can't write
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

// appendPlain appends e as json.Marshal has it, many times quicker, where all that
// is in it is plain: short texts of ASCII that need no escapes, and numbers. It
// reports whether that is so.
func appendPlain(line []byte, e Event) ([]byte, bool) {
	if y := e.Time.Year(); y < 1 || y > 9999 || len(e.Fields) > maxPlainFields {
		return nil, false
	}
	ok := true
	text := func(key, s string) {
		ok = ok && isPlain(s)
		line = append(append(append(append(line, key...), '"'), s...), '"')
	}
	text(`{"event":`, string(e.Kind))
	line = strconv.AppendUint(append(line, `,"sequence":`...), e.Sequence, 10)
	line = append(e.Time.AppendFormat(append(line, `,"ts":"`...), time.RFC3339Nano), '"')
	if e.Workspace != "" {
		text(`,"workspace":`, e.Workspace)
	}
	if e.Session != "" {
		text(`,"session":`, e.Session)
	}
	if len(e.Fields) > 0 && ok {
		line, ok = appendFields(append(line, `,"fields":`...), e.Fields)
	}
	return append(line, '}'), ok
}

// Limits of plain events.
const (
	maxPlainFields = 16
	maxPlainText   = 4 << 10
)

func appendFields(line []byte, fields map[string]any) ([]byte, bool) {
	var room [maxPlainFields]string
	names := room[:0]
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		if !isPlain(name) {
			return nil, false
		}
		line = append(append(append(line, sep, '"'), name...), '"', ':')
		switch v := fields[name].(type) {
		case string:
			if !isPlain(v) {
				return nil, false
			}
			line = append(append(append(line, '"'), v...), '"')
		case int64:
			line = strconv.AppendInt(line, v, 10)
		case int:
			line = strconv.AppendInt(line, int64(v), 10)
		case uint64:
			line = strconv.AppendUint(line, v, 10)
		case bool:
			line = strconv.AppendBool(line, v)
		default:
			return nil, false
		}
	}
	return append(line, '}'), true
}

// isPlain reports whether a text is written as it is.
func isPlain(s string) bool {
	if len(s) > maxPlainText {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20 || c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// plainFields replaces what JSON can't hold.
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

// Unmarshal reads what Marshal wrote. Keys that it does not know are left out,
// so that an older program reads what a newer one wrote. Whole numbers in fields
// become int64, others float64. The error is InvalidArgument.
func Unmarshal(line []byte) (Event, error) {
	var e Event
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&e); err != nil {
		// Not wrapped: the io.EOF of a line is not that of the file.
		return Event{}, fmt.Errorf("event: read line: %w: %v", fault.InvalidArgument, err) //nolint:errorlint // see above
	}
	if dec.More() {
		return Event{}, fmt.Errorf("event: read line: %w: there is more after the event", fault.InvalidArgument)
	}
	if e.Kind == "" {
		return Event{}, fmt.Errorf("event: read line: %w: it has no %q", fault.InvalidArgument, "event")
	}
	for name, v := range e.Fields {
		e.Fields[name] = numbers(v)
	}
	return e, nil
}

func numbers(v any) any {
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
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}
