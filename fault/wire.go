package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Wire is the encoding of an error between processes: in HTTP bodies, between host and
// guest, and in --json output.
type Wire struct {
	Code      string `json:"code"`                // E_NOT_FOUND
	Kind      string `json:"kind"`                // not_found
	Message   string `json:"message"`             // one sentence
	Cause     string `json:"cause,omitempty"`     // gone, stale, ...
	Transient bool   `json:"transient,omitempty"` // repeating the call may help
	Hints     []Hint `json:"hints,omitempty"`     // what to do
}

// Encode returns the wire form of err. The message of an Internal error is for the
// operator's log only and is replaced, and so is the text of Private.
func Encode(err error) Wire {
	c := Of(err)
	w := Wire{Code: c.Wire(), Kind: c.Kind(), Cause: CauseOf(err), Transient: IsTransient(err)}
	if c == Internal {
		w.Message = "internal error"
		return w
	}
	w.Message = Public(err)
	if !IsPrivate(err) { // those below a private text may say it
		w.Hints = HintsOf(err)
	}
	return w
}

// Err returns an error with the same code, annotations and message. An unknown code becomes
// Internal.
func (w Wire) Err() error {
	c, ok := Parse(w.Code)
	if !ok {
		if c, ok = Parse(w.Kind); !ok {
			return fmt.Errorf("%s (unknown code %q): %w", w.Message, w.Code, Internal)
		}
	}
	var err error = &decoded{code: c, message: w.Message}
	if w.Cause != "" {
		err = WithCause(err, w.Cause)
	}
	if w.Transient {
		err = Transient(err)
	}
	for _, h := range slices.Backward(w.Hints) {
		err = withHint(err, h)
	}
	return err
}

// decoded is an error from the wire: its message already includes the words of its code.
type decoded struct {
	code    Code
	message string
}

func (d *decoded) Error() string { return d.message }
func (d *decoded) Unwrap() error { return d.code }

// Private returns err with another text for clients: its own names what only the operator may know,
// such as the address of a database. Error returns the whole text, for logs and for the operator;
// Encode and Public give text in its place, also below errors that wrap it.
func Private(err error, text string) error {
	if err == nil {
		return nil
	}
	return &private{err, text}
}

type private struct {
	error
	public string
}

func (p *private) Unwrap() error { return p.error }

// IsPrivate reports whether the text of err differs for clients.
func IsPrivate(err error) bool { return errors.As(err, new(*private)) }

// Public returns the text of err for clients. If a wrapping error has changed the private text, all of
// it is left out.
func Public(err error) string {
	whole := err.Error()
	text := whole
	for _, p := range findPrivate(err) {
		if !strings.Contains(whole, p.Error()) {
			return p.public
		}
		text = strings.ReplaceAll(text, p.Error(), p.public)
	}
	return text
}

// findPrivate returns the outermost private errors in the tree of err.
func findPrivate(err error) []*private {
	switch e := err.(type) { //nolint:errorlint // the walk itself unwraps; each node is judged alone
	case nil:
		return nil
	case *private:
		return []*private{e}
	case interface{ Unwrap() []error }:
		var out []*private
		for _, inner := range e.Unwrap() {
			out = append(out, findPrivate(inner)...)
		}
		return out
	}
	return findPrivate(errors.Unwrap(err))
}
