package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// InfoHeader is the header with the Info of the file that is read, as ASCII JSON. PartialHeader is on
// an answer that has not all of a file: which bytes these are, and the size of the file, as
// Content-Range has it. Content-Range itself has no meaning beside status 200.
const (
	InfoHeader    = "Croft-Info"
	PartialHeader = "Croft-Partial"
)

const filesPath = "/v1/workspaces/{id}/files"

func (s fileRoutes) content() {
	read := shown(s.op(http.MethodGet, filesPath, "read-file", "The content of a file, or a range of it"))
	read.Description = "The header " + InfoHeader + " describes the file. If reading fails, the connection is aborted. " +
		"Where the answer is not the whole file, the header " + PartialHeader + " says which bytes it is, as bytes FIRST-LAST/SIZE. " +
		"With digest=true, ETag is the digest of the content. A range outside the file has status 416."
	read.Responses["200"] = octetResponse("the content")
	read.Responses["206"] = octetResponse("the requested range")
	onWorkspace(s, read, s.readContent)
	write := s.op(http.MethodPut, filesPath, "write-file", "Make or replace a file, atomically")
	write.RequestBody = &huma.RequestBody{Required: true, Content: octetResponse("").Content}
	write.MaxBodyBytes = 0 // it is a stream; parameter max bounds it
	handle(s, write, s.writeFile)
	s.archive()
	onWorkspace(s, s.op(http.MethodDelete, filesPath, "remove-file", "Remove a file, a symlink or a directory"), removeFile)
}

func octetResponse(description string) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
}

type readInput struct {
	Target
	Path   string `query:"path" required:"true"`
	Offset int64  `query:"offset" doc:"first byte; an offset beyond the end reads as empty"`
	Limit  int64  `query:"limit" doc:"maximum number of bytes; 0 is all"`
	Digest bool   `query:"digest" doc:"send the digest of the whole content as ETag; the file is read twice"`
	Range  string `header:"Range" doc:"one range of bytes, instead of offset and limit"`
}

func (s fileRoutes) readContent(ctx context.Context, ws *workspace.Workspace, in *readInput) (*huma.StreamResponse, error) {
	if in.Range != "" {
		return s.readRange(ctx, ws, in)
	}
	return s.readPart(ctx, ws, in, driver.ReadOptions{Offset: in.Offset, Limit: in.Limit}, http.StatusOK)
}

// readPart answers with a part of a file and, if requested, the digest of exactly this
// content. It fails if the file keeps changing.
func (s fileRoutes) readPart(ctx context.Context, ws *workspace.Workspace, in *readInput, part driver.ReadOptions, status int) (*huma.StreamResponse, error) {
	const tries = 3
	for try := 1; ; try++ {
		var was driver.Info
		if in.Digest {
			var err error
			if was, err = ws.Stat(ctx, in.Path, &driver.StatOptions{Digest: true}); err != nil {
				return nil, err
			}
		}
		body, info, err := ws.Read(ctx, in.Path, &part)
		if err != nil {
			return nil, err
		}
		if !in.Digest || was.Size == info.Size && was.ModTime.Equal(info.ModTime) {
			info.Digest = was.Digest
			return s.streamFile(body, info, part, status), nil
		}
		body.Close()
		if try == tries {
			return nil, fault.Transient(fmt.Errorf("read %s: %w: it changed while its digest was computed", in.Path, fault.Unavailable))
		}
	}
}

// streamFile sends a body, which is the given part of a file. If reading fails, the connection is aborted, since the status
// was sent already: a client must not take a part for the whole.
func (s fileRoutes) streamFile(body io.ReadCloser, info driver.Info, part driver.ReadOptions, status int) *huma.StreamResponse {
	size := max(0, info.Size-part.Offset) // of the answer
	if part.Limit > 0 {
		size = min(size, part.Limit)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		defer body.Close()
		r, w := humago.Unwrap(ctx)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Accept-Ranges", "bytes")
		setDownload(w.Header(), path.Base(info.Path))
		w.Header().Set(InfoHeader, asciiJSON(info))
		sent := sentRange(part.Offset, size, info.Size)
		if size < info.Size {
			w.Header().Set(PartialHeader, sent)
		}
		if status == http.StatusPartialContent {
			w.Header().Set("Content-Range", sent)
		}
		if info.Digest != "" {
			w.Header().Set("ETag", etag(info.Digest))
		}
		if r.Method == http.MethodHead {
			if status == http.StatusOK {
				w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
			}
			w.WriteHeader(status)
			return
		}
		w.WriteHeader(status)
		if _, err := io.Copy(w, body); err != nil {
			s.log.Warn("read was cut short", "path", info.Path, "error", err)
			panic(http.ErrAbortHandler)
		}
	}}
}

// setDownload makes a browser that opens the answer as a page store it, whatever it is: the content
// of a workspace must not run with the rights of the server's page.
func setDownload(h http.Header, name string) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name))
}

// readRange answers a request with a Range header. Several ranges, or another unit, get
// the whole file, as RFC 9110 allows.
func (s fileRoutes) readRange(ctx context.Context, ws *workspace.Workspace, in *readInput) (*huma.StreamResponse, error) {
	spec, ok := strings.CutPrefix(in.Range, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		return s.readPart(ctx, ws, in, driver.ReadOptions{}, http.StatusOK)
	}
	info, err := ws.Stat(ctx, in.Path, nil)
	if err != nil {
		return nil, err
	}
	first, last, err := parseRange(spec, info.Size)
	if err != nil {
		return nil, err
	}
	part := driver.ReadOptions{Offset: first, Limit: last - first + 1}
	return s.readPart(ctx, ws, in, part, http.StatusPartialContent)
}

// sentRange returns the value of a Content-Range header.
func sentRange(first, n, size int64) string {
	if n == 0 {
		return fmt.Sprintf("bytes */%d", size)
	}
	return fmt.Sprintf("bytes %d-%d/%d", first, first+n-1, size)
}

// etag returns a digest as the value of an ETag header.
func etag(digest string) string { return `"` + digest + `"` }

// parseRange parses "a-b", "a-" or "-n" for a file of the given size. A valid range
// outside the file has status 416.
func parseRange(spec string, size int64) (first, last int64, err error) {
	from, to, ok := strings.Cut(strings.TrimSpace(spec), "-")
	bad := fmt.Errorf("range %q: %w: of %d bytes, ask for bytes=FIRST-LAST, bytes=FIRST- or bytes=-LENGTH", spec, fault.InvalidArgument, size)
	outside := &statusError{bad, http.StatusRequestedRangeNotSatisfiable, http.Header{"Content-Range": {fmt.Sprintf("bytes */%d", size)}}}
	if !ok || from == "" && to == "" {
		return 0, 0, bad
	}
	if from == "" {
		n, err := strconv.ParseInt(to, 10, 64)
		if err != nil || n < 0 {
			return 0, 0, bad
		}
		if n == 0 || size == 0 {
			return 0, 0, outside
		}
		return max(0, size-n), size - 1, nil
	}
	first, err = strconv.ParseInt(from, 10, 64)
	if err != nil || first < 0 {
		return 0, 0, bad
	}
	last = size - 1
	if to != "" {
		n, err := strconv.ParseInt(to, 10, 64)
		if err != nil || n < first {
			return 0, 0, bad
		}
		last = min(last, n)
	}
	if first >= size {
		return 0, 0, outside
	}
	return first, last, nil
}

// asciiJSON encodes v as ASCII JSON, for a header.
func asciiJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "{}" // an Info always encodes
	}
	var b strings.Builder
	for _, r := range string(data) {
		switch {
		case 0x20 <= r && r < 0x7f:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", hi, lo)
		}
	}
	return b.String()
}

type writeInput struct {
	Target
	Path        string `query:"path" required:"true"`
	Mode        string `query:"mode" doc:"permission bits of a new file, octal; default 0644"`
	SetMode     bool   `query:"setmode" doc:"also set the mode of a replaced file"`
	Parents     bool   `query:"parents" doc:"make missing directories above"`
	InPlace     bool   `query:"inplace" doc:"rewrite the same inode; not atomic"`
	Sync        bool   `query:"sync" doc:"fsync before the answer"`
	Max         int64  `query:"max" doc:"refuse more bytes than this; 0 is no limit"`
	ModTime     string `query:"mtime" doc:"of the file, RFC 3339"`
	IfMatch     string `header:"If-Match" doc:"digest that the present content must have; an empty value is refused"`
	IfNoneMatch string `header:"If-None-Match" doc:"* refuses to replace a file, with status 412"`

	streamBody
}

// A streamBody is the body of a request, as a stream; inputs embed it.
type streamBody struct {
	header http.Header // of the request: tells a header that is empty from one that is absent
	stream io.Reader
	end    func() // drains what is left of the body
}

// Resolve keeps the body as a stream.
func (b *streamBody) Resolve(ctx huma.Context) []error {
	r, w := humago.Unwrap(ctx)
	b.header, b.stream, b.end = r.Header, r.Body, func() { drainBody(w, r) }
	return nil
}

// drainBody reads the rest of the body for a short time after an error, so that a client
// that is still sending can read the answer. The connection is closed unless the body
// has ended.
func drainBody(w http.ResponseWriter, r *http.Request) {
	const most, timeout = 8 << 20, 2 * time.Second
	conn := http.NewResponseController(w)
	if conn.SetReadDeadline(time.Now().Add(timeout)) == nil {
		if _, err := io.CopyN(io.Discard, r.Body, most); errors.Is(err, io.EOF) && conn.SetReadDeadline(time.Time{}) == nil {
			return
		}
	}
	w.Header().Set("Connection", "close")
}

func (in *writeInput) writeOptions() (*driver.WriteOptions, error) {
	o := &driver.WriteOptions{
		SetMode: in.SetMode, Parents: in.Parents, InPlace: in.InPlace, Sync: in.Sync, MaxSize: in.Max,
		IfMatch: strings.Trim(in.IfMatch, `"`),
	}
	// An empty condition is a mistake of the client, which has no digest. Taken as no condition, it
	// would replace what the client did not read.
	if _, given := in.header["If-Match"]; given && o.IfMatch == "" {
		return nil, badParameter("If-Match", "it is empty: send the digest of the content to replace, or no If-Match to replace any")
	}
	var err error
	if o.Mode, err = parseMode(in.Mode); err != nil {
		return nil, err
	}
	if in.Max < 0 {
		return nil, badParameter("max", "%d is negative", in.Max)
	}
	if _, given := in.header["If-None-Match"]; given {
		if in.IfNoneMatch != "*" {
			return nil, badParameter("If-None-Match", "%q is not *", in.IfNoneMatch)
		}
		o.CreateOnly = true
	}
	if in.ModTime != "" {
		if o.ModTime, err = time.Parse(time.RFC3339Nano, in.ModTime); err != nil {
			return nil, badParameter("mtime", "%q is not an RFC 3339 time", in.ModTime)
		}
	}
	return o, nil
}

func parseMode(s string) (fs.FileMode, error) {
	if s == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(s, 8, 32)
	if err != nil || fs.FileMode(mode) > driver.MaxMode {
		return 0, badParameter("mode", "%q is not an octal number up to %o", s, driver.MaxMode)
	}
	return fs.FileMode(mode), nil
}

// writeAnswer is the answer to a write.
type writeAnswer struct {
	ETag string `header:"ETag" doc:"the digest of the new content"`
	Body driver.WriteResult
}

func (s fileRoutes) writeFile(ctx context.Context, in *writeInput) (*writeAnswer, error) {
	res, err := s.writeBody(ctx, in)
	if err != nil {
		in.end()
		if in.IfNoneMatch != "" && fault.Of(err) == fault.AlreadyExists {
			err = &statusError{err, http.StatusPreconditionFailed, nil}
		}
		return nil, err
	}
	return &writeAnswer{ETag: etag(res.Digest), Body: res}, nil
}

func (s fileRoutes) writeBody(ctx context.Context, in *writeInput) (driver.WriteResult, error) {
	opts, err := in.writeOptions()
	if err != nil {
		return driver.WriteResult{}, err
	}
	ws, err := s.liveWorkspace(ctx, in.Target)
	if err != nil {
		return driver.WriteResult{}, err
	}
	res, err := ws.Write(ctx, in.Path, clientBody{in.stream}, opts)
	if b, ok := in.stream.(*watchedBody); ok && err != nil && b.isExpired() {
		// The HTTP server cancels the request, so err may be any error.
		err = fmt.Errorf("write %s: %w: the body of the request paused for more than %v", in.Path, fault.DeadlineExceeded, b.timeout)
	}
	return res, err
}

// clientBody gives read errors the code Canceled: the client ended the body early.
type clientBody struct{ io.Reader }

func (b clientBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // Read returns it bare
		err = fmt.Errorf("read the body of the request: %w: %w", fault.Canceled, err)
	}
	return n, err
}

type removeInput struct {
	Target
	Path      string `query:"path" required:"true"`
	Recursive bool   `query:"recursive"`
}

func removeFile(ctx context.Context, ws *workspace.Workspace, in *removeInput) (*none, error) {
	return nil, ws.Remove(ctx, in.Path, &driver.RemoveOptions{Recursive: in.Recursive})
}
