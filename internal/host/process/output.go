package process

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/croft-run/croft/fault"
)

// An outputBuffer keeps the output of one stream: its head and its tail in memory, and all
// of it in a log if there is one.
//
// The log is always a prefix of the stream: after a failed write the log gets no later
// byte. So the readable parts are head, log and tail, and the only possible gap is before
// the tail.
type outputBuffer struct {
	mu     sync.Mutex
	total  int64 // bytes of the stream
	head   []byte
	tail   tailRing
	log    logFile
	logAll bool // the log gets every byte at once, not only after memory is full
	cursor int64

	headMax int
	final   *streamExtent // set at the end of the stream: which parts are on disk instead of in memory
}

// A streamExtent says where the bytes of a stream are after its end.
type streamExtent struct {
	Size   int64 `json:"size"`             // bytes of the stream
	Logged int64 `json:"logged,omitempty"` // in the log
	Head   int64 `json:"head,omitempty"`   // head of a result, in the log
	Tail   int64 `json:"tail,omitempty"`   // tail of a result, at the end of the log or in its own file
}

// logStore is shared by all logs of a Manager.
type logStore struct {
	dir   string
	max   int64 // of one log
	quota atomic.Int64
}

func newOutput(l *logStore, name string, maxOutput int64, write bool) *outputBuffer {
	half := int(maxOutput / 2)
	return &outputBuffer{
		headMax: half, tail: tailRing{max: int(maxOutput) - half},
		log: logFile{store: l, name: name}, logAll: write,
	}
}

// add appends p. It keeps no reference to p.
func (o *outputBuffer) add(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	if o.logAll {
		o.log.append(p)
	}
	rest := p
	if n := min(o.headMax-len(o.head), len(rest)); n > 0 {
		o.head = append(o.head, rest[:n]...)
		rest = rest[n:]
	}
	if len(rest) == 0 {
		return
	}
	if !o.logAll && o.tail.len()+len(rest) > o.tail.max {
		o.logAll = true // memory is full for the first time: the log starts with its content
		o.log.append(o.head)
		o.log.append(o.tail.copyRange(0, o.tail.len()))
		o.log.append(rest)
	}
	o.tail.add(rest)
}

// writeToLog writes the content of memory and all further output to the log, so that the
// output can be salvaged if this process dies.
func (o *outputBuffer) writeToLog() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logAll || o.total > int64(len(o.head)+o.tail.len()) {
		return
	}
	o.logAll = true
	o.log.append(o.head)
	o.log.append(o.tail.copyRange(0, o.tail.len()))
}

// missingBytes returns the number of bytes that are neither in memory nor on disk.
func (o *outputBuffer) missingBytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	have := max(int64(len(o.head)), o.log.size)
	tail := int64(o.tail.len())
	if o.final != nil {
		have, tail = max(o.final.Logged, int64(len(o.head))), o.final.Tail
	}
	return max(0, o.total-tail-have)
}

// headAndTail returns the head and the tail, and the number of bytes between them.
func (o *outputBuffer) headAndTail() ([]byte, int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.final == nil {
		out := make([]byte, 0, len(o.head)+o.tail.len())
		out = append(out, o.head...)
		out = append(out, o.tail.copyRange(0, o.tail.len())...)
		return nilIfEmpty(out), o.total - int64(len(out))
	}
	x := o.final
	var out []byte
	for _, part := range [][2]int64{{0, x.Head}, {x.Size - x.Tail, x.Size}} {
		for off := part[0]; off < part[1]; {
			data, _, err := o.readLocked(off, part[1]-off) // in pieces, if a part is in two files
			if err != nil || len(data) == 0 {
				break // the missing rest counts as dropped
			}
			out, off = append(out, data...), off+int64(len(data))
		}
	}
	return nilIfEmpty(out), x.Size - int64(len(out))
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func (o *outputBuffer) totalBytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// read returns at most limit bytes from off on, and the offset of the first byte, which is
// greater than off if earlier bytes are missing.
func (o *outputBuffer) read(off, limit int64) (data []byte, start, size int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	data, start, err = o.readLocked(off, limit)
	return data, start, o.total, err
}

func (o *outputBuffer) readLocked(off, limit int64) ([]byte, int64, error) {
	if off >= o.total || limit <= 0 {
		return nil, off, nil
	}
	tail := o.total - int64(o.tail.len())
	if o.final != nil && o.final.Logged < o.total {
		tail = o.total - o.final.Tail
	}
	switch {
	case off < int64(len(o.head)):
		return append([]byte(nil), o.head[off:min(int64(len(o.head)), off+limit)]...), off, nil
	case off < o.log.size && (off < tail || o.final != nil):
		data, err := o.log.readAt(o.log.name, off, min(limit, o.log.size-off))
		return data, off, err
	case off < tail:
		off = tail
	}
	if o.final != nil {
		data, err := o.log.readAt(o.log.name+".tail", off-tail, min(limit, o.total-off))
		return data, off, err
	}
	from := int(off - tail)
	return o.tail.copyRange(from, int(min(limit, int64(o.tail.len()-from)))), off, nil
}

// unreadBytes returns the number of bytes that readNew would return without a limit.
func (o *outputBuffer) unreadBytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total - o.cursor
}

// readNew returns at most limit bytes that no earlier call returned, and the number of
// bytes that were skipped because they are missing.
func (o *outputBuffer) readNew(limit int64) (data []byte, dropped int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for int64(len(data)) < limit && o.cursor < o.total {
		chunk, start, err := o.readLocked(o.cursor, limit-int64(len(data)))
		if err != nil {
			return data, dropped, err
		}
		if len(chunk) == 0 {
			break
		}
		dropped += start - o.cursor
		o.cursor = start + int64(len(chunk))
		data = append(data, chunk...)
	}
	return data, dropped, nil
}

// finish closes the log at the end of the stream and frees the memory if all of it is on
// disk.
func (o *outputBuffer) finish() streamExtent {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := streamExtent{Size: o.total, Logged: o.log.size, Head: int64(len(o.head)), Tail: int64(o.tail.len())}
	o.log.close()
	if x.Logged < x.Size && !o.log.writeTail(o.tail.copyRange(0, o.tail.len())) {
		return x // not on disk: the memory is kept
	}
	if x.Logged < x.Head {
		return x
	}
	o.head, o.tail.buf, o.final = nil, nil, &x
	return x
}

// restoredOutput returns the output of a session of an earlier Manager.
func restoredOutput(l *logStore, name string, x streamExtent) *outputBuffer {
	o := &outputBuffer{log: logFile{store: l, name: name, size: x.Logged, tail: x.Logged < x.Size}, total: x.Size, final: &x}
	l.quota.Add(-x.Logged)
	return o
}

// remove deletes the log.
func (o *outputBuffer) remove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log.remove()
}

// A tailRing is a ring buffer of the last max bytes.
type tailRing struct {
	buf   []byte
	start int // index of the oldest byte, after buf is full
	max   int
}

func (r *tailRing) len() int { return len(r.buf) }

func (r *tailRing) add(p []byte) {
	if len(p) >= r.max {
		r.buf = append(r.buf[:0], p[len(p)-r.max:]...)
		r.start = 0
		return
	}
	if n := min(r.max-len(r.buf), len(p)); n > 0 {
		r.buf = append(r.buf, p[:n]...) // wraps only after it is full
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(r.buf[r.start:], p)
		p = p[n:]
		r.start = (r.start + n) % r.max
	}
}

// copyRange returns a copy of n bytes, starting with the i-th oldest.
func (r *tailRing) copyRange(i, n int) []byte {
	out := make([]byte, 0, n)
	for n > 0 {
		at := (r.start + i) % len(r.buf)
		part := r.buf[at:min(len(r.buf), at+n)]
		out = append(out, part...)
		i, n = i+len(part), n-len(part)
	}
	return out
}

// A logFile is the log of one stream. Its first byte creates the file.
type logFile struct {
	store *logStore
	name  string
	file  *os.File
	size  int64
	full  bool
	tail  bool // there is a separate file with the tail of the stream
}

// append writes p, or as much of it as the limits allow. A failure does not fail the
// command: the bytes are missing for readers.
func (f *logFile) append(p []byte) {
	if f.full || f.store.dir == "" || len(p) == 0 {
		return
	}
	n := min(int64(len(p)), f.store.max-f.size)
	if left := f.store.quota.Add(-n); left < 0 {
		back := min(n, -left)
		f.store.quota.Add(back)
		n -= back
	}
	f.full = n < int64(len(p))
	if f.file == nil && n > 0 {
		file, err := os.OpenFile(f.path(f.name), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
		if err != nil {
			f.full = true
			f.store.quota.Add(n)
			return
		}
		f.file = file
	}
	if n > 0 {
		done, err := f.file.Write(p[:n])
		f.size += int64(done)
		f.store.quota.Add(n - int64(done))
		f.full = f.full || err != nil
	}
}

func (f *logFile) path(name string) string { return f.store.dir + "/" + name }

// writeTail writes the tail of a stream whose log is incomplete to its own file.
func (f *logFile) writeTail(p []byte) bool {
	f.tail = f.store.dir != "" && os.WriteFile(f.path(f.name+".tail"), p, 0o600) == nil
	return f.tail
}

func (f *logFile) readAt(name string, off, n int64) ([]byte, error) {
	file := f.file
	if file == nil {
		var err error
		if file, err = os.Open(f.path(name)); err != nil {
			return nil, fmt.Errorf("%w: %w", fault.Unavailable, syscallErr(err))
		}
		defer file.Close()
	}
	data := make([]byte, n)
	got, err := file.ReadAt(data, off)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%w: %w", fault.Unavailable, syscallErr(err))
	}
	if got == 0 {
		return nil, fmt.Errorf("%w: the log was truncated", fault.Unavailable)
	}
	return data[:got], nil
}

func (f *logFile) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

func (f *logFile) remove() {
	f.close()
	f.full = true
	if f.size > 0 {
		os.Remove(f.path(f.name))
		f.store.quota.Add(f.size)
		f.size = 0
	}
	if f.tail {
		os.Remove(f.path(f.name + ".tail"))
	}
}
