package outputs

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/workspace/driver"
)

func TestCollectorKeepsTheOrderAndTheLimit(t *testing.T) {
	var heard []driver.Output
	c := &Collector{Limit: 24, OnOutput: func(o driver.Output) error {
		heard = append(heard, o)
		return errors.New("no")
	}}
	c.Text(driver.OutputStdout, "one ")
	c.Text(driver.OutputStdout, "two")
	c.Text(driver.OutputStderr, "err")
	c.Data(driver.OutputDisplay, map[string][]byte{"a/b": []byte("1234")})
	c.Data(driver.OutputDisplay, map[string][]byte{"a/b": []byte("12345")})
	c.Text(driver.OutputStdout, "é")
	c.Text(driver.OutputStdout, "aéaé") // four bytes are free, and the last character does not fit
	c.Drop(7)
	var res driver.CodeResult
	c.AddTo(&res)
	want := driver.CodeResult{
		Outputs: []driver.Output{
			{Kind: driver.OutputStdout, Text: "one two"},
			{Kind: driver.OutputStderr, Text: "err"},
			{Kind: driver.OutputDisplay, Data: map[string][]byte{"a/b": []byte("1234")}},
			{Kind: driver.OutputStdout, Text: "éaéa"},
		},
		Dropped:        8 + 2 + 7,
		CallbackErrors: []string{"no", "no", "no", "no", "no", "no"},
	}
	if diff := cmp.Diff(want, res); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if len(heard) != 6 {
		t.Errorf("%d calls, want 6: %v", len(heard), heard)
	}
}

// What was cut into many small pieces is put together once, and neither a flood of
// them nor an exception with a long message makes a result grow beyond its bounds.
func TestCollectorBoundsWhatItIsTold(t *testing.T) {
	c := &Collector{Limit: 1 << 20}
	for range 1 << 20 {
		c.Text(driver.OutputStdout, "x")
	}
	for range 3 * maxOutputs {
		c.Data(driver.OutputDisplay, map[string][]byte{})
		c.Text(driver.OutputStderr, "")
	}
	long := strings.Repeat("é", 1<<20)
	e := c.Error(long, long, []string{"first", long, long, long, long, long, "last"})
	var res driver.CodeResult
	c.AddTo(&res)
	if n := len(res.Outputs); n != maxOutputs || len(res.Outputs[0].Text) != 1<<20 {
		t.Errorf("%d outputs, of which the first has %d bytes; want %d and %d", n, len(res.Outputs[0].Text), maxOutputs, 1<<20)
	}
	if len(e.Name) > maxName || len(e.Value) > maxValue || !utf8.ValidString(e.Value) {
		t.Errorf("the exception has a name of %d and a message of %d bytes", len(e.Name), len(e.Value))
	}
	if n := len(e.Traceback); n == 0 || e.Traceback[n-1] != "last" || len(strings.Join(e.Traceback, "\n")) > maxTrace+1 {
		t.Errorf("the trace has %d lines", n)
	}
	if res.Dropped < 6<<20 {
		t.Errorf("%d bytes are said to be left out", res.Dropped)
	}
}
