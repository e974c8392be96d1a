package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/bare"
)

// A Spawner is a small process that starts guests for this one. The kernel makes a
// process in a new user namespace by copying the page tables of the one that asks,
// which afterwards faults on each page that it writes: a program with much memory
// that starts many guests pays for that each time. A nil Spawner is none.
type Spawner struct {
	cmd *exec.Cmd

	mu   sync.Mutex // held for one order and its answer
	conn *os.File   // +checklocks:mu; nil once it is of no use
}

// spawnVerb is the argument that makes the program a spawner.
const spawnVerb = "spawn"

// fdOrders is where a spawner gets its orders.
const fdOrders = 3

const (
	maxSpawnOrder = 64 << 10
	maxSpawnFiles = 200 // the kernel lets 253 go with one message
)

// A spawnOrder is a program to start. Its descriptors come with it, in the order
// that the program has them in from 0 on; that of its control group, where it has
// one, is the last.
type spawnOrder struct {
	Path string
	Args []string
	Sys  *syscall.SysProcAttr
}

// A spawned answer is the process, whose pidfd comes with it, or why there is none.
type spawnedAnswer struct {
	PID   int
	Errno syscall.Errno
}

// NewSpawner starts a spawner that is the program croft-guest at binary.
func NewSpawner(binary string) (*Spawner, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("guest: start the spawner: %w: %w", fault.Of(err), err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "spawner"), os.NewFile(uintptr(fds[1]), "orders")
	defer theirs.Close()
	s := &Spawner{conn: ours, cmd: &exec.Cmd{Path: binary, Args: []string{"croft-guest", spawnVerb}, Env: []string{}, Dir: "/",
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}}
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("guest: start the spawner: %w: %w", fault.Of(err), err), ours.Close())
	}
	return s, nil
}

// Close ends the spawner. What it started lives on.
func (s *Spawner) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
	return s.cmd.Wait()
}

// endLocked lets go of the spawner, which ends then.
//
// +checklocks:s.mu
func (s *Spawner) endLocked() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// errNoSpawner is why an order can't be given.
var errNoSpawner = fmt.Errorf("guest: the spawner is gone: %w", fault.Unavailable)

// run starts the program of cmd, whose standard error goes to errs.
func (s *Spawner) run(cmd *exec.Cmd, errs io.Writer) (*spawned, error) {
	null, err := bare.Open(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := pipe(true)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p, err := s.start(cmd.Path, cmd.Args, append([]*os.File{null, null, w}, cmd.ExtraFiles...), cmd.SysProcAttr)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	p.errors.Go(func() {
		io.Copy(errs, r) //nolint:errcheck // what there was of it is there
		r.Close()
	})
	return p, nil
}

// start starts a program with the given descriptors, from 0 on.
func (s *Spawner) start(path string, args []string, files []*os.File, sys *syscall.SysProcAttr) (*spawned, error) {
	if s == nil || len(files) >= maxSpawnFiles {
		return nil, errNoSpawner
	}
	if sys == nil {
		sys = &syscall.SysProcAttr{}
	}
	data, err := json.Marshal(spawnOrder{Path: path, Args: args, Sys: sys})
	if err != nil || len(data) > maxSpawnOrder {
		return nil, errNoSpawner
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	if sys.UseCgroupFD {
		fds = append(fds, sys.CgroupFD)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil, errNoSpawner
	}
	answer, pidfd, err := s.askLocked(data, fds)
	switch {
	case err != nil:
		s.endLocked()
		return nil, errNoSpawner
	case answer.Errno != 0:
		return nil, answer.Errno
	}
	return newSpawned(answer.PID, pidfd)
}

// askLocked gives an order and takes the answer.
//
// +checklocks:s.mu
func (s *Spawner) askLocked(data []byte, fds []int) (a spawnedAnswer, pidfd int, err error) {
	conn := int(s.conn.Fd())
	if err := retried(func() error { return unix.Sendmsg(conn, data, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL) }); err != nil {
		return a, -1, err
	}
	said, got, err := receiveMessage(conn, make([]byte, 1<<10), 1)
	if err != nil {
		return a, -1, err
	}
	if err := json.Unmarshal(said, &a); err != nil || a.Errno == 0 && len(got) != 1 {
		closeFDs(got)
		return a, -1, errNonsense
	}
	if len(got) == 1 {
		pidfd = got[0]
	}
	return a, pidfd, nil
}

// receiveMessage takes one message with at most so many descriptors; io.EOF is the
// end of who sends.
func receiveMessage(conn int, buf []byte, most int) (data []byte, fds []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*most))
	var n, oobn, flags int
	err = retried(func() (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(conn, buf, oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	for i := range msgs {
		more, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			closeFDs(fds)
			return nil, nil, err
		}
		fds = append(fds, more...)
	}
	switch {
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		closeFDs(fds)
		return nil, nil, errNonsense
	case n == 0:
		closeFDs(fds)
		return nil, nil, io.EOF
	}
	return buf[:n], fds, nil
}

func retried(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd) //nolint:errcheck // nothing is lost with it
	}
}

// A spawned process is a child of the spawner, known by its pidfd.
type spawned struct {
	pid  int
	file *os.File // the pidfd, in Go's poller
	raw  syscall.RawConn

	errors sync.WaitGroup // who carries its standard error
}

func newSpawned(pid, pidfd int) (*spawned, error) {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		return nil, errors.Join(err, unix.Close(pidfd))
	}
	p := &spawned{pid: pid, file: os.NewFile(uintptr(pidfd), "pidfd")}
	var err error
	if p.raw, err = p.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

func (p *spawned) id() int { return p.pid }

// end waits for the end, and for the last of what it says about it.
func (p *spawned) end() string {
	p.wait() //nolint:errcheck // a pidfd that can't be waited for is of a process that is gone
	p.errors.Wait()
	p.file.Close()
	return "it ended"
}

// kill ends the process, if it has not ended yet.
func (p *spawned) kill() {
	p.raw.Control(func(fd uintptr) { //nolint:errcheck // it has ended by itself then
		unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) //nolint:errcheck // likewise
	})
}

// wait waits for its end, without a thread of its own.
func (p *spawned) wait() error {
	return p.raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// spawnMain is the spawner: it starts what it is told to until nobody is there to
// tell it.
func spawnMain() int {
	unix.CloseOnExec(fdOrders)
	buf := make([]byte, maxSpawnOrder)
	for {
		data, fds, err := receiveMessage(fdOrders, buf, maxSpawnFiles)
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			return 1
		}
		answer, pidfd := obeyOrder(data, fds)
		closeFDs(fds)
		said, err := json.Marshal(answer)
		if err != nil {
			return 1
		}
		var rights []byte
		if pidfd >= 0 {
			rights = unix.UnixRights(pidfd)
		}
		if retried(func() error { return unix.Sendmsg(fdOrders, said, rights, nil, unix.MSG_NOSIGNAL) }) != nil {
			return 1
		}
		if pidfd < 0 {
			continue
		}
		p, err := newSpawned(answer.PID, pidfd)
		if err != nil {
			return 1
		}
		go p.reap() // ends with the process, or with the spawner
	}
}

// manyEnv is the environment of a guest that is one of many: there is another one for
// each processor, and what it would start threads for it does not have.
var manyEnv = []string{"GOMAXPROCS=1"}

// obeyOrder starts what an order names.
func obeyOrder(data []byte, fds []int) (spawnedAnswer, int) {
	var o spawnOrder
	if err := json.Unmarshal(data, &o); err != nil || o.Sys == nil || o.Sys.UseCgroupFD && len(fds) == 0 {
		return spawnedAnswer{Errno: unix.EINVAL}, -1
	}
	if o.Sys.UseCgroupFD {
		o.Sys.CgroupFD, fds = fds[len(fds)-1], fds[:len(fds)-1]
	}
	pidfd := -1
	o.Sys.PidFD = &pidfd
	files := make([]uintptr, 0, len(fds))
	for _, fd := range fds {
		files = append(files, uintptr(fd))
	}
	pid, err := syscall.ForkExec(o.Path, o.Args, &syscall.ProcAttr{Dir: "/", Env: manyEnv, Files: files, Sys: o.Sys})
	if err == nil && pidfd < 0 {
		syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // a kernel without pidfds has nothing for the host to hold
		syscall.Wait4(pid, nil, 0, nil)    //nolint:errcheck // likewise
		return spawnedAnswer{Errno: unix.ENOSYS}, -1
	}
	if err != nil {
		errno := unix.EINVAL
		errors.As(err, &errno)
		return spawnedAnswer{Errno: errno}, -1
	}
	return spawnedAnswer{PID: pid}, pidfd
}

// reap takes a child that has ended from the table of processes.
func (p *spawned) reap() {
	p.wait()               //nolint:errcheck // Wait4 waits as well
	retried(func() error { //nolint:errcheck // nobody else takes it
		_, err := syscall.Wait4(p.pid, nil, 0, nil)
		return err
	})
	p.file.Close()
}
