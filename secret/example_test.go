package secret_test

import (
	"fmt"

	"github.com/croft-run/croft/secret"
)

// A value does not print its text, and a scrubber removes it from output, also encoded.
func Example() {
	key := secret.NewValue("API_KEY", "correct horse battery")
	fmt.Println(key, len(key.Reveal()))
	fmt.Println(secret.NewScrubber([]secret.Value{key}, nil).String("sent Y29ycmVjdCBob3JzZSBiYXR0ZXJ5 to the server"))
	// Output:
	// [REDACTED:API_KEY] 21
	// sent [REDACTED:API_KEY] to the server
}
