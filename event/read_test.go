package event

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

func TestMarshalIsStable(t *testing.T) {
	e := Event{
		Kind: Operation, Sequence: 7, Time: time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("x", 3600)), Workspace: "w", Session: "s",
		Fields: map[string]any{FieldVerb: "read", FieldPath: "<a>\n", FieldDuration: int64(12), FieldCode: nil},
	}
	want := `{"event":"workspace.operation","sequence":7,"ts":"2026-01-02T02:04:05.0000006Z","workspace":"w","session":"s",` +
		`"fields":{"code":null,"duration_ms":12,"path":"\u003ca\u003e\n","verb":"read"}}`
	for range 20 {
		if got := string(Marshal(e)); got != want {
			t.Fatalf("got\n%s, want\n%s", got, want)
		}
	}
	back, err := Unmarshal([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("round trip differs (-want +got):\n%s", diff)
	}
}

func TestMarshalNeverFails(t *testing.T) {
	e := Event{Kind: Operation, Sequence: 1, Time: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC), Fields: map[string]any{
		"nan": math.NaN(), "chan": make(chan int), "good": 1,
	}}
	got, err := Unmarshal(Marshal(e))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"nan": "NaN", "chan": "chan int", "good": int64(1)}, got.Fields); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
	line := Marshal(Event{Kind: Operation, Sequence: 2, Workspace: strings.Repeat("w", MaxLine), Fields: map[string]any{"x": 1}})
	if got, err = Unmarshal(line); err != nil || len(line) > MaxLine {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	if msg, _ := got.Fields[FieldMessage].(string); !strings.Contains(msg, "left out") || got.Sequence != 2 {
		t.Errorf("got %v, want an event that says what it lost", got)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, in := range []string{"", "{", "null", "[]", "{}", `{"event":1}`, `{"event":"x"} {"event":"y"}`, `{"event":"x","sequence":-1}`} {
		if _, err := Unmarshal([]byte(in)); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("Unmarshal(%q) = %v, want InvalidArgument", in, err)
		}
	}
	e, err := Unmarshal([]byte(`{"event":"x","sequence":1,"ts":"2026-01-01T00:00:00Z","of_the_future":{}}`))
	if err != nil || e.Kind != "x" {
		t.Errorf("got %v, %v; want an event without the key that is not known", e, err)
	}
}

func TestReaderGoesOnAfterBrokenLines(t *testing.T) {
	in := "\n{\"event\":\"a\"}\nbroken\n" + strings.Repeat("x", MaxLine+100_000) + "\n{\"event\":\"b\"}\n\n{\"event\":\"c\"}"
	r := NewReader(strings.NewReader(in), "f")
	var kinds []Kind
	var lines []int
	for {
		e, err := r.Next()
		var bad *LineError
		if errors.As(err, &bad) {
			lines = append(lines, bad.Line)
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
	}
	if diff := cmp.Diff([]Kind{"a", "b", "c"}, kinds); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{3, 4}, lines); diff != "" {
		t.Errorf("bad lines differ (-want +got):\n%s", diff)
	}
	boom := errors.New("boom")
	if _, err := NewReader(iotest.ErrReader(boom), "f").Next(); !errors.Is(err, boom) {
		t.Errorf("got %v, want the error of the reader", err)
	}
}

func TestReadFilesWithoutAFile(t *testing.T) {
	if events, bad := readAll(t, t.TempDir()+"/no/e"); len(events)+len(bad) > 0 {
		t.Errorf("got %v, %v", events, bad)
	}
	if last, err := LastSequence(t.TempDir() + "/e"); last != 0 || err != nil {
		t.Errorf("LastSequence = %d, %v; want 0", last, err)
	}
}

// FuzzReader holds that any input is read to its end, that no line is passed over
// in silence, and that what was read survives being written.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"event\":\"a\",\"sequence\":1,\"ts\":\"2026-01-01T00:00:00Z\",\"fields\":{\"n\":1.5e300,\"l\":[1,{\"x\":2}]}}\n{\"event\""))
	f.Add([]byte("\n\n\x00\nnull\n"))
	f.Add([]byte(`{"event":"a","fields":{"n":1e999,"m":123456789012345678901234567890}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		want := 0
		for line := range bytes.Lines(data) {
			if len(bytes.TrimSpace(line)) > 0 || !bytes.HasSuffix(line, []byte("\n")) {
				want++
			}
		}
		got := 0
		r := NewReader(bytes.NewReader(data), "f")
		for {
			e, err := r.Next()
			var bad *LineError
			if errors.Is(err, io.EOF) {
				break
			}
			got++
			if errors.As(err, &bad) {
				if bad.Torn && bytes.HasSuffix(data, []byte("\n")) {
					t.Error("a torn line in a file that ends with a line")
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			again, err := Unmarshal(Marshal(e))
			if err != nil {
				t.Fatalf("%+v can't be read back: %v", e, err)
			}
			if !bytes.Equal(Marshal(again), Marshal(e)) {
				t.Errorf("%s became %s", Marshal(e), Marshal(again))
			}
		}
		if got != want {
			t.Errorf("got %d answers for %d lines", got, want)
		}
	})
}
