package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
)

// TestNoClientLearnsOfTheDatabase: the error of a database names its user, name and address. Clients
// are told that it can't be used, and the log has the rest.
func TestNoClientLearnsOfTheDatabase(t *testing.T) {
	_, err := registry.OpenStore(t.Context(), "postgres://storeuser@127.0.0.1:1/storename?sslmode=disable")
	if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "storeuser") {
		t.Fatalf("a database that does not answer: %v, want Unavailable with its user", err)
	}
	err = fmt.Errorf("show the workspace: %w", err)
	for _, word := range []string{"storeuser", "storename", "127.0.0.1"} {
		if got := fault.Encode(err).Message; strings.Contains(got, word) || !strings.HasPrefix(got, "show the workspace: registry: ") {
			t.Errorf("clients are told %q", got)
		}
	}
}
