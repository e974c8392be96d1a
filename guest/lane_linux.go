package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
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
const laneSpell = 20 * time.Millisecond

// laneWatch is how long the host's end looks for an answer before it goes to sleep,
// where the command before had its own within that time: a processor that has gone
// idle takes as long to wake up as a short command does to start.
const laneWatch = 2 * time.Millisecond

// wordWatch is how long the guest's end looks for the word of the host, which does one
// short thing until then.
const wordWatch = 300 * time.Microsecond

// turnEvery is how often whoever runs one command after the other lets Go choose who is
// next. One that never does is taken for one that does not let others run: every 10 ms
// its processor is taken from it, and Go's watchman, who sleeps for 10 ms where nothing
// is amiss, looks again every 70 us for a while, on the processor that the command has.
const turnEvery = 4 * time.Millisecond

// A turn knows when it was last let go.
type turn struct{ last time.Time }

// pass lets others run if it is time to.
func (t *turn) pass() {
	if now := time.Now(); now.Sub(t.last) > turnEvery {
		t.last = now
		runtime.Gosched()
	}
}

// watching is true while one of this process's commands is waited for in that way: many
// at once would take the processors from those whom they wait for.
var watching atomic.Bool

// A lane is the host's end. Its descriptor is not in Go's poller, which would be
// woken by every message, there and back, besides who waits for it.
type lane struct {
	closed atomic.Bool

	mu     sync.Mutex // held by who has a command on the lane
	fd     int        // -1 once it is closed
	slow   *os.File   // an epoll descriptor that has fd, itself in Go's poller; nil until a command took long
	raw    syscall.RawConn
	till   time.Time // end of the spell in poll
	quick  bool      // the command before took less than laneWatch
	turn   turn
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
	return &lane{fd: fd}, nil
}

// close wakes who waits for an answer, and does not wait for who has a command on
// the lane: that may be its own caller, in what the command waits for.
func (l *lane) close() {
	unix.Shutdown(l.fd, unix.SHUT_RDWR) //nolint:errcheck // it is closed below
	l.closed.Store(true)
	l.clear()
}

// leave gives the lane back.
func (l *lane) leave() {
	l.mu.Unlock()
	if l.closed.Load() {
		l.clear()
	}
}

// clear closes the descriptors of a lane that is closed, unless somebody has it, who
// then does so.
func (l *lane) clear() {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if l.fd < 0 {
		return
	}
	if l.slow != nil {
		l.slow.Close()
	}
	unix.Close(l.fd) //nolint:errcheck // nothing is lost with it
	l.fd = -1
}

// run sends an order and waits for its answer, until ctx ends, after which the lane
// is good for nothing. It answers false where the lane is taken, or can't have it,
// and nothing was sent.
func (l *lane) run(ctx context.Context, o *order) (driver.Result, error, bool) { //nolint:revive // whether it ran is no part of the error
	if l == nil || !l.mu.TryLock() {
		return driver.Result{}, nil, false
	}
	defer l.leave()
	if l.broken || l.closed.Load() {
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
	l.till = time.Now().Add(laneSpell)
	if err := l.write(frame); err != nil {
		l.broken = true
		return driver.Result{}, io.EOF, true
	}
	out := carry(&o.cmd)
	told := time.Now()
	data, err := l.answer(ctx, out)
	l.quick = time.Since(told) < laneWatch
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
	l.turn.pass()
	return res, err, true
}

// answer waits for how the command ended, and hands on what it writes until then.
func (l *lane) answer(ctx context.Context, out *carriers) ([]byte, error) {
	l.rest = nil
	if l.quick {
		watch(l.fd, laneWatch)
	}
	if err := l.wait(unix.POLLIN); err != nil { // it is not there yet
		return nil, err
	}
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
		n, err := l.read(room[have:])
		if err != nil {
			return nil, err
		}
		l.buf, l.rest = room, room[:have+n]
	}
}

// read waits for something to read. Whatever ends the lane is io.EOF.
func (l *lane) read(buf []byte) (int, error) {
	for {
		n, err := syscall.Read(l.fd, buf)
		switch {
		case n > 0:
			return n, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			if err := l.wait(unix.POLLIN); err != nil {
				return 0, err
			}
		default:
			return 0, io.EOF
		}
	}
}

// write writes all of data.
func (l *lane) write(data []byte) error {
	for len(data) > 0 {
		n, err := syscall.Write(l.fd, data)
		switch {
		case err == nil:
			data = data[n:]
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			if err := l.wait(unix.POLLOUT); err != nil {
				return err
			}
		default:
			return io.EOF
		}
	}
	return nil
}

// watch looks for something to read without going to sleep, for so long at most.
// Whoever else wants the processor gets it.
func watch(fd int, most time.Duration) {
	if runtime.NumCPU() < 2 || !watching.CompareAndSwap(false, true) {
		return
	}
	defer watching.Store(false)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for end := time.Now().Add(most); time.Now().Before(end); {
		if n, _ := unix.Poll(fds, 0); n > 0 { // an error shows when it is waited for
			return
		}
		syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) //nolint:errcheck // it always succeeds
	}
}

// wait returns when the other end has written, or read: in poll(2) for as long as
// most commands take, and then without a thread.
func (l *lane) wait(events int16) error {
	fds := []unix.PollFd{{Fd: int32(l.fd), Events: events}}
	for {
		left := time.Until(l.till)
		if left <= 0 {
			return l.waitLong(uint32(events)) // epoll has the same bits
		}
		if n, err := unix.Poll(fds, int(left.Milliseconds())+1); n > 0 {
			return nil
		} else if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return io.EOF
		}
	}
}

// waitLong waits in Go's poller, once: what comes over the lane later wakes nobody
// there.
func (l *lane) waitLong(events uint32) error {
	if l.slow == nil {
		if err := l.openSlow(); err != nil {
			return io.EOF
		}
	}
	ev := unix.EpollEvent{Events: events | unix.EPOLLONESHOT}
	var got [1]unix.EpollEvent
	var err error
	cerr := l.raw.Control(func(set uintptr) { err = unix.EpollCtl(int(set), unix.EPOLL_CTL_MOD, l.fd, &ev) })
	if err = errors.Join(cerr, err); err != nil {
		return io.EOF
	}
	rerr := l.raw.Read(func(set uintptr) bool {
		n := 0
		if n, err = unix.EpollWait(int(set), got[:], 0); errors.Is(err, unix.EINTR) {
			n, err = 0, nil
		}
		return n > 0 || err != nil
	})
	if errors.Join(rerr, err) != nil {
		return io.EOF
	}
	return nil
}

func (l *lane) openSlow() error {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err = unix.EpollCtl(set, unix.EPOLL_CTL_ADD, l.fd, &unix.EpollEvent{Events: unix.EPOLLONESHOT}); err == nil {
		err = unix.SetNonblock(set, true) // by which it goes to Go's poller
	}
	if err != nil {
		return errors.Join(err, unix.Close(set))
	}
	l.slow = os.NewFile(uintptr(set), "lane")
	l.raw, err = l.slow.SyscallConn()
	return err
}

// reuse keeps the buffer for the next command, unless it is large.
func (l *lane) reuse() {
	l.rest, l.buf = nil, l.buf[:0]
	if cap(l.buf) > 64<<10 {
		l.buf = nil
	}
}

// serveLane is the guest's end. It sits in poll(2), on a thread of its own, and
// ends with the guest.
func (s *server) serveLane(fd int) {
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	in := &laneReader{fd: fd, buf: make([]byte, 16<<10)}
	var out []byte
	var turn turn
	for {
		turn.pass()
		data, err := in.next()
		if err != nil {
			return
		}
		o, err := parseOrder(data)
		if err != nil {
			return
		}
		res, err := s.obey(o, in)
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
func (s *server) obey(o *order, lane *laneReader) (driver.Result, error) {
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
			return writePieces(lane.fd, bit, text)
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

// A laneReader reads messages at the guest's end.
type laneReader struct {
	fd         int
	buf        []byte
	have, used int // of buf: what was read, and what of it was returned
}

// next waits for a message, which is good until the one after it.
func (r *laneReader) next() ([]byte, error) {
	r.have = copy(r.buf, r.buf[r.used:r.have])
	r.used = 0
	for {
		if r.have >= frameHead {
			size := int(binary.BigEndian.Uint32(r.buf))
			if size > maxOrder {
				return nil, errNonsense
			}
			if end := frameHead + size; r.have >= end {
				r.used = end
				return r.buf[frameHead:end], nil
			} else if end > len(r.buf) {
				r.buf = append(r.buf[:r.have], make([]byte, end-r.have)...)
			}
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more. It waits in poll(2): in read(2) it would be woken each time that
// the host takes an answer.
func (r *laneReader) fill() error {
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
	unix.Poll(fds, -1) //nolint:errcheck // reading tells
	n, err := syscall.Read(r.fd, r.buf[r.have:])
	switch {
	case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EAGAIN):
	case err != nil || n <= 0:
		return io.EOF
	default:
		r.have += n
	}
	return nil
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
