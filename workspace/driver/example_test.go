package driver_test

import (
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// What every provider does with an edit: the old text must be there exactly once.
func ExampleApplyEdits() {
	text, _, err := driver.ApplyEdits([]byte("a = 1\nb = 1\n"), []driver.Edit{{Old: "a = 1", New: "a = 2"}})
	fmt.Printf("%s%v\n", text, err)
	_, _, err = driver.ApplyEdits([]byte("a = 1\nb = 1\n"), []driver.Edit{{Old: "= 1", New: "= 2"}})
	fmt.Println(fault.Of(err))
	// Output:
	// a = 2
	// b = 1
	// <nil>
	// conflict
}
