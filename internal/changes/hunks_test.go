package changes_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/changes"
)

func TestHunks(t *testing.T) {
	h, err := changes.ParseHunks([]string{"b:c:2", "a:1", "b:c:2", "b:c:1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changes.Hunks{"a": {1}, "b:c": {2, 1}}, h); diff != "" {
		t.Errorf("hunks (-want +got):\n%s", diff)
	}
	if got := h.Strings(); !slices.Equal(got, []string{"a:1", "b:c:2", "b:c:1"}) {
		t.Errorf("as texts: %q", got)
	}
	for _, bad := range []string{"", "a", "a:", "a:0", "a:-1", ":1", "a:x", "a:1 "} {
		if h, err := changes.ParseHunks([]string{bad}); err == nil {
			t.Errorf("%q is %v", bad, h)
		}
	}
}
