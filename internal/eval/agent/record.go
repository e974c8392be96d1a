package agent

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/eval/session"
)

// A record is a JSON object of unknown shape. Its methods return zero values for a field
// that is missing or has another type, because a stream of an agent may contain anything.
type record map[string]json.RawMessage

// maxRecords bounds the records that are read of a stream, or of a list in it, so that a
// huge stream can't take unbounded time. Later records are ignored.
const maxRecords = 200_000

// readRecords iterates over JSON lines. Lines that are not objects are skipped.
func readRecords(text []byte) iter.Seq2[int, record] {
	return func(yield func(int, record) bool) {
		n := 0
		for line := range bytes.Lines(text) {
			r := parseRecord(line)
			if r == nil {
				continue
			}
			if !yield(n, r) {
				return
			}
			if n++; n == maxRecords {
				return
			}
		}
	}
}

// allRecords collects readRecords into a slice, for several passes.
func allRecords(text []byte) []record {
	var all []record
	for _, r := range readRecords(text) {
		all = append(all, r)
	}
	return all
}

func parseRecord(raw []byte) record {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	var r record
	if json.Unmarshal(raw, &r) != nil {
		return nil
	}
	return r
}

// kind returns the field "type".
func (r record) kind() string { return r.str("type") }

// text returns a field that is a string.
func (r record) text(key string) (string, bool) {
	raw := r[key]
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// str returns a field that is a string, "" where it is not.
func (r record) str(key string) string {
	s, _ := r.text(key)
	return s
}

// firstText returns the first of the fields that is a string.
func (r record) firstText(keys ...string) (string, bool) {
	for _, k := range keys {
		if s, ok := r.text(k); ok {
			return s, true
		}
	}
	return "", false
}

// maxNumber bounds numbers that are read, so that no sum becomes infinite, which JSON
// can't represent.
const maxNumber = 1e18

// num returns a field that is a number of at most maxNumber, else nil.
func (r record) num(key string) *float64 {
	raw := r[key]
	if len(raw) == 0 || (raw[0] != '-' && (raw[0] < '0' || raw[0] > '9')) {
		return nil
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil || math.Abs(n) > maxNumber {
		return nil
	}
	return &n
}

// isTrue reports whether a field is true.
func (r record) isTrue(key string) bool { return string(r[key]) == "true" }

// obj returns a field that is an object, nil where it is not.
func (r record) obj(key string) record { return parseRecord(r[key]) }

// list returns the objects in a field that is an array.
func (r record) list(key string) []record {
	raw := r[key]
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	var all []record
	for _, it := range items[:min(len(items), maxRecords)] {
		if o := parseRecord(it); o != nil {
			all = append(all, o)
		}
	}
	return all
}

// has reports whether a field exists and is not null.
func (r record) has(key string) bool { raw, ok := r[key]; return ok && string(raw) != "null" }

// raw returns a field as compact JSON, nil if it is missing.
func (r record) raw(key string) json.RawMessage {
	raw, ok := r[key]
	if !ok {
		return nil
	}
	return compactJSON(raw)
}

func compactJSON(raw []byte) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}

// textOrJSON returns a field as text: a string as it is, other values as JSON, "" if it
// is missing.
func (r record) textOrJSON(key string) string {
	if s, ok := r.text(key); ok {
		return s
	}
	return string(r.raw(key))
}

// timeText returns a field of milliseconds since 1970 as a time of a report.
func (r record) timeText(key string) string {
	n := r.num(key)
	if n == nil || math.Abs(*n) > 8.64e15 {
		return ""
	}
	return session.Time(time.UnixMilli(int64(*n)))
}

// encodeJSON encodes a value that is known to be encodable.
func encodeJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}

// exitCodeIn returns the number after a prefix at the beginning of a line.
func exitCodeIn(text, prefix string) (int, bool) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r != '-' && (r < '0' || r > '9') })
			if end >= 0 {
				rest = rest[:end]
			}
			n, err := strconv.Atoi(rest)
			return n, err == nil
		}
	}
	return 0, false
}

// millisBetween returns the milliseconds between two times, nil if either is unknown.
func millisBetween(from, to string) *float64 {
	a, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return nil
	}
	b, err := time.Parse(time.RFC3339, to)
	if err != nil || b.Before(a) {
		return nil
	}
	return session.Millis(b.Sub(a))
}
