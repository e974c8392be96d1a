package process

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func FuzzParseSignal(f *testing.F) {
	for _, s := range []string{"SIGINT", "INT", "", "SIG", "SIGSIGINT", "9", "sigterm"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		sig, err := parseSignal(name)
		if err != nil {
			wantCode(t, name, err, fault.InvalidArgument)
			return
		}
		again, err := parseSignal(signalName(sig))
		if err != nil || again != sig {
			t.Errorf("%q is %d, whose name %q is %d, %v", name, sig, signalName(sig), again, err)
		}
	})
}

func FuzzParseJournal(f *testing.F) {
	id := "abcdefghij0123456789"
	info := driver.SessionInfo{ID: id, Result: &driver.Result{}}
	for _, r := range []journalRecord{
		{Op: opStart, Info: info}, {Op: opForget, Info: info},
		{Op: opEnd, Info: info, Streams: []streamExtent{{Size: 9, Logged: 5, Head: 3, Tail: 3}, {}}},
	} {
		line, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(line, '\n'))
		f.Add(append(line, line[:20]...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &logStore{dir: t.TempDir(), max: 100}
		for id, r := range parseJournal(data) {
			if !driver.ValidID(id) || r.Info.ID != id {
				t.Fatalf("session %q came through", id)
			}
			for _, x := range r.Streams {
				if r.Op != opEnd {
					continue
				}
				o := restoredOutput(l, id+".stdout", x) // whose files are not there
				o.headAndTail()
				o.read(x.Size/2, 10)
				o.readNew(10)
			}
		}
	})
}

// FuzzOutput compares an output with a slice that has everything.
func FuzzOutput(f *testing.F) {
	f.Add(uint8(10), uint8(20), true, []byte("\x05hello\x30\x01\x02"))
	f.Add(uint8(1), uint8(0), false, []byte("\xff\xff"))
	f.Add(uint8(255), uint8(255), true, []byte{})
	f.Fuzz(func(t *testing.T, maxOutput, maxLog uint8, write bool, steps []byte) {
		steps = steps[:min(len(steps), 100)] // each is checked against all before it
		l := &logStore{dir: t.TempDir(), max: int64(maxLog)}
		l.quota.Store(1000)
		o := newOutput(l, "x", int64(maxOutput)+1, write)
		var whole, polled []byte
		var dropped int64
		for i, n := range steps {
			chunk := bytes.Repeat([]byte{byte(i)}, int(n)%40)
			o.add(chunk)
			whole = append(whole, chunk...)
			if n%3 == 0 {
				data, gone, err := o.readNew(int64(n))
				if err != nil {
					t.Fatal(err)
				}
				if end := int64(len(polled)) + dropped + gone + int64(len(data)); gone > 0 && len(data) == 0 || end > int64(len(whole)) {
					t.Fatalf("take returned %d bytes, %d dropped", len(data), gone)
				}
				polled, dropped = append(polled, data...), dropped+gone
			}
			checkOutput(t, o, whole, int64(maxOutput)+1)
		}
		before, _ := o.headAndTail()
		o.finish()
		checkOutput(t, o, whole, int64(maxOutput)+1)
		if after, _ := o.headAndTail(); !bytes.Equal(before, after) {
			t.Fatalf("the result was %q and is %q", before, after)
		}
		for {
			data, gone, err := o.readNew(7)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) == 0 {
				break
			}
			polled, dropped = append(polled, data...), dropped+gone
		}
		if int64(len(polled))+dropped != int64(len(whole)) {
			t.Fatalf("polled %d, dropped %d, of %d", len(polled), dropped, len(whole))
		}
		if o.remove(); l.quota.Load() != 1000 {
			t.Fatalf("room is %d", l.quota.Load())
		}
	})
}

func checkOutput(t *testing.T, o *outputBuffer, whole []byte, maxOutput int64) {
	t.Helper()
	got, dropped := o.headAndTail()
	if int64(len(got)) > maxOutput || int64(len(got))+dropped != int64(len(whole)) {
		t.Fatalf("result has %d bytes, %d dropped, of %d; at most %d", len(got), dropped, len(whole), maxOutput)
	}
	if dropped == 0 && !bytes.Equal(got, whole) {
		t.Fatal("the whole result differs")
	}
	if dropped > 0 {
		half := int(maxOutput / 2)
		if want := slices.Concat(whole[:half], whole[len(whole)-int(maxOutput)+half:]); !bytes.Equal(got, want) {
			t.Fatalf("result %v, want %v", got, want)
		}
	}
	for _, off := range []int{0, len(whole) / 3, len(whole) / 2, len(whole)} {
		data, start, size, err := o.read(int64(off), 5)
		if err != nil || size != int64(len(whole)) || start < int64(off) || !bytes.Equal(data, whole[start:start+int64(len(data))]) {
			t.Fatalf("read(%d) = %v from %d of %d, %v", off, data, start, size, err)
		}
		if off < len(whole) && len(data) == 0 {
			t.Fatalf("read(%d) of %d has nothing", off, len(whole))
		}
	}
}
