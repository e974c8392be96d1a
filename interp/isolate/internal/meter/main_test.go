package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// A module with a memory, and "run", which loops for ever.
var forever = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x08\x02\x60\x00\x01\x7f\x60\x00\x00" + // types: () -> i32, () -> ()
	"\x02\x0c\x01\x03env\x04stop\x00\x00" + // an import of the first
	"\x03\x02\x01\x01" + // one function of the second
	"\x05\x03\x01\x00\x01" + // a memory of one page
	"\x07\x10\x02\x03run\x00\x01\x06memory\x02\x00" +
	"\x0a\x0d\x01\x0b\x00\x03\x40\x42\x7f\x1a\x0c\x00\x0b\x0b") // loop (drop (i64.const -1)) (br 0) end

func TestAMeteredLoopAsksAndStops(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"8", "stop"}, bytes.NewReader(fix(forever)), &out); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	asked := 0
	_, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module) uint32 {
		m.Memory().WriteUint32Le(8, 100)
		if asked++; asked == 5 {
			return 1
		}
		return 0
	}).Export("stop").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := r.Instantiate(ctx, out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mod.ExportedFunction("run").Call(ctx); err == nil || asked != 5 {
		t.Errorf("asked %d times, %v; want 5 and a trap", asked, err)
	}
}

func TestRefusesAModuleWithoutTheImport(t *testing.T) {
	if _, err := addInterruptChecks(fix(forever), 8, "other"); err == nil {
		t.Error("it took it")
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
		out, err := addInterruptChecks(module, 8, "stop")
		if err == nil && len(out) < 8 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
