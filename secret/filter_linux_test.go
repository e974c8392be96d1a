package secret

import (
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

func TestTheFilterStaysInItsText(t *testing.T) {
	f := providerHeads(t)
	text := testenv.BytesBeforeGuardPage(t, 300)
	for _, of := range []string{"x", "ghp_ AKIA t:// "} {
		for i := range text {
			text[i] = of[i%len(of)]
		}
		for from := range len(text) {
			checkPlaces(t, f, text[from:])
		}
	}
}
