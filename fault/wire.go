package fault

import (
	"fmt"
)

// Wire is the encoding of an error between processes: in HTTP bodies, between host and
// guest, and in --json output.
type Wire struct {
	Code      string `json:"code"`                // E_NOT_FOUND
	Kind      string `json:"kind"`                // not_found
	Message   string `json:"message"`             // one sentence
	Cause     string `json:"cause,omitempty"`     // gone, stale, ...
	Transient bool   `json:"transient,omitempty"` // repeating the call may help
}

// Encode returns the wire form of err. The message of an Internal error is for the
// operator's log only and is replaced.
func Encode(err error) Wire {
	c := Of(err)
	w := Wire{Code: c.Wire(), Kind: c.Kind(), Cause: CauseOf(err), Transient: IsTransient(err)}
	if c == Internal {
		w.Message = "internal error"
		return w
	}
	w.Message = err.Error()
	return w
}

// Err returns an error with the same code, annotations and message. An unknown code becomes
// Internal.
func (w Wire) Err() error {
	c, ok := Parse(w.Code)
	if !ok {
		if c, ok = Parse(w.Kind); !ok {
			return fmt.Errorf("%s (unknown code %q): %w", w.Message, w.Code, Internal)
		}
	}
	var err error = &decoded{code: c, message: w.Message}
	if w.Cause != "" {
		err = WithCause(err, w.Cause)
	}
	if w.Transient {
		err = Transient(err)
	}
	return err
}

// decoded is an error from the wire: its message already includes the words of its code.
type decoded struct {
	code    Code
	message string
}

func (d *decoded) Error() string { return d.message }
func (d *decoded) Unwrap() error { return d.code }
