package tool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// readMargin is room in an answer of Read for the note that there are more lines.
const readMargin = 100

// Limits of Read.
const (
	defaultReadLines = 2000
	maxReadText      = 8 << 20  // bytes of one answer, whatever Config.MaxText is; the rest is read with an offset
	maxReadLine      = 16 << 20 // bytes of one line
	maxReadFile      = 4 << 30  // bytes of a file; all of it is scanned
	binaryLook       = 8 << 10  // a NUL in these first bytes makes a file binary
)

type readInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file, relative to the workspace or absolute within it" croft:"path"`
	Offset   int    `json:"offset,omitempty" jsonschema:"first line, counted from 1; default 1"`
	Limit    int    `json:"limit,omitempty" jsonschema:"maximum number of lines; default 2000"`
	Raw      bool   `json:"raw,omitempty" jsonschema:"the JSON of a notebook instead of its cells"`
}

type readOutput struct {
	Path       string `json:"path"`
	Content    string `json:"content" jsonschema:"each line with its number and a tab before it"`
	Lines      int    `json:"lines" jsonschema:"number of lines of the file"`
	NextOffset int    `json:"next_offset,omitempty" jsonschema:"first line that was not shown, if there are more"`
	Digest     string `json:"digest" jsonschema:"digest of the whole file"`

	image *Image
}

func (o readOutput) answerImage() *Image { return o.image }

func (o readOutput) Text() string {
	if o.NextOffset == 0 {
		return o.Content
	}
	return o.Content + fmt.Sprintf("... (%d more lines; Read with offset=%d shows them)\n", o.Lines-o.NextOffset+1, o.NextOffset)
}

func (o readOutput) splitContent() (data any, content string) {
	return struct {
		Path       string `json:"path"`
		Lines      int    `json:"lines"`
		NextOffset int    `json:"next_offset,omitempty"`
		Digest     string `json:"digest"`
	}{o.Path, o.Lines, o.NextOffset, o.Digest}, o.Content
}

func readTool() *Tool {
	return New(Spec{
		Name: "Read", Family: Files, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true, TextOnly: true,
		Description: "Read a file of the workspace, also an image, PDF or notebook. Each line is shown with its number and a tab before it. " +
			"A file must have been read before Edit or Write may change it.",
	}, readFile)
}

func readFile(ctx context.Context, c *Call, in readInput) (readOutput, error) {
	if in.FilePath == "" {
		return readOutput{}, Errorf(fault.InvalidArgument, "file_path is required")
	}
	if in.Limit < 0 {
		return readOutput{}, Errorf(fault.InvalidArgument, "limit must not be negative")
	}
	w := window{first: max(in.Offset, 1), count: in.Limit, numbered: true, bytes: min(c.room(readMargin), maxReadText)}
	if w.count == 0 {
		w.count = defaultReadLines
	}
	if isNotebook(in.FilePath) && !in.Raw {
		if out, ok, err := c.readNotebook(ctx, in.FilePath, w); ok {
			return out, err
		}
	}
	w.shows = c.readBinary
	return c.readWindow(ctx, in.FilePath, w)
}

// readWindow reads a window of a file's lines and records them as read.
func (c *Call) readWindow(ctx context.Context, name string, w window) (readOutput, error) {
	body, info, err := c.Workspace.Read(ctx, name, nil)
	if err != nil {
		return readOutput{}, c.fileError(ctx, "read", name, err)
	}
	defer body.Close()
	if info.Size > maxReadFile {
		return readOutput{}, Errorf(fault.ResourceExhausted, "read: %s has %d bytes; at most %d can be read, and a command can show a part of it", name, info.Size, int64(maxReadFile))
	}
	digest, err := w.scan(contextReader{ctx, body}, info.Size)
	switch {
	case errors.Is(err, errBinary) && w.shows != nil:
		return w.shows(ctx, name, info, w)
	case errors.Is(err, errBinary):
		return readOutput{}, Errorf(fault.InvalidArgument, "read: %s is a binary file (%d bytes)", name, info.Size)
	case errors.Is(err, errLongLine):
		return readOutput{}, Errorf(fault.ResourceExhausted, "read: line %d of %s has more than %d bytes; a command can show a part of it", w.lines, name, maxReadLine)
	case err != nil:
		return readOutput{}, fmt.Errorf("read: %w", err)
	}
	out, err := w.output(info, digest)
	if err == nil {
		if w.first > 1 || out.NextOffset > 0 {
			c.LearnFile(ctx, info.Path, out.Content)
		}
		c.recordRead(info.Path, out.Digest, w.lines, w.lineHashes, Span{w.first, w.shown})
	}
	return out, err
}

// output returns the lines of the window.
func (w *window) output(info driver.Info, digest string) (readOutput, error) {
	if w.first > max(w.lines, 1) {
		return readOutput{}, Errorf(fault.InvalidArgument, "read: offset %d exceeds line count %d", w.first, w.lines)
	}
	out := readOutput{Path: info.Path, Content: w.text.String(), Lines: w.lines, Digest: digest}
	if w.shown < w.lines {
		out.NextOffset = w.shown + 1
	}
	return out, nil
}

// fileError is PathError for a file that could not be opened; a directory has its own text.
func (c *Call) fileError(ctx context.Context, verb, name string, err error) error {
	if code := fault.Of(err); code != fault.NotFound && code != fault.SandboxViolation {
		if info, serr := c.Workspace.Stat(ctx, name, nil); serr == nil && info.Type == driver.TypeDir {
			return Errorf(fault.InvalidArgument, "path is a directory: %s", name)
		}
	}
	perr := PathError(verb, name, err)
	if fault.Of(err) == fault.NotFound {
		if other := c.otherCase(ctx, name); other != "" {
			return &textError{text: ErrorText(perr) + "; there is " + other, code: fault.NotFound, err: err}
		}
	}
	return perr
}

// otherCase returns the file whose name differs from a missing one in case alone; "" if none does.
func (c *Call) otherCase(ctx context.Context, name string) string {
	dir, base := path.Split(name)
	list, err := c.Workspace.ReadDir(ctx, cmp.Or(dir, "."))
	if err != nil {
		return ""
	}
	for _, e := range list {
		if found := path.Base(e.Path); strings.EqualFold(found, base) {
			return dir + found
		}
	}
	return ""
}

var (
	errBinary   = errors.New("binary")
	errLongLine = errors.New("a line is too long")
)

// contextReader fails when its context ends.
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
	bytes        int // of the text, beyond which no line is added; 0 is maxReadText

	// shows reads a binary file in another form; nil is an error.
	shows func(ctx context.Context, name string, info driver.Info, w window) (readOutput, error)

	text       strings.Builder
	lines      int      // of the file
	shown      int      // the last line in text; first-1 if the text is empty
	lineHashes []uint32 // of every line; nil where there are too many

	inLine bool         // the last part did not end its line
	hash   maphash.Hash // of the line that came in parts
}

// preallocate reserves memory for a file of size bytes.
func (w *window) preallocate(size int64) {
	if w.first == 1 && size > 0 && size <= int64(cmp.Or(w.bytes, maxReadText)) {
		w.text.Grow(int(size+size/8) + 64)
		w.lineHashes = make([]uint32, 0, min(size/24, 4096)+1)
	}
}

// Sizes of the read buffer. A longer line is processed in parts.
const (
	minChunk = 4 << 10
	maxChunk = 64 << 10
)

// scan reads all of r, which has about size bytes, and returns its digest.
func (w *window) scan(r io.Reader, size int64) (digest string, err error) {
	w.preallocate(size)
	w.shown = w.first - 1
	w.hash.SetSeed(seed)
	sum := driver.NewDigest()
	chunk := make([]byte, max(minChunk, min(size+1, maxChunk))) // one more shows the end
	for first, kept := true, 0; ; first = false {
		n, err := io.ReadFull(r, chunk[kept:])
		last := err == io.EOF || err == io.ErrUnexpectedEOF // the two ends of ReadFull
		if err != nil && !last {
			return "", err
		}
		data := chunk[:kept+n]
		if first && (bytes.IndexByte(data[:min(n, binaryLook)], 0) >= 0 || bytes.HasPrefix(data, []byte("%PDF-"))) {
			return "", errBinary
		}
		sum.Write(data[kept:])
		if last {
			w.addChunk(data)
			break
		}
		whole := bytes.LastIndexByte(data, '\n') + 1
		if whole == 0 {
			whole = len(data) // a part of a longer line
		}
		if w.addChunk(data[:whole]); w.tooLong() {
			return "", errLongLine
		}
		kept = copy(chunk, data[whole:])
	}
	if w.inLine {
		w.endLine()
		w.endLineHash()
	}
	return driver.SumDigest(sum), nil
}

// addChunk processes the next part of the file.
func (w *window) addChunk(data []byte) {
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
		w.addPart(part, !w.inLine)
		switch {
		case i >= 0 && !w.inLine:
			w.addLineHash(uint32(maphash.Bytes(seed, part)))
		case i >= 0:
			w.hash.Write(part)
			w.endLineHash()
		default:
			w.hash.Write(part)
		}
		w.inLine = i < 0
	}
}

// addPart adds a part of the present line to the text. A full text ends the window, unless
// the line is its only one.
func (w *window) addPart(part []byte, first bool) {
	if w.lines < w.first || w.lines >= w.first+w.count {
		return
	}
	if first {
		if w.shown != w.lines-1 {
			return
		}
		if w.text.Len()+len(part)+16 > cmp.Or(w.bytes, maxReadText) && w.text.Len() > 0 {
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
		w.endLine()
		return
	}
	w.text.Write(part)
}

// endLineHash records the hash of a line that came in parts.
func (w *window) endLineHash() {
	w.addLineHash(uint32(w.hash.Sum64()))
	w.hash.Reset()
}

// addLineHash records the hash of a line; with too many lines, all hashes are dropped.
func (w *window) addLineHash(m uint32) {
	if w.lines <= maxHashedLines {
		w.lineHashes = append(w.lineHashes, m)
	} else {
		w.lineHashes = nil
	}
}

// tooLong reports whether the shown line exceeds the limit.
func (w *window) tooLong() bool { return w.text.Len() > maxReadText+maxReadLine }

// endLine ends a line of the text.
func (w *window) endLine() {
	if w.numbered && w.shown == w.lines {
		w.text.WriteByte('\n')
	}
}
