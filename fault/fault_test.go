package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestTablesAreTotal(t *testing.T) {
	exits := map[int]Code{}
	for _, c := range All() {
		if _, ok := table[c]; !ok {
			t.Errorf("%s has no row in the table", c)
		}
		if s := c.Status(); s < 400 || s > 599 {
			t.Errorf("%s.Status() = %d, want an error status", c, s)
		}
		if e := c.Exit(); e < 10 || e > 124 {
			t.Errorf("%s.Exit() = %d, want 10..124", c, e)
		}
		if other, dup := exits[c.Exit()]; dup {
			t.Errorf("%s and %s share exit status %d", c, other, c.Exit())
		}
		exits[c.Exit()] = c
		for _, s := range []string{c.Wire(), c.Kind()} {
			if got, ok := Parse(s); !ok || got != c {
				t.Errorf("Parse(%q) = %q, %v; want %q", s, got, ok, c)
			}
		}
	}
	if len(table) != len(All()) {
		t.Errorf("the table has %d rows for %d codes", len(table), len(All()))
	}
	if got, want := SandboxViolation.Wire(), "E_SANDBOX_VIOLATION"; got != want {
		t.Errorf("Wire() = %q, want %q", got, want)
	}
	if got, want := Code("nonsense").Status(), http.StatusInternalServerError; got != want {
		t.Errorf("unknown code has status %d, want %d", got, want)
	}
}

func TestOf(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want Code
	}{
		{"nil", nil, ""},
		{"code", NotFound, NotFound},
		{"wrapped", fmt.Errorf("x: %w", Conflict), Conflict},
		{"outermost wins", fmt.Errorf("x: %w: %w", Unavailable, fmt.Errorf("y: %w", NotFound)), Unavailable},
		{"inner where the outer has none", fmt.Errorf("x: %w: %w", errors.New("plain"), NotFound), NotFound},
		{"unclassified", errors.New("plain"), Internal},
		{"canceled", fmt.Errorf("x: %w", context.Canceled), Canceled},
		{"deadline", context.DeadlineExceeded, DeadlineExceeded},
		{"os deadline", os.ErrDeadlineExceeded, DeadlineExceeded},
		{"not exist", &fs.PathError{Op: "open", Path: "p", Err: syscall.ENOENT}, NotFound},
		{"sentinel", fs.ErrExist, AlreadyExists},
		{"disk full", &fs.PathError{Err: syscall.ENOSPC}, ResourceExhausted},
		{"unknown errno", syscall.EXDEV, Internal},
		{"through a mark", Transient(WithCause(fmt.Errorf("x: %w", Failed), CauseGone)), Failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Of(tt.err); got != tt.want {
				t.Errorf("Of(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}

func TestMarks(t *testing.T) {
	base := fmt.Errorf("open: %w", Failed)
	if IsTransient(base) || CauseOf(base) != "" {
		t.Fatal("an unmarked error has marks")
	}
	both := fmt.Errorf("outer: %w", Transient(WithCause(base, CauseGone)))
	if !IsTransient(both) {
		t.Error("the transient mark is lost under wrapping")
	}
	if got := CauseOf(both); got != CauseGone {
		t.Errorf("CauseOf = %q, want %q", got, CauseGone)
	}
	if got, want := both.Error(), "outer: open: failed"; got != want {
		t.Errorf("marks changed the message to %q, want %q", got, want)
	}
	if !IsTransient(errors.Join(errors.New("a"), Transient(base))) {
		t.Error("the transient mark is lost in a join")
	}
	if Transient(nil) != nil || WithCause(nil, "x") != nil {
		t.Error("marking nil made an error")
	}
}

func TestWireRoundTrip(t *testing.T) {
	for _, c := range All() {
		in := WithCause(Transient(fmt.Errorf("do a thing: %w", c)), CauseStale)
		data, err := json.Marshal(Encode(in))
		if err != nil {
			t.Fatal(err)
		}
		var w Wire
		if err := json.Unmarshal(data, &w); err != nil {
			t.Fatal(err)
		}
		out := w.Err()
		if Of(out) != c || !IsTransient(out) || CauseOf(out) != CauseStale {
			t.Errorf("%s came back as %v (%s)", c, out, Of(out))
		}
		if c != Internal && out.Error() != in.Error() {
			t.Errorf("message came back as %q, want %q", out, in)
		}
	}
	if got := Encode(errors.New("password=hunter2")).Message; got != "internal error" {
		t.Errorf("an Internal message crossed the wire: %q", got)
	}
	if got := Of(Wire{Code: "E_FROM_THE_FUTURE", Message: "m"}.Err()); got != Internal {
		t.Errorf("an unknown code became %q", got)
	}
}

// TestPrivate: the text for clients takes the place of the whole one, whatever wraps it.
func TestPrivate(t *testing.T) {
	hidden := Private(fmt.Errorf("find a key: %w: dial 10.0.0.1", Unavailable), "find a key: unavailable")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{hidden, "find a key: unavailable"},
		{fmt.Errorf("show %s: %w (%w)", "a", hidden, Transient(hidden)), "show a: find a key: unavailable (find a key: unavailable)"},
		{errors.Join(NotFound, fmt.Errorf("b: %w", hidden)), "not found\nb: find a key: unavailable"},
		{Private(hidden, "other"), "other"},
		{Default(fmt.Errorf("%s%w", strings.Repeat("x", 1990), hidden), Failed), strings.Repeat("x", 1990) + "find a key: unavailable"},
	} {
		if got := Public(tt.err); got != tt.want {
			t.Errorf("%v is told as %q, want %q", tt.err, got, tt.want)
		}
		if got := Encode(tt.err).Message; strings.Contains(got, "10.0.0.1") {
			t.Errorf("on the wire: %q", got)
		}
		if !IsPrivate(tt.err) || !strings.Contains(tt.err.Error(), "10.0.0.1") {
			t.Errorf("%v is not private, or has lost its text", tt.err)
		}
	}
	cut := &cutError{hidden}
	if got := Public(cut); got != "find a key: unavailable" {
		t.Errorf("an error that changes the text: %q", got)
	}
	if err := NotFound; Public(err) != "not found" || IsPrivate(err) || Private(nil, "x") != nil {
		t.Error("an error that is not private")
	}
}

type cutError struct{ error }

func (c *cutError) Error() string { return c.error.Error()[:20] }
func (c *cutError) Unwrap() error { return c.error }

// TestHints: a hint goes through wrapping and over the wire, and only advice is part of the text.
func TestHints(t *testing.T) {
	err := fmt.Errorf("open: %w", WithHint(Advise(fmt.Errorf("name %q: %w", "A", InvalidArgument), "a name is %s", "x"), HintKey, "run"))
	err = WithHint(err, HintKey, "run") // said once
	if got, want := err.Error(), `open: name "A": invalid argument: a name is x`; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got, want := Advise(errors.New("it is in use"), "choose another").Error(), "it is in use; choose another"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	for _, e := range []error{err, Encode(err).Err()} {
		text, hints := SplitHints(e)
		if text != `open: name "A": invalid argument` || len(hints) != 2 {
			t.Fatalf("%q, hints %v", text, hints)
		}
		if h := hints[0]; h.Kind != HintKey || h.Arg(0) != "run" || h.Arg(1) != "" || h.Text != "" {
			t.Errorf("first hint %+v", h)
		}
		if h := hints[1]; h.Kind != "" || h.Text != "a name is x" {
			t.Errorf("second hint %+v", h)
		}
	}
	if hidden := Encode(Private(err, "a name")); len(hidden.Hints) != 0 {
		t.Errorf("hints of a private text crossed the wire: %v", hidden.Hints)
	}
	if Advise(nil, "x") != nil || WithHint(nil, HintKey) != nil {
		t.Error("a hint on nil made an error")
	}
}
