package codeblock_test

import (
	"fmt"
	"log"

	"github.com/croft-run/croft/interp/codeblock"
)

// The code of an answer of a model. Run runs the blocks in a workspace.
func Example() {
	answer := "Run this:\n\n```python\nprint(1 + 1)\n```\n"
	blocks, err := codeblock.Extract(answer, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range blocks {
		fmt.Printf("%s: %s\n", b.Language, b.Code)
	}
	// Output: python: print(1 + 1)
}
