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

// A record is a JSON object of unknown shape. Its methods answer with nothing where
// a field is missing or of another type: a stream is what a program wrote, and may
// be anything.
type record map[string]json.RawMessage

// maxRecords is how many records of a stream, or of a list in it, are read. No
// session that anybody reads has as many; one that has takes its own time, and not
// ours: what comes after them is as if it had not been written.
const maxRecords = 200_000

// readRecords reads lines of JSON, one after another. Lines that are no object are left
// out.
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

// allRecords is records at once, for who looks at them more than once.
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

// firstText returns the first of some fields that is a string.
func (r record) firstText(keys ...string) (string, bool) {
	for _, k := range keys {
		if s, ok := r.text(k); ok {
			return s, true
		}
	}
	return "", false
}

// maxNumber is more than anybody counts. What an agent says that it counted is added
// to more of the same, and no sum may become infinite: JSON has no word for that.
const maxNumber = 1e18

// num returns a field that is a number, nil where it is not, or none that anybody
// counts to.
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

// has reports whether a field is there and not null.
func (r record) has(key string) bool { raw, ok := r[key]; return ok && string(raw) != "null" }

// raw returns a field as compact JSON, nil where it is missing.
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

// textOrJSON returns a field as a text: a string as it is, anything else as JSON, ""
// where it is missing.
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

// encodeJSON returns a value as JSON that is known to be encodable.
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

// millisBetween returns the milliseconds from one time to another, nil where either is
// not known.
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
