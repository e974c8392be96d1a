package tool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A textError has a text for the model and a code for programs.
type textError struct {
	text string
	code fault.Code
	err  error // wrapped; may be nil
}

// Errorf returns an error with exactly this text. Prompts of agents rely on some of the
// texts; programs use the code.
func Errorf(code fault.Code, format string, args ...any) error {
	return &textError{text: fmt.Sprintf(format, args...), code: code}
}

func (e *textError) Error() string { return e.text }

func (e *textError) Unwrap() []error {
	if e.err != nil {
		return []error{e.code, e.err}
	}
	return []error{e.code}
}

// ErrorText returns the text of an error for the model. The text of an internal error stays
// in the log.
func ErrorText(err error) string {
	var t *textError
	if errors.As(err, &t) {
		return t.text
	}
	return withoutStutter(fault.Encode(err).Message)
}

// withoutStutter drops a part of the first line that the next part repeats: "read: read
// a.txt: not found" is "read a.txt: not found".
func withoutStutter(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	var parts []string
	for part := range strings.SplitSeq(first, ": ") {
		if n := len(parts); n > 0 && (part == parts[n-1] || strings.HasPrefix(part, parts[n-1]+" ")) {
			parts = parts[:n-1]
		}
		parts = append(parts, part)
	}
	first = strings.Join(parts, ": ")
	if more {
		return first + "\n" + rest
	}
	return first
}

// PathError returns the error of an operation on a path in the words that agents know. verb
// is the operation, such as "read".
func PathError(verb, path string, err error) error {
	switch fault.Of(err) {
	case fault.SandboxViolation:
		return &textError{text: "resolve path: path is outside workspace root", code: fault.SandboxViolation, err: err}
	case fault.NotFound:
		return &textError{text: fmt.Sprintf("stat %s: no such file or directory", path), code: fault.NotFound, err: err}
	}
	return fmt.Errorf("%s: %w", verb, err)
}
