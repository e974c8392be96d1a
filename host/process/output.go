package process

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/croft-run/croft/fault"
)

// An output is what a command wrote to one stream: its beginning and its end in
// memory, all of it in a log where there is one.
//
// The log is always a prefix of the stream: once a byte could not be written no
// later one is. So what can be read is head, log and tail, and the one gap that
// can be lies before the tail.
type output struct {
	mu     sync.Mutex
	total  int64 // bytes that came
	head   []byte
	tail   ring
	log    logFile
	write  bool // the log gets everything as it comes, not only when memory is full
	cursor int64

	headMax int
	sealed  *extent // set at the end: what is on disk in place of memory
}

// An extent tells where the bytes of a stream are after its end.
type extent struct {
	Size   int64 `json:"size"`             // bytes that came
	Logged int64 `json:"logged,omitempty"` // in the log
	Head   int64 `json:"head,omitempty"`   // of a result, in the log
	Tail   int64 `json:"tail,omitempty"`   // of a result, at the end of the log or in a file of its own
}

// logs is what all logs of a Manager share.
type logs struct {
	dir  string
	max  int64 // of one log
	room atomic.Int64
}

func newOutput(l *logs, name string, maxOutput int64, write bool) *output {
	half := int(maxOutput / 2)
	return &output{
		headMax: half, tail: ring{max: int(maxOutput) - half},
		log: logFile{logs: l, name: name}, write: write,
	}
}

// add takes what came. It keeps no reference to p.
func (o *output) add(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	if o.write {
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
	if !o.write && o.tail.len()+len(rest) > o.tail.max {
		o.write = true // memory is full for the first time: the log starts with what memory has
		o.log.append(o.head)
		o.log.append(o.tail.bytes(0, o.tail.len()))
		o.log.append(rest)
	}
	o.tail.add(rest)
}

// spill writes to the log what there is in memory, and all that comes from now on:
// whoever this process does not survive can read it there.
func (o *output) spill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.write || o.total > int64(len(o.head)+o.tail.len()) {
		return
	}
	o.write = true
	o.log.append(o.head)
	o.log.append(o.tail.bytes(0, o.tail.len()))
}

// lacks is how many bytes can't be read any more, from memory or from disk.
func (o *output) lacks() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	have := max(int64(len(o.head)), o.log.size)
	tail := int64(o.tail.len())
	if o.sealed != nil {
		have, tail = max(o.sealed.Logged, int64(len(o.head))), o.sealed.Tail
	}
	return max(0, o.total-tail-have)
}

// result is the head and the tail, and how many bytes lie between.
func (o *output) result() ([]byte, int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed == nil {
		out := make([]byte, 0, len(o.head)+o.tail.len())
		out = append(out, o.head...)
		out = append(out, o.tail.bytes(0, o.tail.len())...)
		return orNil(out), o.total - int64(len(out))
	}
	x := o.sealed
	var out []byte
	for _, part := range [][2]int64{{0, x.Head}, {x.Size - x.Tail, x.Size}} {
		for off := part[0]; off < part[1]; {
			data, _, err := o.readLocked(off, part[1]-off) // in pieces, where a part lies in two files
			if err != nil || len(data) == 0 {
				break // it is gone: what is missing counts as dropped
			}
			out, off = append(out, data...), off+int64(len(data))
		}
	}
	return orNil(out), x.Size - int64(len(out))
}

func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// size is how many bytes came.
func (o *output) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// read returns at most limit bytes from off on, and the offset of the first,
// which is past off where what was asked for is no longer there.
func (o *output) read(off, limit int64) (data []byte, start, size int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	data, start, err = o.readLocked(off, limit)
	return data, start, o.total, err
}

func (o *output) readLocked(off, limit int64) ([]byte, int64, error) {
	if off >= o.total || limit <= 0 {
		return nil, off, nil
	}
	tail := o.total - int64(o.tail.len())
	if o.sealed != nil && o.sealed.Logged < o.total {
		tail = o.total - o.sealed.Tail
	}
	switch {
	case off < int64(len(o.head)):
		return append([]byte(nil), o.head[off:min(int64(len(o.head)), off+limit)]...), off, nil
	case off < o.log.size && (off < tail || o.sealed != nil):
		data, err := o.log.readAt(o.log.name, off, min(limit, o.log.size-off))
		return data, off, err
	case off < tail:
		off = tail
	}
	if o.sealed != nil {
		data, err := o.log.readAt(o.log.name+".tail", off-tail, min(limit, o.total-off))
		return data, off, err
	}
	from := int(off - tail)
	return o.tail.bytes(from, int(min(limit, int64(o.tail.len()-from)))), off, nil
}

// available is how many bytes take would return without a limit.
func (o *output) available() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total - o.cursor
}

// take returns at most limit bytes that no take returned before, and how many
// went by that can't be had any more.
func (o *output) take(limit int64) (data []byte, dropped int64, err error) {
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

// seal closes the log at the end of the stream and, where all is on disk, frees
// the memory.
func (o *output) seal() extent {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := extent{Size: o.total, Logged: o.log.size, Head: int64(len(o.head)), Tail: int64(o.tail.len())}
	o.log.close()
	if x.Logged < x.Size && !o.log.writeTail(o.tail.bytes(0, o.tail.len())) {
		return x // no disk: memory goes on holding it
	}
	if x.Logged < x.Head {
		return x
	}
	o.head, o.tail.buf, o.sealed = nil, nil, &x
	return x
}

// restored is the output of a session of an earlier Manager.
func restored(l *logs, name string, x extent) *output {
	o := &output{log: logFile{logs: l, name: name, size: x.Logged, tail: x.Logged < x.Size}, total: x.Size, sealed: &x}
	l.room.Add(-x.Logged)
	return o
}

// remove deletes what is on disk.
func (o *output) remove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log.remove()
}

// A ring holds the last max bytes that were added.
type ring struct {
	buf   []byte
	start int // of the oldest byte, once buf is full
	max   int
}

func (r *ring) len() int { return len(r.buf) }

func (r *ring) add(p []byte) {
	if len(p) >= r.max {
		r.buf = append(r.buf[:0], p[len(p)-r.max:]...)
		r.start = 0
		return
	}
	if n := min(r.max-len(r.buf), len(p)); n > 0 {
		r.buf = append(r.buf, p[:n]...) // never wrapped before it is full
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(r.buf[r.start:], p)
		p = p[n:]
		r.start = (r.start + n) % r.max
	}
}

// bytes returns a copy of n bytes from the i-th oldest on.
func (r *ring) bytes(i, n int) []byte {
	out := make([]byte, 0, n)
	for n > 0 {
		at := (r.start + i) % len(r.buf)
		part := r.buf[at:min(len(r.buf), at+n)]
		out = append(out, part...)
		i, n = i+len(part), n-len(part)
	}
	return out
}

// A logFile is made by its first byte.
type logFile struct {
	logs *logs
	name string
	file *os.File
	size int64
	full bool
	tail bool // there is a file with the end of the stream
}

// append writes p, or as much of it as there is room for. What can't be written
// is not an error of the command: readers see that it is missing.
func (f *logFile) append(p []byte) {
	if f.full || f.logs.dir == "" || len(p) == 0 {
		return
	}
	n := min(int64(len(p)), f.logs.max-f.size)
	if left := f.logs.room.Add(-n); left < 0 {
		back := min(n, -left)
		f.logs.room.Add(back)
		n -= back
	}
	f.full = n < int64(len(p))
	if f.file == nil && n > 0 {
		file, err := os.OpenFile(f.path(f.name), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
		if err != nil {
			f.full = true
			f.logs.room.Add(n)
			return
		}
		f.file = file
	}
	if n > 0 {
		done, err := f.file.Write(p[:n])
		f.size += int64(done)
		f.logs.room.Add(n - int64(done))
		f.full = f.full || err != nil
	}
}

func (f *logFile) path(name string) string { return f.logs.dir + "/" + name }

// writeTail keeps the end of a stream that the log has no room for.
func (f *logFile) writeTail(p []byte) bool {
	f.tail = f.logs.dir != "" && os.WriteFile(f.path(f.name+".tail"), p, 0o600) == nil
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
		return nil, fmt.Errorf("%w: the log is shorter than it was", fault.Unavailable)
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
		f.logs.room.Add(f.size)
		f.size = 0
	}
	if f.tail {
		os.Remove(f.path(f.name + ".tail"))
	}
}
