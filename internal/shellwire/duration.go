package shellwire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
)

// A Duration is a duration in JSON: a text such as "1m30s", or a number of nanoseconds,
// which is the form that is written.
type Duration time.Duration

// UnmarshalJSON reads either form.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		t, err := time.ParseDuration(text)
		if err != nil {
			return badDuration(data)
		}
		*d = Duration(t)
		return nil
	}
	var n int64
	if json.Unmarshal(data, &n) != nil {
		return badDuration(data)
	}
	*d = Duration(n)
	return nil
}

func badDuration(data []byte) error {
	return fmt.Errorf("%.40s: %w: give a duration such as \"50ms\" or \"1m30s\", or a number of nanoseconds", data, fault.InvalidArgument)
}
