package suite

import (
	"fmt"

	"github.com/croft-run/croft/fault"
)

// An Error says why a suite or a configuration can't be used. Message is skillgym's, if
// it has one.
type Error struct {
	Verb    string // what was tried: "load", "read config"
	File    string // with line and column, where they are known
	Code    fault.Code
	Message string
	Info    *ErrorInfo // what the file threw while it was evaluated
}

func (e *Error) Error() string {
	if e.File == "" {
		return fmt.Sprintf("suite: %s: %s: %s", e.Verb, e.Code.Error(), e.Message)
	}
	return fmt.Sprintf("suite: %s %s: %s: %s", e.Verb, e.File, e.Code.Error(), e.Message)
}

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }
