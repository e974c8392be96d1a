package fault

import (
	"fmt"
	"slices"
	"strings"
)

// A HintKind names what helps against an error. The packages that return errors know neither the flags
// of a command line nor the parameters of an API: each edge says a kind in the words of its user.
type HintKind string

// The kinds, with their arguments.
const (
	HintBestEffort HintKind = "best_effort" // go on without a limit that can't be enforced here
	HintDenied     HintKind = "denied"      // leave out a part of a command that the command policy refuses: the part
	HintDoctor     HintKind = "doctor"      // see what this host lacks for isolation
	HintImage      HintKind = "image"       // import a container image, or choose another one
	HintKey        HintKind = "key"         // make an API key; its scope, or ""
	HintList       HintKind = "list"        // look up what there is: workspaces, snapshots, sessions, keys, templates, artifacts
	HintMinimum    HintKind = "minimum"     // give a larger limit: its resource
	HintPattern    HintKind = "pattern"     // search for a text instead of a regular expression
	HintProgram    HintKind = "program"     // a program that was not found: its name
	HintProvider   HintKind = "provider"    // choose a provider that exists, or one for commands or pausing: what was asked for
	HintReach      HintKind = "reach"       // a server that does not answer: "", or TLS if that fails
	HintReset      HintKind = "reset"       // reset a failed workspace after mending it: its name or id
	HintSetting    HintKind = "setting"     // a setting of the operator: its name
	HintSnapshot   HintKind = "snapshot"    // take snapshots, or have them taken
	HintState      HintKind = "state"       // look at the states of the workspaces: what was refused
)

// A Hint says what to do about an error.
type Hint struct {
	Kind HintKind `json:"kind,omitempty"` // "" is a sentence for every user
	Args []string `json:"args,omitempty"` // of the kind
	Text string   `json:"text,omitempty"` // the part of the error's text that says it, if there is one
}

// Arg returns an argument, "" if the hint has fewer.
func (h Hint) Arg(i int) string {
	if i < len(h.Args) {
		return h.Args[i]
	}
	return ""
}

// WithHint attaches a hint. The text of the error stays.
func WithHint(err error, kind HintKind, args ...string) error {
	return withHint(err, Hint{Kind: kind, Args: args})
}

// Advise adds a sentence that says every user what to do, such as which values are allowed. It is a hint,
// and the end of the error's text.
func Advise(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return withHint(&advised{err, fmt.Sprintf(format, args...)}, Hint{Text: fmt.Sprintf(format, args...)})
}

func withHint(err error, h Hint) error {
	if err == nil {
		return nil
	}
	return &mark{error: err, hint: &h}
}

type advised struct {
	error
	advice string
}

func (a *advised) Unwrap() error { return a.error }

// Error returns the text with the advice. It follows a code as its reason does.
func (a *advised) Error() string {
	text := a.error.Error()
	if strings.HasSuffix(text, Of(a.error).Error()) {
		return text + ": " + a.advice
	}
	return text + "; " + a.advice
}

// HintsOf returns the hints of err, the outermost first, each once.
func HintsOf(err error) []Hint {
	var hints []Hint
	_ = anyMark(err, func(m *mark) bool { // it visits all
		same := func(h Hint) bool {
			return h.Kind == m.hint.Kind && h.Text == m.hint.Text && slices.Equal(h.Args, m.hint.Args)
		}
		if m.hint != nil && !slices.ContainsFunc(hints, same) {
			hints = append(hints, *m.hint)
		}
		return false
	})
	return hints
}

// SplitHints returns the text of err without the words of its hints, and the hints.
func SplitHints(err error) (string, []Hint) {
	text, hints := err.Error(), HintsOf(err)
	for _, h := range hints {
		if h.Text != "" {
			text = strings.NewReplacer(": "+h.Text, "", "; "+h.Text, "").Replace(text)
		}
	}
	return text, hints
}
