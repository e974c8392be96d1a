package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
)

// A module with a memory, and "run", which loops for ever.
var forever = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x04\x01\x60\x00\x00" + // one type: () -> ()
	"\x03\x02\x01\x00" + // one function of it
	"\x05\x03\x01\x00\x01" + // a memory of one page
	"\x07\x10\x02\x03run\x00\x00\x06memory\x02\x00" +
	"\x0a\x0d\x01\x0b\x00\x03\x40\x42\x7f\x1a\x0c\x00\x0b\x0b") // loop (drop (i64.const -1)) (br 0) end

func TestAMeteredLoopCanBeStopped(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"8"}, bytes.NewReader(fix(forever)), &out); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	mod, err := r.Instantiate(ctx, out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := mod.ExportedFunction("run").Call(context.WithoutCancel(ctx)); done <- err }()
	time.Sleep(10 * time.Millisecond)
	select {
	case err := <-done:
		t.Fatalf("it ended by itself: %v", err)
	default:
	}
	mod.Memory().WriteByte(8, 1)
	if err := <-done; err == nil {
		t.Error("it ended without a trap")
	}
}

// fix writes the lengths of the function and its section.
func fix(module []byte) []byte {
	i := bytes.LastIndex(module, []byte("\x0a\x0d"))
	m := bytes.Clone(module)
	body := len(m) - (i + 4)
	m[i+1], m[i+3] = byte(body+2), byte(body)
	return m
}

func FuzzMeter(f *testing.F) {
	f.Add(fix(forever))
	f.Fuzz(func(t *testing.T, module []byte) {
		out, err := meter(module, 8)
		if err == nil && len(out) < 8 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
