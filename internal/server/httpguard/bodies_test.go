package httpguard

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

func TestBodies(t *testing.T) {
	b := new(Bodies)
	if err := b.Hold("red", maxBodies-10); err != nil {
		t.Fatal(err)
	}
	body := b.Body("red", io.NopCloser(strings.NewReader(strings.Repeat("x", 20))))
	buf := make([]byte, 8)
	if n, err := body.Read(buf); n != 8 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if n, err := body.Read(buf); n != 0 || fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("beyond the bound: read %d, %v", n, err)
	}
	if err := b.Hold("blue", maxBodies); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	body.Release()
	body.Release()
	if n, err := body.Read(buf); n != 4 || err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("after a release: read %d, %v", n, err)
	}
	body.Release()
	b.Release("red", maxBodies-10)
	b.Release("blue", maxBodies)
	if len(b.sizes) != 0 {
		t.Errorf("still held: %v", b.sizes)
	}
	var none *Bodies
	none.Release("red", 1)
	if err := none.Hold("red", maxBodies+1); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}
