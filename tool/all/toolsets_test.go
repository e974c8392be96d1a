package all_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/workspace/driver"
)

// TestToolsAreInTheirSet: a client gets the tools of a set by their names, so that
// one with the wrong kind of name would be in none.
func TestToolsAreInTheirSet(t *testing.T) {
	for _, x := range all.Coding() {
		if strings.HasPrefix(x.Name, driver.ReservedToolPrefix) {
			t.Errorf("%s is a tool for code, and no client that wants those gets it", x.Name)
		}
	}
	for _, x := range all.Workspace() {
		if !strings.HasPrefix(x.Name, driver.ReservedToolPrefix) {
			t.Errorf("%s is a plain tool, and no client that wants those gets it", x.Name)
		}
	}
}

// TestArgumentsOfAFewWords: the schema has the words that the tool takes, so that models
// need not find them in its text, and clients can refuse others.
func TestArgumentsOfAFewWords(t *testing.T) {
	env := newEnv(t, project)
	calls := map[string]string{
		"BashOutput stream": `{"shell_id": "none", "offset": 0, "stream": "x"}`,
		"Grep output_mode":  `{"pattern": "a", "output_mode": "x"}`,
		"check kind":        `{"kind": "x"}`,
		"edit_code action":  `{"file_path": "calc.go", "name": "Sum", "code": "x", "action": "x"}`,
		"symbol ask":        `{"file_path": "calc.go", "ask": "x"}`,
	}
	seen := 0
	for _, tl := range available(t) {
		for name, s := range tl.Input.Properties {
			if len(s.Enum) == 0 {
				continue
			}
			seen++
			_, err := env.Run(t.Context(), tool.Request{Tool: tl.Name, Args: json.RawMessage(calls[tl.Name+" "+name]), Session: "words"})
			text := tool.ErrorText(err)
			for _, word := range s.Enum {
				if fault.Of(err) != fault.InvalidArgument || !strings.Contains(text, word.(string)) {
					t.Errorf("%s takes %v for %s, and refuses another word with %q", tl.Name, s.Enum, name, text)
				}
			}
		}
	}
	if seen != len(calls) {
		t.Errorf("%d arguments have words, want %d", seen, len(calls))
	}
}
