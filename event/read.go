package event

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
)

// A LineError is a line that is not an event. Reading continues after it.
type LineError struct {
	File string // may be ""
	Line int    // from 1
	Torn bool   // the last line is incomplete: its writer crashed, or is still writing
	Err  error
}

func (e *LineError) Error() string {
	what := "broken line"
	if e.Torn {
		what = "torn last line"
	}
	return fmt.Sprintf("event: read %s:%d: %s: %v", e.File, e.Line, what, e.Err)
}

// Unwrap returns the parse error.
func (e *LineError) Unwrap() error { return e.Err }

// A Reader reads events, one per line, and tolerates broken lines.
type Reader struct {
	r    *bufio.Reader
	file string
	line int
	with []byte // other lines are skipped
}

// NewReader returns a reader of a [File]'s output. name is for errors.
func NewReader(r io.Reader, name string) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), file: name}
}

// Next returns the next event. The error is io.EOF at the end; a *LineError for a broken
// line, after which Next may be called again; or the error of the underlying reader. Empty
// lines are skipped.
func (r *Reader) Next() (Event, error) {
	for {
		line, whole, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		r.line++
		if whole && (len(bytes.TrimSpace(line)) == 0 || !bytes.Contains(line, r.with)) {
			continue
		}
		var e Event
		if len(line) > MaxLine {
			err = fmt.Errorf("%w: it is longer than %d bytes", fault.InvalidArgument, MaxLine)
		} else {
			e, err = Unmarshal(line)
		}
		if err == nil {
			return e, nil
		}
		return Event{}, &LineError{File: r.file, Line: r.line, Torn: !whole, Err: err}
	}
}

// readLine returns a line without its line ending, truncated beyond MaxLine, and whether it
// was complete. It returns io.EOF only if nothing is left.
func (r *Reader) readLine() (line []byte, whole bool, err error) {
	for {
		part, err := r.r.ReadSlice('\n')
		if len(line) <= MaxLine {
			line = append(line, part...)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, false, nil
		}
		return nil, false, err
	}
}

// ReadFiles returns the events in the file of a [File] and its rotated files, oldest first,
// after the violations that are no longer in these. It yields a *LineError for each broken
// line; any other error ends the sequence. A missing file has no events.
func ReadFiles(path string) iter.Seq2[Event, error] { return readFiles(path, "") }

// ReadWorkspace is [ReadFiles] for the events of one workspace. It does not parse lines
// without the id, which is much faster.
func ReadWorkspace(path, id string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range readFiles(path, id) {
			if (err != nil || e.Workspace == id) && !yield(e, err) {
				return
			}
		}
	}
}

// readFiles is ReadFiles for lines that contain a text.
func readFiles(path, with string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var kept []Event
		for e, err := range readRotated(path+keptSuffix, with) {
			if err == nil { // a broken line is in the other files, too, or was evicted
				kept = append(kept, e)
			}
		}
		yieldKept := func(before time.Time) bool {
			for _, e := range kept {
				if e.Time.Before(before) && !yield(e, nil) {
					return false
				}
			}
			kept = nil
			return true
		}
		for e, err := range readRotated(path, with) {
			if err == nil && kept != nil && !yieldKept(e.Time) || !yield(e, err) {
				return
			}
		}
		yieldKept(endOfTime)
	}
}

// endOfTime is after the time of any event.
var endOfTime = time.Unix(1<<40, 0)

// readRotated returns the events in a file and its rotated files, oldest first, of lines
// that contain a text.
func readRotated(path, with string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		files, err := openRotated(path)
		defer func() {
			for _, f := range files {
				f.Close()
			}
		}()
		if err != nil {
			yield(Event{}, fmt.Errorf("event: read %s: %w", path, err))
			return
		}
		for _, f := range files {
			if !readFile(f, with, yield) {
				return
			}
		}
	}
}

func readFile(f *os.File, with string, yield func(Event, error) bool) bool {
	r := NewReader(f, f.Name())
	r.with = []byte(with)
	for {
		e, err := r.Next()
		var bad *LineError
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil && !errors.As(err, &bad):
			yield(Event{}, fmt.Errorf("event: read %s: %w", f.Name(), err))
			return false
		case !yield(e, err):
			return false
		}
	}
}

// openRotated opens the file and its rotated files, and returns them oldest first. It opens
// the newest first: a file that is rotated meanwhile is then seen twice, and dropped once,
// instead of being missed.
func openRotated(path string) ([]*os.File, error) {
	names, err := rotatedFiles(path)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	var seen []fs.FileInfo
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDONLY|openFlags, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return files, err
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%w: %s is not a regular file", fault.InvalidArgument, name)
		}
		if err != nil {
			f.Close()
			return files, err
		}
		if slices.ContainsFunc(seen, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			f.Close()
			continue
		}
		files, seen = append(files, f), append(seen, info)
	}
	slices.Reverse(files)
	return files, nil
}

// rotatedFiles lists path and its rotated files, newest first, with one name more for a
// concurrent rotation.
func rotatedFiles(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	most := 0
	for _, e := range entries {
		if suffix, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+"."); ok {
			if n, err := strconv.ParseUint(suffix, 10, 16); err == nil {
				most = max(most, int(n))
			}
		}
	}
	var names []string
	for i := 0; i <= most+1; i++ {
		names = append(names, rotatedName(path, i))
	}
	return names, nil
}

// tailSize is the number of bytes at the end of a file that are read for its latest
// sequence.
const tailSize = 2 * MaxLine

// LastSequence returns the latest sequence in the files at path, 0 if there is none, for
// [Stream.Continue]. It reads only the end of a file.
func LastSequence(path string) (uint64, error) {
	files, err := openRotated(path)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return 0, fmt.Errorf("event: read %s: %w", path, err)
	}
	for _, f := range slices.Backward(files) {
		if last, err := lastSequenceIn(f); err != nil || last > 0 {
			return last, err
		}
	}
	return 0, nil
}

func lastSequenceIn(f *os.File) (last uint64, err error) {
	var tail bytes.Buffer
	if info, err := f.Stat(); err == nil {
		tail.Grow(int(min(info.Size(), tailSize)) + bytes.MinRead)
		if info.Size() > tailSize {
			_, err = f.Seek(-tailSize, io.SeekEnd)
		}
		if err != nil {
			return 0, fmt.Errorf("event: read %s: %w", f.Name(), err)
		}
	}
	if _, err := tail.ReadFrom(f); err != nil {
		return 0, fmt.Errorf("event: read %s: %w", f.Name(), err)
	}
	for line := range bytes.Lines(tail.Bytes()) {
		last = max(last, sequenceOf(line))
	}
	return last, nil
}

// sequenceOf returns the sequence of a line, 0 if the line is damaged, such as one that a seek
// hit. It does not decode a line in the form that events are written in: every command of
// croft reads the end of the file.
func sequenceOf(line []byte) uint64 {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"event":"`)); ok {
		_, rest, _ = bytes.Cut(rest, []byte(`"`))
		if rest, ok = bytes.CutPrefix(rest, []byte(`,"sequence":`)); ok {
			digits, _, _ := bytes.Cut(rest, []byte(`,`))
			if n, err := strconv.ParseUint(string(digits), 10, 64); err == nil {
				return n
			}
		}
	}
	e, err := Unmarshal(line)
	if err != nil {
		return 0
	}
	return e.Sequence
}
