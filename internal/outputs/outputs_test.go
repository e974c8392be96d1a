package outputs

import (
	"errors"
	"testing"

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
	c.Fill(&res)
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
