package advice

import (
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

// TestEncode: a client of an API reads what to do once, in the words of the API.
func TestEncode(t *testing.T) {
	base := fmt.Errorf("key: %w: it was revoked", fault.Unauthenticated)
	for name, test := range map[string]struct {
		err  error
		want string // the end of the message
	}{
		"words of the kind":     {fault.WithHint(base, fault.HintKey), "; " + words[fault.HintKey][""]},
		"words of the argument": {fault.WithHint(base, fault.HintKey, "admin"), "; use a key with the scope admin"},
		"nothing for clients":   {fault.WithHint(base, fault.HintDoctor), "it was revoked"},
		"part of the text":      {fault.Advise(base, "ask for another one"), "it was revoked; ask for another one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := Encode(test.err)
			if !strings.HasSuffix(w.Message, test.want) {
				t.Errorf("the message is %q, want %q at its end", w.Message, test.want)
			}
			if before := w.Message; before != "" {
				if Append(&w); w.Message != before {
					t.Errorf("a second time the message is %q", w.Message)
				}
			}
		})
	}
}
