// Command meter rewrites a WebAssembly module so that it lets its host speak now
// and then: at the head of every loop it counts down a word of its own memory,
// and when that is used up it calls a function that it imports. That one sets the
// word anew, and where it answers other than zero the module traps.
//
//	meter 8 host_interrupt <in.wasm >out.wasm
//
// A host in Go needs this twice over: to stop a module, and to be able to collect
// garbage meanwhile, since machine code that calls nothing of Go's can't be
// preempted. A runtime's own way calls the host at every turn of every loop, which
// makes an interpreter several times as slow.
//
// The word is at the address given, which must be one that the module does not
// use; the first kibibyte is not, in what clang's linker lays out.
package meter

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
	module, err = meter(module, address, args[1])
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

// meter returns the module with the count in every loop, and without its custom
// sections, which tell of offsets that no longer hold.
func meter(module []byte, address uint64, function string) ([]byte, error) {
	const header = 8
	if len(module) < header || !bytes.Equal(module[:header], []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, errors.New("not a WebAssembly module of version 1")
	}
	var check []byte
	out := bytes.Clone(module[:header])
	r := &reader{data: module[header:]}
	for len(r.data) > 0 && r.err == nil {
		id := r.byte()
		body := r.take(r.uvarint())
		switch id {
		case sectionCustom:
			continue
		case sectionImport:
			index, ok := imported(&reader{data: body}, function)
			if !ok {
				return nil, fmt.Errorf("the module imports no function %s", function)
			}
			check = count(address, index)
		case sectionCode:
			if check == nil {
				return nil, errors.New("the module imports nothing")
			}
			body = code(body, check, r)
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	return out, r.err
}

// imported finds the index of a function that is imported.
func imported(r *reader, function string) (index uint64, ok bool) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		r.take(r.uvarint()) // the module
		name := string(r.take(r.uvarint()))
		if kind := r.byte(); kind != 0 { // others would need to be read, too
			return 0, false
		}
		r.uvarint() // its type
		if name == function {
			return index, true
		}
		index++
	}
	return 0, false
}

// count is the code that goes to the head of a loop.
func count(address, function uint64) []byte {
	load := append([]byte{0x41, 0, 0x28, 2}, binary.AppendUvarint(nil, address)...) // i32.const 0; i32.load
	b := append([]byte{0x41, 0}, load...)                                           // i32.const 0: where to store
	b = append(b, 0x41, 1, 0x6b, 0x36, 2)                                           // i32.const 1; i32.sub; i32.store
	b = binary.AppendUvarint(b, address)
	b = append(b, load...)
	b = append(b, 0x41, 0, 0x4c, 0x04, 0x40, 0x10) // i32.const 0; i32.le_s; if; call
	b = binary.AppendUvarint(b, function)
	return append(b, 0x04, 0x40, 0x00, 0x0b, 0x0b) // if; unreachable; end; end
}

// code rewrites the section of functions.
func code(section, check []byte, outer *reader) []byte {
	r := &reader{data: section}
	count := r.uvarint()
	out := binary.AppendUvarint(nil, count)
	for i := uint64(0); i < count && r.err == nil; i++ {
		f := &reader{data: r.take(r.uvarint())}
		body := f.copied(func() {
			for n := f.uvarint(); n > 0 && f.err == nil; n-- { // locals
				f.uvarint()
				f.byte()
			}
		})
		for len(f.data) > 0 && f.err == nil {
			var loop bool
			body = append(body, f.copied(func() { loop = f.instruction() })...)
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

// A reader takes a module apart.
type reader struct {
	data []byte
	err  error
}

// copied returns the bytes that step reads.
func (r *reader) copied(step func()) []byte {
	before := r.data
	step()
	return bytes.Clone(before[:len(before)-len(r.data)])
}

func (r *reader) byte() byte {
	b := r.take(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.err, r.data = errors.Join(r.err, io.ErrUnexpectedEOF), nil
		return nil
	}
	out := r.data[:n]
	r.data = r.data[n:]
	return out
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.err, r.data = errors.Join(r.err, io.ErrUnexpectedEOF), nil
		return 0
	}
	r.data = r.data[n:]
	return v
}

// skip passes over n numbers, signed or not.
func (r *reader) skip(n uint64) {
	for ; n > 0 && r.err == nil; n-- {
		for r.byte()&0x80 != 0 {
		}
	}
}

// instruction reads one and reports whether it begins a loop.
func (r *reader) instruction() (loop bool) {
	switch op := r.byte(); {
	case op == 0x03: // loop
		r.skip(1)
		return true
	case op == 0x02, op == 0x04, op == 0x0c, op == 0x0d, op == 0x10, op >= 0x20 && op <= 0x26,
		op == 0x3f, op == 0x40, op == 0x41, op == 0x42, op == 0xd0, op == 0xd2:
		r.skip(1)
	case op == 0x11, op >= 0x28 && op <= 0x3e: // call_indirect, loads and stores
		r.skip(2)
	case op == 0x0e: // br_table
		r.skip(r.uvarint() + 1)
	case op == 0x1c: // select with types
		r.take(r.uvarint())
	case op == 0x43:
		r.take(4)
	case op == 0x44:
		r.take(8)
	case op == 0xfc:
		r.bulk()
	case op <= 0x01, op == 0x05, op == 0x0b, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	default:
		r.err, r.data = errors.Join(r.err, fmt.Errorf("instruction %#x is not known", op)), nil
	}
	return false
}

// bulk reads what follows the prefix of the operations on memory in bulk and of
// the conversions that saturate.
func (r *reader) bulk() {
	switch sub := r.uvarint(); sub {
	case 0, 1, 2, 3, 4, 5, 6, 7:
	case 9, 11, 13, 15, 16, 17:
		r.skip(1)
	case 8, 10, 12, 14:
		r.skip(2)
	default:
		r.err, r.data = errors.Join(r.err, fmt.Errorf("instruction 0xfc %d is not known", sub)), nil
	}
}
