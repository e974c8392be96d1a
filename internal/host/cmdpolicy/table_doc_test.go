package cmdpolicy

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedTable proves that what docs/isolation.md says of the rules is what
// they are.
func TestDocumentedTable(t *testing.T) {
	page, err := os.ReadFile("../../../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+table()+"\n") {
		t.Errorf("docs/isolation.md has another table than the presets:\n%s", table())
	}
}
