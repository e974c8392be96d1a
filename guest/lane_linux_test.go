package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func TestOrderAndAnswerComeThrough(t *testing.T) {
	o := &order{client: "c", tag: "t", stdin: []byte("in"), cmd: driver.Command{
		Argv: []string{"a", "", "\xff"}, Dir: "d", Env: map[string]string{"K": "v", "E": ""}, Clean: true, Timeout: time.Second, Grace: -1, MaxOutput: 7,
	}}
	got, err := parseOrder(o.append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o, got, cmp.AllowUnexported(order{})); diff != "" {
		t.Errorf("an order (-want +got):\n%s", diff)
	}
	res := driver.Result{ExitCode: -1, Signal: "SIGKILL", Cause: driver.CauseTimeout, Stdout: []byte("out"), Duration: 5, StderrDropped: 9, Session: "s",
		Usage: driver.Usage{User: 1, System: 2, MaxRSS: 3}}
	back, err := parseAnswer(appendAnswer(nil, &res, nil))
	if diff := cmp.Diff(res, back); diff != "" || err != nil {
		t.Errorf("an answer, %v (-want +got):\n%s", err, diff)
	}
	_, err = parseAnswer(appendAnswer(nil, nil, fmt.Errorf("no such program: %w", fault.NotFound)))
	if fault.Of(err) != fault.NotFound {
		t.Errorf("an error comes as %v", err)
	}
}

func FuzzLane(f *testing.F) {
	f.Add((&order{client: "c", tag: "t", cmd: driver.Command{Argv: []string{"true"}}}).append(nil))
	f.Add(appendAnswer(nil, &driver.Result{Stdout: []byte("x")}, nil))
	f.Add([]byte{answerError, 1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		if o, err := parseOrder(data); err == nil {
			if again, err := parseOrder(o.append(nil)); err != nil || !cmp.Equal(o, again, cmp.AllowUnexported(order{})) {
				t.Errorf("%+v does not come through: %+v, %v", o, again, err)
			}
		}
		res, err := parseAnswer(data)
		if err == nil && (len(res.Stdout) > len(data) || res.StdoutDropped < 0) {
			t.Errorf("%x gives %+v", data, res)
		}
	})
}

// TestHostileLane: whatever comes over the lane, the host gets an error that says
// so, and does without the lane from then on.
func TestHostileLane(t *testing.T) {
	frame := func(data []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	}
	good := appendAnswer(nil, &driver.Result{}, nil)
	for name, answer := range map[string][]byte{
		"huge":      {0xff, 0xff, 0xff, 0xff, 1},
		"empty":     frame(nil),
		"nonsense":  frame([]byte{7, 7}),
		"cut":       frame(good[:len(good)-1]),
		"too much":  append(frame(good), 1),
		"twice":     append(frame(good), frame(good)...),
		"too large": frame(appendAnswer(nil, &driver.Result{Stdout: bytes.Repeat([]byte("x"), maxStream+8<<10)}, nil)),
		"no code":   frame([]byte{answerError}),
		"the end":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := socketpair()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			l, err := newLane(ours)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			heard := make(chan struct{})
			go func() {
				defer close(heard)
				defer theirs.Close()
				buf := make([]byte, 1<<10)
				if _, err := theirs.Read(buf); err == nil {
					theirs.Write(answer)
				}
			}()
			o := &order{client: "c", tag: "t", cmd: driver.Command{Argv: []string{"true"}}}
			_, err, ran := l.run(t.Context(), o)
			if !ran || !errors.Is(err, errNonsense) && !errors.Is(err, io.EOF) {
				t.Errorf("got %v, ran %v", err, ran)
			}
			if _, _, ran := l.run(t.Context(), o); ran {
				t.Error("the lane is used again")
			}
			<-heard
		})
	}
}

// TestSilentLane: a command whose caller has given up comes back from a guest that
// takes the order and never answers, or does not even take it.
func TestSilentLane(t *testing.T) {
	for name, size := range map[string]int{"takes it": 1, "does not": maxOrder / 2} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := socketpair()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			defer theirs.Close()
			l, err := newLane(ours)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			o := &order{client: "c", tag: "t", cmd: driver.Command{Argv: []string{"true"}}, stdin: make([]byte, size)}
			if _, err, ran := l.run(ctx, o); !ran || !errors.Is(err, io.EOF) {
				t.Errorf("got %v, ran %v", err, ran)
			}
			if _, _, ran := l.run(t.Context(), o); ran {
				t.Error("the lane is used again")
			}
		})
	}
}
