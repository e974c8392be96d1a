package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/quote"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of Read.
const (
	defaultReadLines = 2000
	maxReadText      = 8 << 20  // bytes of one answer; what follows is read with an offset
	maxReadLine      = 16 << 20 // bytes of a line that is shown
	maxReadFile      = 4 << 30  // bytes of a file, all of which is looked at
	binaryLook       = 8 << 10  // bytes in which a NUL makes a file binary
)

type readInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file, relative to the workspace or absolute within it"`
	Offset   int    `json:"offset,omitempty" jsonschema:"first line, counted from 1; default 1"`
	Limit    int    `json:"limit,omitempty" jsonschema:"how many lines; default 2000"`
}

type readOutput struct {
	quoted bool // the text is where the caller wants it as JSON, and Content is empty

	Path       string `json:"path"`
	Content    string `json:"content" jsonschema:"each line with its number and a tab before it"`
	Lines      int    `json:"lines" jsonschema:"lines of the file"`
	NextOffset int    `json:"next_offset,omitempty" jsonschema:"first line that was not shown, where there are more"`
	Digest     string `json:"digest" jsonschema:"of the whole file"`
}

func (o readOutput) Text() string {
	if o.quoted || o.NextOffset == 0 {
		return o.Content
	}
	return o.Content + o.more()
}

// more says what was not shown.
func (o readOutput) more() string {
	if o.NextOffset == 0 {
		return ""
	}
	return fmt.Sprintf("... (%d more lines; Read with offset=%d shows them)\n", o.Lines-o.NextOffset+1, o.NextOffset)
}

func (o readOutput) divide() (beside json.RawMessage, content string, quoted bool) {
	buf := quote.Append(append(make([]byte, 0, len(o.Path)+150), `{"path":`...), o.Path)
	buf = strconv.AppendInt(append(buf, `,"lines":`...), int64(o.Lines), 10)
	if o.NextOffset != 0 {
		buf = strconv.AppendInt(append(buf, `,"next_offset":`...), int64(o.NextOffset), 10)
	}
	buf = quote.Append(append(buf, `,"digest":`...), o.Digest)
	return append(buf, '}'), o.Content, o.quoted
}

func readTool() *Tool {
	return New(Spec{
		Name: "Read", Family: Files, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true, TextOnly: true,
		Description: "Read a file of the workspace. Each line is shown with its number and a tab before it. " +
			"A file must have been read before Edit or Write may change it.",
	}, read)
}

func read(ctx context.Context, c *Call, in readInput) (readOutput, error) {
	if in.FilePath == "" {
		return readOutput{}, Errorf(fault.InvalidArgument, "file_path is required")
	}
	if in.Limit < 0 {
		return readOutput{}, Errorf(fault.InvalidArgument, "limit must not be negative")
	}
	w := window{first: max(in.Offset, 1), count: in.Limit, numbered: true}
	if w.count == 0 {
		w.count = defaultReadLines
	}
	return c.show(ctx, in.FilePath, w)
}

// show reads a window of a file's lines and notes that they were seen.
func (c *Call) show(ctx context.Context, name string, w window) (readOutput, error) {
	body, info, err := c.Workspace.Read(ctx, name, nil)
	if err != nil {
		return readOutput{}, c.fileError(ctx, "read", name, err)
	}
	defer body.Close()
	if info.Size > maxReadFile {
		return readOutput{}, Errorf(fault.ResourceExhausted, "read: %s has %d bytes; at most %d can be read, and a command can show a part of it", name, info.Size, int64(maxReadFile))
	}
	digest, quoted, err := c.scan(&w, info.Path, contextReader{ctx, body}, info.Size)
	switch {
	case errors.Is(err, errBinary):
		return readOutput{}, Errorf(fault.InvalidArgument, "read: %s is a binary file (%d bytes)", name, info.Size)
	case errors.Is(err, errLongLine):
		return readOutput{}, Errorf(fault.ResourceExhausted, "read: line %d of %s has more than %d bytes; a command can show a part of it", w.lines, name, maxReadLine)
	case err != nil:
		return readOutput{}, fmt.Errorf("read: %w", err)
	}
	if w.first > max(w.lines, 1) {
		return readOutput{}, Errorf(fault.InvalidArgument, "read: offset %d exceeds line count %d", w.first, w.lines)
	}
	out := readOutput{Path: info.Path, Content: w.text.String(), Lines: w.lines, Digest: digest, quoted: quoted}
	if w.shown < w.lines {
		out.NextOffset = w.shown + 1
	}
	if quoted {
		*c.quoted = append(quote.Body(*c.quoted, []byte(out.more())), '"')
	}
	c.mark(info.Path, out.Digest, w.lines, w.marks, Span{w.first, w.shown})
	return out, nil
}

// scan reads a file through a window and returns its digest. Where the caller wants
// the text as JSON it is put there, if there is nothing in it to hide: what is read
// is then looked at once, and not copied.
func (c *Call) scan(w *window, path string, body io.Reader, size int64) (digest string, quoted bool, err error) {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	most := size + int64(min(w.count, maxQuoted))*maxNumber // of the text
	if c.quoted == nil || !w.numbered || size >= maxQuoted || most > int64(c.Env.MaxText) {
		w.expect(size)
		digest, err = w.scan(s, body)
		return digest, false, err
	}
	sum := c.Env.digestBeside(size)
	defer sum.end()       // the buffer of its text is used again
	s.grow(int(size) + 1) // one more shows the end
	n, err := io.ReadFull(body, s.chunk)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", false, err
	}
	data := s.chunk[:n]
	again := func() (string, bool, error) {
		w.expect(size)
		digest, err := w.scan(newScanner(), io.MultiReader(bytes.NewReader(data), body))
		return digest, false, err
	}
	if err == nil { // it has grown
		return again()
	}
	if bytes.IndexByte(data[:min(n, binaryLook)], 0) >= 0 {
		return "", false, errBinary
	}
	sum.give(data)
	if !c.scrub.Clean(data) {
		return again()
	}
	*c.quoted = w.quote(append(slices.Grow(*c.quoted, n+n/8+64), '"'), data)
	if c.send != nil && n >= largeText && w.shown >= w.first {
		c.send()
	}
	seen, known := c.Seen(path)
	if !known {
		w.marks = marksOf(data) // while the digest is made
	}
	switch digest = sum.get(); {
	case known && seen.Digest == digest:
		w.marks = seen.marks
	case known:
		w.marks = marksOf(data)
	}
	return digest, true, nil
}

const (
	maxQuoted = 256 << 10 // the size of a file that is not read in one piece
	maxNumber = 8         // bytes before a line of one that is
	largeText = 64 << 10  // the size of one that is worth some more work
)

// fileError is PathError for a file that could not be opened: it tells a
// directory from other trouble.
func (c *Call) fileError(ctx context.Context, verb, name string, err error) error {
	if code := fault.Of(err); code != fault.NotFound && code != fault.SandboxViolation {
		if info, serr := c.Workspace.Stat(ctx, name, nil); serr == nil && info.Type == driver.TypeDir {
			return Errorf(fault.InvalidArgument, "path is a directory: %s", name)
		}
	}
	return PathError(verb, name, err)
}

var (
	errBinary   = errors.New("binary")
	errLongLine = errors.New("a line is too long")
)

// contextReader ends with a context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// A window collects some lines of a file and counts all of them.
type window struct {
	first, count int
	numbered     bool

	text  strings.Builder
	lines int      // of the file
	shown int      // the last line in text; first-1 is none
	marks []uint32 // of every line; nil where there are too many

	inLine bool         // the last part did not end its line
	hash   maphash.Hash // of the line that came in parts
}

// expect makes room for a file of so many bytes.
func (w *window) expect(size int64) {
	if w.first == 1 && size > 0 && size <= maxReadText {
		w.text.Grow(int(size+size/8) + 64)
		w.marks = make([]uint32, 0, min(size/24, 4096)+1)
	}
}

// A scanner is what reading a file takes, kept for the next one.
type scanner struct {
	chunk []byte
	hash  hash.Hash
}

// chunkSize is how much of a file is looked at at a time; most have less. A line
// that has more comes in parts.
const chunkSize = 64 << 10

func newScanner() *scanner { return &scanner{make([]byte, chunkSize), driver.NewDigest()} }

var scanners = sync.Pool{New: func() any { return newScanner() }}

// grow makes the chunk one of n bytes.
func (s *scanner) grow(n int) {
	if n > cap(s.chunk) {
		s.chunk = make([]byte, n+n/8)
	}
	s.chunk = s.chunk[:n]
}

// scan reads all of r and returns its digest.
func (w *window) scan(s *scanner, r io.Reader) (digest string, err error) {
	s.grow(max(chunkSize, cap(s.chunk)))
	s.hash.Reset()
	w.shown = w.first - 1
	w.hash.SetSeed(seed)
	for first, kept := true, 0; ; first = false {
		n, err := io.ReadFull(r, s.chunk[kept:])
		last := err == io.EOF || err == io.ErrUnexpectedEOF // ReadFull answers just these
		if err != nil && !last {
			return "", err
		}
		data := s.chunk[:kept+n]
		if first && bytes.IndexByte(data[:min(n, binaryLook)], 0) >= 0 {
			return "", errBinary
		}
		s.hash.Write(data[kept:])
		if last {
			w.take(data)
			break
		}
		whole := bytes.LastIndexByte(data, '\n') + 1
		if whole == 0 {
			whole = len(data) // of a line that is longer
		}
		if w.take(data[:whole]); w.long() {
			return "", errLongLine
		}
		kept = copy(s.chunk, data[whole:])
	}
	if w.inLine {
		w.end()
		w.endMark()
	}
	return driver.SumDigest(s.hash), nil
}

// take takes the next part of a file.
func (w *window) take(data []byte) {
	for len(data) > 0 {
		part := data
		i := bytes.IndexByte(data, '\n')
		if i >= 0 {
			part = data[:i+1]
		}
		data = data[len(part):]
		if !w.inLine {
			w.lines++
		}
		w.add(part, !w.inLine)
		switch {
		case i >= 0 && !w.inLine:
			w.mark(uint32(maphash.Bytes(seed, part)))
		case i >= 0:
			w.hash.Write(part)
			w.endMark()
		default:
			w.hash.Write(part)
		}
		w.inLine = i < 0
	}
}

// quote is take for a whole file, whose numbered lines are appended to buf as they
// are within a string of JSON. It notes no marks.
func (w *window) quote(buf, data []byte) []byte {
	for ; w.lines < w.first-1 && len(data) > 0; w.lines++ {
		_, data, _ = bytes.Cut(data, newline)
	}
	buf, shown, n := quote.Lines(buf, data, w.first, w.count)
	data = data[n:]
	w.shown = w.first - 1 + shown
	w.lines += shown + bytes.Count(data, newline)
	if len(data) > 0 && data[len(data)-1] != '\n' {
		w.lines++
	}
	return buf
}

var newline = []byte("\n")

// add takes a part of the present line. What would make the text too long ends
// the window, unless it is the window's only line.
func (w *window) add(part []byte, first bool) {
	if w.lines < w.first || w.lines >= w.first+w.count {
		return
	}
	if first {
		if w.shown != w.lines-1 {
			return
		}
		if w.text.Len() > maxReadText {
			return
		}
		w.shown = w.lines
		if w.numbered {
			var number [24]byte
			w.text.Write(append(strconv.AppendInt(number[:0], int64(w.lines), 10), '\t'))
		}
	}
	if w.shown != w.lines {
		return
	}
	if n := len(part); n > 0 && part[n-1] == '\n' && w.numbered {
		part = bytes.TrimSuffix(part[:n-1], []byte("\r"))
		w.text.Write(part)
		w.end()
		return
	}
	w.text.Write(part)
}

// endMark notes the mark of the line that ends.
func (w *window) endMark() {
	w.mark(uint32(w.hash.Sum64()))
	w.hash.Reset()
}

// mark notes the mark of a line, unless there are too many.
func (w *window) mark(m uint32) {
	if w.lines <= maxMarks {
		w.marks = append(w.marks, m)
	} else {
		w.marks = nil
	}
}

// long reports whether the line that is shown is too long to be.
func (w *window) long() bool { return w.text.Len() > maxReadText+maxReadLine }

// end ends a line of the text.
func (w *window) end() {
	if w.numbered && w.shown == w.lines {
		w.text.WriteByte('\n')
	}
}
