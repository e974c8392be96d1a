package guest

import (
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// Beside the connection that carries the protocol, the process that starts a guest
// has a lane to it: a socket for one plain command at a time, there and back. Most
// commands are short and come one by one, right after other programs have had the
// caches of the processor; then every layer between the caller and the fork shows.
// The lane has none: both ends sit in the kernel, and what they say has a form that
// takes no time to read.  What a command writes comes as it is written, where it is
// asked for. A command that is not plain, or comes while another has the lane, goes
// by the protocol, as does all else about it, such as its cancellation.

const (
	// maxOrder is the largest command that the lane takes.
	maxOrder = 512 << 10
	// maxAnswer is the largest result: both streams, and room for the rest.
	maxAnswer = 2*maxStream + 64<<10
)

// An order is a command on the lane.
type order struct {
	client, tag string
	cmd         driver.Command // without what makes it not plain
	stdin       []byte
	streams     int64 // which outputs come as they are written: a bit for each
}

// Bits of order.streams, and kinds of pieces.
const (
	streamStdout = 1 << iota
	streamStderr
)

// plain reports whether a command needs nothing but what an order has.
func plain(cmd *driver.Command) bool {
	return cmd.TTY == nil && !cmd.Interactive && !cmd.Detached && len(cmd.Labels) == 0 && cmd.Limits.IsZero()
}

// append writes the order to buf.
func (o *order) append(buf []byte) []byte {
	buf = putText(putText(buf, o.client), o.tag)
	buf = binary.AppendUvarint(buf, uint64(len(o.cmd.Argv)))
	for _, arg := range o.cmd.Argv {
		buf = putText(buf, arg)
	}
	buf = putText(putText(buf, o.cmd.Script), o.cmd.Dir)
	buf = binary.AppendUvarint(buf, uint64(len(o.cmd.Env)))
	for name, value := range o.cmd.Env {
		buf = putText(putText(buf, name), value)
	}
	clean := int64(0)
	if o.cmd.Clean {
		clean = 1
	}
	for _, n := range []int64{clean, int64(o.cmd.Timeout), int64(o.cmd.Grace), o.cmd.MaxOutput, o.streams} {
		buf = binary.AppendVarint(buf, n)
	}
	return putText(buf, string(o.stdin))
}

// parseOrder reads an order.
func parseOrder(data []byte) (*order, error) {
	r := &reader{data: data}
	o := &order{client: r.text(), tag: r.text()}
	for range r.count() {
		o.cmd.Argv = append(o.cmd.Argv, r.text())
	}
	o.cmd.Script, o.cmd.Dir = r.text(), r.text()
	if n := r.count(); n > 0 {
		o.cmd.Env = make(map[string]string, n)
		for range n {
			name := r.text()
			o.cmd.Env[name] = r.text()
		}
	}
	o.cmd.Clean = r.number() != 0
	o.cmd.Timeout, o.cmd.Grace, o.cmd.MaxOutput = time.Duration(r.number()), time.Duration(r.number()), r.number()
	o.streams = r.number()
	o.stdin = []byte(r.text())
	return o, r.end()
}

// Kinds of answers.
const (
	answerResult = 0
	answerError  = 1
	answerPiece  = 2 // of an output: a bit of order.streams, and what was written
)

// piece takes a message apart that is a piece of an output.
func piece(data []byte) (stream byte, text []byte, is bool) {
	if len(data) < 2 || data[0] != answerPiece {
		return 0, nil, false
	}
	return data[1], data[2:], true
}

// appendAnswer writes how a command ended, or why it did not run.
func appendAnswer(buf []byte, res *driver.Result, err error) []byte {
	if err != nil {
		data, merr := proto.Marshal(toError(err))
		if merr != nil {
			data = nil // it has no code then, which is nonsense
		}
		return append(append(buf, answerError), data...)
	}
	buf = append(buf, answerResult)
	buf = binary.AppendVarint(buf, int64(res.ExitCode))
	for _, text := range []string{res.Signal, string(res.Cause), res.Session} {
		buf = putText(buf, text)
	}
	for _, n := range []int64{int64(res.Duration), res.StdoutDropped, res.StderrDropped, int64(res.Usage.User), int64(res.Usage.System), res.Usage.MaxRSS} {
		buf = binary.AppendVarint(buf, n)
	}
	buf = append(binary.AppendUvarint(buf, uint64(len(res.Stdout))), res.Stdout...)
	return append(binary.AppendUvarint(buf, uint64(len(res.Stderr))), res.Stderr...)
}

// parseAnswer reads an answer, which is hearsay. An error that is not the guest's
// own is errNonsense.
func parseAnswer(data []byte) (driver.Result, error) {
	r := &reader{data: data}
	switch r.byte() {
	case answerError:
		pb := new(guestpb.Error)
		if proto.Unmarshal(r.data, pb) != nil || fromError(pb) == nil {
			return driver.Result{}, errNonsense
		}
		return driver.Result{}, fromError(pb)
	case answerResult:
	default:
		return driver.Result{}, errNonsense
	}
	res := driver.Result{ExitCode: int(int32(r.number()))}
	res.Signal, res.Cause, res.Session = clip(r.text(), 32), driver.Cause(clip(r.text(), 32)), clip(r.text(), 128)
	res.Duration = time.Duration(r.number())
	res.StdoutDropped, res.StderrDropped = counted(r.number()), counted(r.number())
	res.Usage = driver.Usage{User: time.Duration(r.number()), System: time.Duration(r.number()), MaxRSS: r.number()}
	res.Stdout, res.Stderr = r.bytes(), r.bytes()
	if r.end() != nil || len(res.Stdout) > maxStream+4096 || len(res.Stderr) > maxStream+4096 {
		return driver.Result{}, errNonsense
	}
	return res, nil
}

var errNonsense = fmt.Errorf("guest: a message is nonsense: %w", fault.Unavailable)

func putText(buf []byte, s string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(s))), s...)
}

// A reader takes a message apart. After the first thing that is not there it only
// gives nothing, and end tells.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) fail() { r.data, r.bad = nil, true }

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		r.fail()
		return 0xff
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *reader) number() int64 {
	n, size := binary.Varint(r.data)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[size:]
	return n
}

// count is how many things follow, each of which takes a byte at least.
func (r *reader) count() int {
	n, size := binary.Uvarint(r.data)
	if size <= 0 || n > uint64(len(r.data)-size) {
		r.fail()
		return 0
	}
	r.data = r.data[size:]
	return int(n)
}

func (r *reader) take() []byte {
	n := r.count()
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) text() string { return string(r.take()) }

// bytes returns a copy, nil for none.
func (r *reader) bytes() []byte {
	if b := r.take(); len(b) > 0 {
		return append([]byte(nil), b...)
	}
	return nil
}

func (r *reader) end() error {
	if r.bad || len(r.data) > 0 {
		return errNonsense
	}
	return nil
}
