package eval

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
)

// scrub removes credentials from what a session reports: the diff, the report and the error.
func (r *ExecutionResult) scrub() error {
	if r.scrubber == nil {
		return nil
	}
	r.diff = r.scrubber.String(r.diff)
	if r.Error != nil {
		r.Error.Message, r.Error.Stack = r.scrubber.String(r.Error.Message), r.scrubber.String(r.Error.Stack)
	}
	data, err := json.Marshal(r.Report)
	if err != nil {
		return fmt.Errorf("eval: scrub the report: %w: %w", fault.Internal, err)
	}
	clean, err := scrubJSON(r.scrubber, data)
	if err != nil || bytes.Equal(clean, data) {
		return err
	}
	report := new(session.Report)
	if err := json.Unmarshal(clean, report); err != nil {
		return fmt.Errorf("eval: scrub the report: %w: %w", fault.Internal, err)
	}
	r.Report = report
	return nil
}

// scrubJSON removes credentials from the texts of a document, which stays as it is if it has
// none.
func scrubJSON(s *secret.Scrubber, data []byte) ([]byte, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("eval: scrub: %w: %w", fault.Internal, err)
	}
	changed := false
	v = scrubValue(v, func(text string) string {
		clean := s.String(text)
		changed = changed || clean != text
		return clean
	})
	if !changed {
		return data, nil
	}
	return encodeDocument(v)
}

func scrubValue(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = scrubValue(v[i], f)
		}
	case map[string]any:
		for k := range v {
			v[k] = scrubValue(v[k], f)
		}
	}
	return v
}
