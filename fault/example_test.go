package fault_test

import (
	"errors"
	"fmt"

	"github.com/croft-run/croft/fault"
)

// Classify an error, and act on the code and the cause, never on the text.
func Example() {
	err := fault.WithCause(fmt.Errorf("open demo: %w", fault.NotFound), fault.CauseGone)
	fmt.Println(errors.Is(err, fault.NotFound), fault.Of(err), fault.CauseOf(err), fault.IsTransient(err))
	// Output: true not found gone false
}
