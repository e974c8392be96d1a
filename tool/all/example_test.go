package all_test

import (
	"fmt"
	"slices"

	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
)

// All tools under the names that coding agents know.
func Example() {
	tools := all.Coding()
	for _, name := range []string{"Edit", "hover", "undo"} {
		fmt.Println(name, slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Name == name }))
	}
	// Output:
	// Edit true
	// hover true
	// undo true
}
