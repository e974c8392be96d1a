package suite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/eval/suite"
)

// Load a suite in YAML.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "greet.suite.yaml")
	text := "cases:\n  - id: greets\n    prompt: Say hello.\n    assert:\n      - output.includes: hello\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	s, err := suite.Load(context.Background(), path, &suite.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, c := range s.Cases {
		fmt.Printf("%s: %s\n", c.ID, c.Prompt)
	}
	// Output: greets: Say hello.
}
