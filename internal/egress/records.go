package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/croft-run/croft/fault"
)

// A TLS client sends a second ClientHello, in plaintext, after a HelloRetryRequest, and
// servers take the server name from that one. So every ClientHello of a tunnel is judged,
// not the first alone.

// TLS record types, besides recordHandshake.
const (
	recordChangeCipherSpec = 20
	recordLast             = 24 // heartbeat
)

const (
	recordHeader   = 5
	maxRecord      = 1<<14 + 2048 // bytes of an encrypted record, in TLS 1.2
	maxPlaintext   = 1 << 14
	messageHeader  = 4 // of a handshake message: type and length
	messageHello   = 1
	afterHelloSize = messageHeader + 1 // up to the first byte of the version, which is 3
)

// A helloFilter reads the TLS records of a client. It returns the end of a ClientHello only
// after check has accepted the hello.
type helloFilter struct {
	ctx   context.Context
	r     *bufio.Reader
	check func(hello) error

	rest      int    // bytes of the present record that may be read
	message   []byte // beginning of a handshake message that continues in the next record
	encrypted bool   // handshake messages may be encrypted, after a ChangeCipherSpec
	refused   *refusal
}

func newHelloFilter(ctx context.Context, r io.Reader, check func(hello) error) *helloFilter {
	return &helloFilter{ctx: ctx, r: bufio.NewReaderSize(r, recordHeader+maxRecord), check: check}
}

func (f *helloFilter) Read(p []byte) (int, error) {
	for f.rest == 0 {
		if f.refused != nil {
			return 0, f.refused
		}
		if err := f.nextRecord(); err != nil {
			errors.As(err, &f.refused)
			return 0, err // a timeout is not the end
		}
	}
	n, err := f.r.Read(p[:min(len(p), f.rest)])
	f.rest -= n
	return n, err
}

// nextRecord reads the header of a record, and all of it if it is a handshake record.
func (f *helloFilter) nextRecord() error {
	head, err := f.r.Peek(recordHeader)
	if len(head) == 0 {
		return err
	}
	if err == io.EOF { // a header that is cut off is nothing to the server
		f.rest = len(head)
		return nil
	}
	if err != nil {
		return err
	}
	kind, size := head[0], int(binary.BigEndian.Uint16(head[3:]))
	if kind < recordChangeCipherSpec || kind > recordLast || head[1] != 3 || size > maxRecord {
		return &refusal{code: fault.PermissionDenied, reason: "after its TLS hello there is something else"}
	}
	if kind != recordHandshake {
		if len(f.message) > 0 {
			return &refusal{code: fault.PermissionDenied, reason: "a TLS handshake message is interrupted by another record"}
		}
		f.encrypted = f.encrypted || kind == recordChangeCipherSpec
		f.rest = recordHeader + size
		return nil
	}
	record, err := f.r.Peek(recordHeader + size)
	if err != nil {
		return err
	}
	if err := f.checkHandshake(record[recordHeader:]); err != nil {
		return err
	}
	f.rest = len(record)
	return nil
}

// checkHandshake checks each ClientHello that ends in a handshake record.
func (f *helloFilter) checkHandshake(data []byte) error {
	if f.encrypted && len(f.message) == 0 && !mayBeHello(data) {
		return nil
	}
	f.message = append(f.message, data...)
	for len(f.message) >= messageHeader {
		size := messageHeader + int(f.message[1])<<16 + int(binary.BigEndian.Uint16(f.message[2:]))
		if size > maxHello {
			return &refusal{code: fault.PermissionDenied, reason: "a TLS handshake message is too long"}
		}
		if len(f.message) < size {
			return nil
		}
		if f.message[0] == messageHello {
			if err := f.checkMessage(f.message[:size]); err != nil {
				return err
			}
		}
		f.message = f.message[size:]
	}
	return nil
}

// mayBeHello reports whether a record, which may be encrypted, begins as a ClientHello
// does. One in sixteen million encrypted ones does, and is refused.
func mayBeHello(data []byte) bool {
	return len(data) == 0 || data[0] == messageHello && (len(data) < 2 || data[1] == 0) && (len(data) < afterHelloSize || data[messageHeader] == 3)
}

// checkMessage checks one ClientHello.
func (f *helloFilter) checkMessage(message []byte) error {
	var records bytes.Buffer
	for len(message) > 0 {
		part := message[:min(len(message), maxPlaintext)]
		message = message[len(part):]
		records.Write(binary.BigEndian.AppendUint16([]byte{recordHandshake, 3, 1}, uint16(len(part))))
		records.Write(part)
	}
	h, err := readHello(f.ctx, &records)
	if err != nil {
		return err
	}
	return f.check(h)
}
