package process

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/croft-run/croft/fault"
)

// An outputBuffer is what a command wrote to one stream: its beginning and its end in
// memory, all of it in a log where there is one.
//
// The log is always a prefix of the stream: once a byte could not be written no
// later one is. So what can be read is head, log and tail, and the one gap that
// can be lies before the tail.
type outputBuffer struct {
	mu     sync.Mutex
	total  int64 // bytes that came
	head   []byte
	tail   tailRing
	log    logFile
	logAll bool // the log gets everything as it comes, not only when memory is full
	cursor int64

	headMax int
	final   *streamExtent // set at the end: what is on disk in place of memory
}

// An streamExtent tells where the bytes of a stream are after its end.
type streamExtent struct {
	Size   int64 `json:"size"`             // bytes that came
	Logged int64 `json:"logged,omitempty"` // in the log
	Head   int64 `json:"head,omitempty"`   // of a result, in the log
	Tail   int64 `json:"tail,omitempty"`   // of a result, at the end of the log or in a file of its own
}

// logStore is what all logs of a Manager share.
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

// add takes what came. It keeps no reference to p.
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
		o.logAll = true // memory is full for the first time: the log starts with what memory has
		o.log.append(o.head)
		o.log.append(o.tail.copyRange(0, o.tail.len()))
		o.log.append(rest)
	}
	o.tail.add(rest)
}

// writeToLog writes to the log what there is in memory, and all that comes from now on:
// whoever this process does not survive can read it there.
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

// missingBytes is how many bytes can't be read any more, from memory or from disk.
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

// headAndTail is the head and the tail, and how many bytes lie between.
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
			data, _, err := o.readLocked(off, part[1]-off) // in pieces, where a part lies in two files
			if err != nil || len(data) == 0 {
				break // it is gone: what is missing counts as dropped
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

// totalBytes is how many bytes came.
func (o *outputBuffer) totalBytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// read returns at most limit bytes from off on, and the offset of the first,
// which is past off where what was asked for is no longer there.
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

// unreadBytes is how many bytes take would return without a limit.
func (o *outputBuffer) unreadBytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total - o.cursor
}

// readNew returns at most limit bytes that no take returned before, and how many
// went by that can't be had any more.
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

// finish closes the log at the end of the stream and, where all is on disk, frees
// the memory.
func (o *outputBuffer) finish() streamExtent {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := streamExtent{Size: o.total, Logged: o.log.size, Head: int64(len(o.head)), Tail: int64(o.tail.len())}
	o.log.close()
	if x.Logged < x.Size && !o.log.writeTail(o.tail.copyRange(0, o.tail.len())) {
		return x // no disk: memory goes on holding it
	}
	if x.Logged < x.Head {
		return x
	}
	o.head, o.tail.buf, o.final = nil, nil, &x
	return x
}

// restoredOutput is the output of a session of an earlier Manager.
func restoredOutput(l *logStore, name string, x streamExtent) *outputBuffer {
	o := &outputBuffer{log: logFile{store: l, name: name, size: x.Logged, tail: x.Logged < x.Size}, total: x.Size, final: &x}
	l.quota.Add(-x.Logged)
	return o
}

// remove deletes what is on disk.
func (o *outputBuffer) remove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log.remove()
}

// A tailRing holds the last max bytes that were added.
type tailRing struct {
	buf   []byte
	start int // of the oldest byte, once buf is full
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
		r.buf = append(r.buf, p[:n]...) // never wrapped before it is full
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(r.buf[r.start:], p)
		p = p[n:]
		r.start = (r.start + n) % r.max
	}
}

// copyRange returns a copy of n bytes from the i-th oldest on.
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

// A logFile is made by its first byte.
type logFile struct {
	store *logStore
	name  string
	file  *os.File
	size  int64
	full  bool
	tail  bool // there is a file with the end of the stream
}

// append writes p, or as much of it as there is room for. What can't be written
// is not an error of the command: readers see that it is missing.
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

// writeTail keeps the end of a stream that the log has no room for.
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
		f.store.quota.Add(f.size)
		f.size = 0
	}
	if f.tail {
		os.Remove(f.path(f.name + ".tail"))
	}
}
