// Command meter adds an interrupt check to every loop of a WebAssembly module.
//
//	meter 8 host_interrupt <in.wasm >out.wasm
//
// At the head of every loop the module decrements a counter in its memory. At zero it
// calls an imported function, which sets the counter again; if that function returns a
// value other than zero, the module traps.
//
// A host in Go needs this for two reasons: to stop a module, and to run the garbage
// collector meanwhile, because machine code that calls no Go function can't be
// preempted. The check of the runtime calls the host in every iteration, which makes an
// interpreter several times slower.
//
// The counter is at the given address, which the module must not use. Modules that
// clang's linker lays out do not use the first kibibyte.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "meter:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: meter ADDRESS IMPORT <in.wasm >out.wasm")
	}
	address, err := strconv.ParseUint(args[0], 10, 10)
	if err != nil {
		return fmt.Errorf("address %q must be a number below 1024", args[0])
	}
	module, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	module, err = addInterruptChecks(module, address, args[1])
	if err != nil {
		return err
	}
	_, err = out.Write(module)
	return err
}

const (
	sectionCustom = 0
	sectionImport = 2
	sectionCode   = 10
)

// addInterruptChecks returns the module with the counter in every loop, and without its custom
// sections, whose offsets are no longer valid.
func addInterruptChecks(module []byte, address uint64, function string) ([]byte, error) {
	const header = 8
	if len(module) < header || !bytes.Equal(module[:header], []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, errors.New("not a WebAssembly module of version 1")
	}
	var check []byte
	out := bytes.Clone(module[:header])
	r := &reader{data: module[header:]}
	for len(r.data) > 0 && r.err == nil {
		id := r.readByte()
		body := r.readBytes(r.readUvarint())
		switch id {
		case sectionCustom:
			continue
		case sectionImport:
			index, ok := importIndex(&reader{data: body}, function)
			if !ok {
				return nil, fmt.Errorf("the module imports no function %s", function)
			}
			check = checkInstructions(address, index)
		case sectionCode:
			if check == nil {
				return nil, errors.New("the module imports nothing")
			}
			body = rewriteCode(body, check, r)
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	return out, r.err
}

// importIndex returns the index of an imported function.
func importIndex(r *reader, function string) (index uint64, ok bool) {
	for n := r.readUvarint(); n > 0 && r.err == nil; n-- {
		r.readBytes(r.readUvarint()) // module name
		name := string(r.readBytes(r.readUvarint()))
		if kind := r.readByte(); kind != 0 { // other kinds of imports are not supported
			return 0, false
		}
		r.readUvarint() // type index
		if name == function {
			return index, true
		}
		index++
	}
	return 0, false
}

// checkInstructions returns the instructions at the head of a loop.
func checkInstructions(address, function uint64) []byte {
	load := append([]byte{0x41, 0, 0x28, 2}, binary.AppendUvarint(nil, address)...) // i32.const 0; i32.load
	b := append([]byte{0x41, 0}, load...)                                           // i32.const 0: address to store
	b = append(b, 0x41, 1, 0x6b, 0x36, 2)                                           // i32.const 1; i32.sub; i32.store
	b = binary.AppendUvarint(b, address)
	b = append(b, load...)
	b = append(b, 0x41, 0, 0x4c, 0x04, 0x40, 0x10) // i32.const 0; i32.le_s; if; call
	b = binary.AppendUvarint(b, function)
	return append(b, 0x04, 0x40, 0x00, 0x0b, 0x0b) // if; unreachable; end; end
}

// rewriteCode rewrites the code section.
func rewriteCode(section, check []byte, outer *reader) []byte {
	r := &reader{data: section}
	count := r.readUvarint()
	out := binary.AppendUvarint(nil, count)
	for i := uint64(0); i < count && r.err == nil; i++ {
		f := &reader{data: r.readBytes(r.readUvarint())}
		body := f.bytesOf(func() {
			for n := f.readUvarint(); n > 0 && f.err == nil; n-- { // locals
				f.readUvarint()
				f.readByte()
			}
		})
		for len(f.data) > 0 && f.err == nil {
			var loop bool
			body = append(body, f.bytesOf(func() { loop = f.readInstruction() })...)
			if loop {
				body = append(body, check...)
			}
		}
		outer.err = errors.Join(outer.err, f.err)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	outer.err = errors.Join(outer.err, r.err)
	return out
}

// A reader parses a module.
type reader struct {
	data []byte
	err  error
}

// bytesOf returns the bytes that step reads.
func (r *reader) bytesOf(step func()) []byte {
	before := r.data
	step()
	return bytes.Clone(before[:len(before)-len(r.data)])
}

func (r *reader) readByte() byte {
	b := r.readBytes(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (r *reader) readBytes(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.err, r.data = errors.Join(r.err, io.ErrUnexpectedEOF), nil
		return nil
	}
	out := r.data[:n]
	r.data = r.data[n:]
	return out
}

func (r *reader) readUvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.err, r.data = errors.Join(r.err, io.ErrUnexpectedEOF), nil
		return 0
	}
	r.data = r.data[n:]
	return v
}

// skipNumbers skips n LEB128 numbers.
func (r *reader) skipNumbers(n uint64) {
	for ; n > 0 && r.err == nil; n-- {
		for r.readByte()&0x80 != 0 {
		}
	}
}

// readInstruction reads one instruction and reports whether it begins a loop.
func (r *reader) readInstruction() (loop bool) {
	switch op := r.readByte(); {
	case op == 0x03: // loop
		r.skipNumbers(1)
		return true
	case op == 0x02, op == 0x04, op == 0x0c, op == 0x0d, op == 0x10, op >= 0x20 && op <= 0x26,
		op == 0x3f, op == 0x40, op == 0x41, op == 0x42, op == 0xd0, op == 0xd2:
		r.skipNumbers(1)
	case op == 0x11, op >= 0x28 && op <= 0x3e: // call_indirect, loads and stores
		r.skipNumbers(2)
	case op == 0x0e: // br_table
		r.skipNumbers(r.readUvarint() + 1)
	case op == 0x1c: // select with types
		r.readBytes(r.readUvarint())
	case op == 0x43:
		r.readBytes(4)
	case op == 0x44:
		r.readBytes(8)
	case op == 0xfc:
		r.readBulk()
	case op <= 0x01, op == 0x05, op == 0x0b, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	default:
		r.err, r.data = errors.Join(r.err, fmt.Errorf("instruction %#x is not known", op)), nil
	}
	return false
}

// readBulk reads the rest of an instruction with prefix 0xfc: bulk memory operations and
// saturating conversions.
func (r *reader) readBulk() {
	switch sub := r.readUvarint(); sub {
	case 0, 1, 2, 3, 4, 5, 6, 7:
	case 9, 11, 13, 15, 16, 17:
		r.skipNumbers(1)
	case 8, 10, 12, 14:
		r.skipNumbers(2)
	default:
		r.err, r.data = errors.Join(r.err, fmt.Errorf("instruction 0xfc %d is not known", sub)), nil
	}
}
