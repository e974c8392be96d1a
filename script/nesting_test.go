package script

import (
	"strings"
	"testing"
)

// TestDeepTypeScript: whatever is nested as deeply as a source may be long is an
// answer, and not the end of the process.
func TestDeepTypeScript(t *testing.T) {
	for name, tt := range map[string]struct{ file, unit string }{
		"lists":  {"a.ts", "["},
		"blocks": {"a.ts", "{"},
	} {
		t.Run(name, func(t *testing.T) {
			most := strings.Repeat(tt.unit, maxTypeScript/len(tt.unit))
			if _, bad := javascript(most, tt.file); bad != nil && bad.Name != "SyntaxError" {
				t.Errorf("got %+v", bad)
			}
			if _, bad := javascript(most+strings.Repeat(" ", 10), tt.file); bad == nil || bad.Name != "RangeError" {
				t.Errorf("one that is too long gives %+v", bad)
			}
		})
	}
}
