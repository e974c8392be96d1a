package shellwire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
)

// A Duration is a time in JSON: a text such as "1m30s", or a number of
// nanoseconds, which is how it is written.
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
	return fmt.Errorf("%.40s: %w: it is a duration such as \"50ms\" or \"1m30s\", or a number of nanoseconds", data, fault.InvalidArgument)
}
