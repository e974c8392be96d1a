package shellwire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestCommandsTravel proves that a command arrives as it was sent, whatever
// bytes are in it.
func TestCommandsTravel(t *testing.T) {
	for name, cmd := range map[string]driver.Command{
		"plain": {Argv: []string{"a", "", "c d"}, Dir: "x/y", Env: map[string]string{"K": "v"}, Clean: true},
		"bytes": {Argv: []string{"a", "caf\xe9"}, Dir: "\xff", Env: map[string]string{"K": "\xfe", "L": "ok"}},
		"script": {
			Script: "echo \xff", TTY: &driver.Size{Rows: 1, Cols: 2}, Interactive: true, Timeout: time.Second, Grace: 1,
			Limits: driver.Limits{driver.ResourceMemory: {Max: 1, BestEffort: true}}, MaxOutput: 3, Detached: true, Labels: map[string]string{"k": "v"},
		},
	} {
		data, err := json.Marshal(Encode(cmd))
		if err != nil {
			t.Fatal(err)
		}
		var wire Exec
		if err := driver.DecodeStrict(data, &wire); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := wire.Decode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(cmd, got); diff != "" {
			t.Errorf("%s (-sent +arrived):\n%s", name, diff)
		}
	}
	for _, bad := range []Exec{
		{Argv: []string{"a"}, ArgvB64: [][]byte{{1}}}, {Script: "a", ScriptB64: []byte{1}}, {Dir: "a", DirB64: []byte{1}},
		{Stdin: "a", StdinB64: []byte{1}}, {EnvB64: [][]byte{[]byte("novalue")}},
	} {
		if _, err := bad.Decode(); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%+v: %v, want InvalidArgument", bad, err)
		}
	}
}

// TestDurations reads both forms of a time, and refuses what is neither.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"1m30s"`: 90 * time.Second, `"50ms"`: 50 * time.Millisecond, `"0s"`: 0, `1500000000`: 1500 * time.Millisecond, `"-1s"`: -time.Second,
	} {
		var got Duration
		if err := json.Unmarshal([]byte(text), &got); err != nil || time.Duration(got) != want {
			t.Errorf("%s is %v, %v; want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{`"30"`, `""`, `"1 minute"`, `1.5`, `true`, `{}`, `[]`, `99999999999999999999`} {
		var got Duration
		if err := json.Unmarshal([]byte(text), &got); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %v, %v; want InvalidArgument", text, time.Duration(got), err)
		}
	}
}

func TestWindow(t *testing.T) {
	w := NewWindow()
	taken := 0
	for taken < WindowSize {
		n, err := w.Take(t.Context(), WindowSize)
		if err != nil || n > ChunkSize {
			t.Fatal(n, err)
		}
		taken += n
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Take(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a full window gives %v", err)
	}
	w.Give(-5)
	w.Give(3)
	if n, err := w.Take(t.Context(), 10); n != 3 || err != nil {
		t.Errorf("after 3 bytes were given back there are %d, %v", n, err)
	}
	w.Give(10 * WindowSize)
	w.Give(1)
	if w.free != WindowSize {
		t.Errorf("somebody who gives back too much makes a window of %d", w.free)
	}
}

func TestBuffer(t *testing.T) {
	b := NewBuffer()
	if err := b.Put(make([]byte, WindowSize)); err != nil {
		t.Fatal(err)
	}
	if err := b.Put([]byte("x")); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("more than a window: %v", err)
	}
	b.End(nil)
	b.End(io.ErrUnexpectedEOF) // the first counts
	if data, err := io.ReadAll(b); len(data) != WindowSize || err != nil {
		t.Errorf("read %d bytes, %v", len(data), err)
	}
}
