package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/posix/process"
	"github.com/croft-run/croft/workspace/driver"
)

// frameHead is the length of what comes after it.
const frameHead = 4

// laneSpell is how long the host's end sits in poll(2) for an answer. A command
// that takes longer has time for Go's poller, which needs no thread.
const laneSpell = 20 // milliseconds

// A lane is the host's end.
type lane struct {
	file *os.File // in Go's poller
	raw  syscall.RawConn
	fd   int

	mu     sync.Mutex // held by who has a command on the lane
	buf    []byte
	rest   []byte // of buf: what came and was not looked at yet
	broken bool
}

func newLane(ours *os.File) (*lane, error) {
	fd, err := unix.FcntlInt(ours.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	l := &lane{file: os.NewFile(uintptr(fd), "lane"), fd: fd}
	l.raw, err = l.file.SyscallConn()
	return l, err
}

// close wakes who waits for an answer.
func (l *lane) close() {
	unix.Shutdown(l.fd, unix.SHUT_RDWR) //nolint:errcheck // it is closed below
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	l.file.Close()
}

// run sends an order and waits for its answer, until ctx ends, after which the lane
// is good for nothing. It answers false where the lane is taken, or can't have it,
// and nothing was sent.
func (l *lane) run(ctx context.Context, o *order) (driver.Result, error, bool) { //nolint:revive // whether it ran is no part of the error
	if l == nil || !l.mu.TryLock() {
		return driver.Result{}, nil, false
	}
	defer l.mu.Unlock()
	if l.broken {
		return driver.Result{}, nil, false
	}
	o.streams = streams(&o.cmd)
	frame := o.append(append(l.buf[:0], make([]byte, frameHead)...))
	l.buf = frame
	if len(frame) > maxOrder {
		return driver.Result{}, nil, false
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	defer l.endWith(ctx)()
	if _, err := l.file.Write(frame); err != nil {
		l.broken = true
		return driver.Result{}, io.EOF, true
	}
	out := carry(&o.cmd)
	data, err := l.answer(ctx, out)
	if ended := out.end(ctx); err == nil {
		err = ended
	}
	if err == nil && len(l.rest) > 0 {
		err = errNonsense // one answer for one order
	}
	if err != nil {
		l.broken = true
		return driver.Result{}, err, true
	}
	res, err := parseAnswer(data)
	l.broken = l.broken || errors.Is(err, errNonsense)
	res.CallbackErrors = out.said()
	l.reuse()
	return res, err, true
}

// answer waits for how the command ended, and hands on what it writes until then.
func (l *lane) answer(ctx context.Context, out *carriers) ([]byte, error) {
	fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	unix.Poll(fds, laneSpell) //nolint:errcheck // reading tells
	l.rest = nil
	for {
		data, err := l.receive()
		if err != nil {
			return nil, err
		}
		stream, text, is := piece(data)
		if !is {
			return data, nil
		}
		if err := out.put(ctx, stream, text); err != nil {
			return nil, err
		}
	}
}

// endWith shuts the lane when ctx ends, until the function that it returns is
// called.
func (l *lane) endWith(ctx context.Context) (let func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	shut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(shut)
		unix.Shutdown(l.fd, unix.SHUT_RDWR) //nolint:errcheck // it is of no use then
	})
	return func() {
		if !stop() {
			<-shut
			l.broken = true
		}
	}
}

// receive waits for the next message, which is good until the one after it.
func (l *lane) receive() ([]byte, error) {
	for {
		size := 0
		if len(l.rest) >= frameHead {
			if size = int(binary.BigEndian.Uint32(l.rest)); size > maxAnswer {
				return nil, errNonsense
			}
			if end := frameHead + size; len(l.rest) >= end {
				data := l.rest[frameHead:end]
				l.rest = l.rest[end:]
				return data, nil
			}
		}
		const least = 4 << 10
		room := l.buf[:cap(l.buf)]
		if need := max(frameHead+size, len(l.rest)+1, least); len(room) < need {
			room = make([]byte, need)
		}
		have := copy(room, l.rest)
		n, err := l.file.Read(room[have:])
		if err != nil {
			return nil, io.EOF
		}
		l.buf, l.rest = room, room[:have+n]
	}
}

// reuse keeps the buffer for the next command, unless it is large.
func (l *lane) reuse() {
	l.rest, l.buf = nil, l.buf[:0]
	if cap(l.buf) > 64<<10 {
		l.buf = nil
	}
}

// serveLane is the guest's end. It sits in read(2), on a thread of its own, and
// ends with the guest.
func (s *server) serveLane(fd int) {
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	in := make([]byte, 16<<10)
	var out []byte
	for {
		data, err := readFrame(fd, &in)
		if err != nil {
			return
		}
		o, err := parseOrder(data)
		if err != nil {
			return
		}
		res, err := s.obey(o, fd)
		out = appendAnswer(append(out[:0], make([]byte, frameHead)...), &res, err)
		binary.BigEndian.PutUint32(out, uint32(len(out)-frameHead))
		if writeAll(fd, out) != nil {
			return
		}
		if cap(out) > 64<<10 {
			out = nil
		}
	}
}

// obey runs a command until its client is gone. What it writes goes to the lane,
// where that is asked for.
func (s *server) obey(o *order, lane int) (driver.Result, error) {
	ctx, cancel := context.WithCancel(s.lifeOf(o.client))
	defer cancel()
	defer s.cancelable(o.tag, cancel)()
	cmd := s.bounded(o.cmd)
	if len(o.stdin) > 0 {
		cmd.Stdin = bytes.NewReader(o.stdin)
	}
	if o.streams == 0 {
		return s.shell.Run(process.Named(ctx, o.tag), cmd)
	}
	var mu sync.Mutex // a piece is written as a whole
	for bit, take := range map[byte]*func([]byte) error{streamStdout: &cmd.OnStdout, streamStderr: &cmd.OnStderr} {
		if o.streams&int64(bit) == 0 {
			continue
		}
		*take = func(text []byte) error {
			mu.Lock()
			defer mu.Unlock()
			return writePieces(lane, bit, text)
		}
	}
	return s.shell.Run(process.Named(ctx, o.tag), cmd)
}

// writePieces writes what a command wrote.
func writePieces(fd int, stream byte, text []byte) error {
	for len(text) > 0 {
		n := min(len(text), maxChunk)
		frame := binary.BigEndian.AppendUint32(make([]byte, 0, frameHead+2+n), uint32(2+n))
		if err := writeAll(fd, append(append(frame, answerPiece, stream), text[:n]...)); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// readFrame reads a message into buf, which it makes larger where it must.
func readFrame(fd int, buf *[]byte) ([]byte, error) {
	have, need := 0, frameHead
	for have < need {
		n, err := syscall.Read(fd, (*buf)[have:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if errors.Is(err, syscall.EAGAIN) {
			time.Sleep(time.Millisecond) // it never is, unless someone made the other end so
			continue
		}
		if err != nil || n <= 0 {
			return nil, io.EOF
		}
		have += n
		if have < frameHead || need > frameHead {
			continue
		}
		size := int(binary.BigEndian.Uint32(*buf))
		if size > maxOrder {
			return nil, errNonsense
		}
		if need = frameHead + size; need > len(*buf) {
			*buf = append((*buf)[:have], make([]byte, need-have)...)
		}
	}
	if have != need {
		return nil, errNonsense
	}
	return (*buf)[frameHead:need], nil
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := syscall.Write(fd, data)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
