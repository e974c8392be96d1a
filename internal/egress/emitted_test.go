package egress

import (
	"fmt"
	"net/http"
	"testing"
)

// TestRefusalsAreEmittedBeforeTheirAnswer: a program may end with the answer, and what is then told of its
// refused requests is what was emitted.
func TestRefusalsAreEmittedBeforeTheirAnswer(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	for i := range 50 {
		host := fmt.Sprintf("%d.test", i)
		c, _, status := w.open(host + ":443")
		if n := len(w.ring.Events()); status != http.StatusForbidden || n != i+1 {
			t.Fatalf("after the answer %d to request %d there are %d events", status, i+1, n)
		}
		c.Close()
	}
}
