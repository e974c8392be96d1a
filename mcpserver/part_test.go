package mcpserver

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestLinesFollowTheOneThatHasBegun(t *testing.T) {
	var out bytes.Buffer
	s := newStdio(nil, &out, nil)
	check := func(want string) {
		t.Helper()
		if got := out.String(); got != want {
			t.Errorf("written is %q, want %q", got, want)
		}
	}
	put := func(line string, rest bool) {
		t.Helper()
		if err := s.put([]byte(line), rest); err != nil {
			t.Error(err)
		}
	}
	put("one\n", false)
	if !s.begin([]byte("be")) {
		t.Error("no line can begin")
	}
	if s.begin([]byte("x")) {
		t.Error("a line begins within another")
	}
	put("two\n", false)
	put("three\n", false)
	check("one\nbe")
	put("gun\n", true)
	check("one\nbegun\ntwo\nthree\n")
	put("four\n", false)
	check("one\nbegun\ntwo\nthree\nfour\n")
}

func TestALineThatCannotEndIsAnError(t *testing.T) {
	_, w := io.Pipe()
	s := newStdio(nil, w, nil)
	w.Close() // nobody is there
	if !s.begin([]byte("a")) {
		t.Error("no line can begin")
	}
	if err := s.put([]byte("b\n"), true); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want %v", err, io.ErrClosedPipe)
	}
}
