package envd

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A fileInfo describes a file that was written.
type fileInfo struct {
	Path     string            `json:"path"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func newFileInfo(abs string, metadata map[string]string) fileInfo {
	return fileInfo{Path: abs, Name: path.Base(abs), Type: "file", Metadata: metadata}
}

// Signature returns the signature of a URL of a file by the access token of a sandbox.
func Signature(method string, query url.Values, token string) string {
	operation := "read"
	if method == http.MethodPost {
		operation = "write"
	}
	parts := []string{query.Get("path"), operation, query.Get("username"), token}
	if end := query.Get("signature_expiration"); end != "" {
		parts = append(parts, end)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ":")))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// errExpired has the text that programs compare.
var errExpired = errors.New("signature is already expired")

// checkSignature checks the signature of a request for a file.
func (sb Sandbox) checkSignature(r *http.Request) error {
	query := r.URL.Query()
	signature, expiration := query.Get("signature"), query.Get("signature_expiration")
	if signature == "" {
		return fmt.Errorf("%w: the request has neither an access token nor a signature", fault.Unauthenticated)
	}
	if subtle.ConstantTimeCompare([]byte(Signature(r.Method, query, sb.Token)), []byte(signature)) != 1 {
		return fmt.Errorf("%w: the signature is not valid", fault.Unauthenticated)
	}
	if expiration == "" {
		return nil
	}
	second, err := strconv.ParseInt(expiration, 10, 64)
	if err != nil || second < time.Now().Unix() {
		return fault.Default(errExpired, fault.Unauthenticated)
	}
	return nil
}

// checkFileUser checks the user of a request for a file.
func (c *sandboxCall) checkFileUser(r *http.Request) error {
	name := r.URL.Query().Get("username")
	if name == "" {
		name, _, _ = r.BasicAuth()
	}
	return c.checkUserName(r.Context(), name)
}

// download answers with the content of a file.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	c, ctx := callOf(r.Context()), r.Context()
	if err := c.checkFileUser(r); err != nil {
		writeError(w, err)
		return
	}
	l, err := c.locate(r.URL.Query().Get("path"))
	var e entry
	if err == nil {
		e, err = c.stat(ctx, l, true)
	}
	if err == nil && e.Type != driver.TypeFile {
		err = fmt.Errorf("%s: %w: it is a directory or no regular file", l.abs, fault.InvalidArgument)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	compress, ok := encodingOf(r)
	if !ok {
		writeStatus(w, http.StatusNotAcceptable, fmt.Errorf("encoding %.200q: the encodings are identity and gzip", r.Header.Get("Accept-Encoding")))
		return
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": path.Base(l.abs)}))
	begun := &begunWriter{Writer: w}
	out, end := io.Writer(begun), func() error { return nil }
	if compress {
		z := gzip.NewWriter(begun)
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", contentType(l.abs))
		out, end = z, z.Close
	}
	switch {
	case e.outside:
		w.Header().Set("Content-Type", contentType(l.abs))
		err = c.readInside(ctx, l.abs, out)
	case compress:
		err = c.copyFile(ctx, l, out)
	default:
		f, err := c.Workspace.FS().With(ctx).Open(l.name)
		if err != nil {
			w.Header().Del("Content-Disposition")
			writeError(w, err)
			return
		}
		defer f.Close() //nolint:errcheck // nothing is written
		seeker, ok := f.(io.ReadSeeker)
		if !ok {
			writeError(w, fmt.Errorf("%s: %w: the file can't be read from an offset", l.abs, fault.Unsupported))
			return
		}
		http.ServeContent(w, r, l.abs, e.ModTime, seeker)
		return
	}
	if err == nil {
		err = end()
	}
	if err != nil && !begun.is {
		for _, name := range []string{"Content-Disposition", "Content-Encoding", "Content-Type"} {
			w.Header().Del(name)
		}
		writeError(w, err)
		return
	}
	if err != nil {
		s.log.InfoContext(ctx, "a download was cut", "path", l.abs, "err", err)
		panic(http.ErrAbortHandler) // the client must not take what it has for the whole
	}
}

// A begunWriter remembers whether something was written.
type begunWriter struct {
	io.Writer
	is bool
}

func (b *begunWriter) Write(p []byte) (int, error) {
	b.is = true
	return b.Writer.Write(p)
}

func (c *sandboxCall) copyFile(ctx context.Context, l location, w io.Writer) error {
	body, _, err := c.Workspace.Read(ctx, l.name, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err
}

func contentType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// encodingOf reports whether to compress an answer: if the client accepts gzip and nothing
// else, as the SDK asks for it. Programs that list gzip among others, as every fetch does,
// get the file as it is, which is faster on a local network. ok is false if the client
// accepts neither.
func encodingOf(r *http.Request) (compress, ok bool) {
	header := r.Header.Get("Accept-Encoding")
	if header == "" {
		return false, true
	}
	weights := map[string]float64{}
	for item := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(item, ";")
		coding, weight := strings.ToLower(strings.TrimSpace(coding)), 1.0
		if q, found := strings.CutPrefix(strings.TrimSpace(params), "q="); found {
			var err error
			if weight, err = strconv.ParseFloat(q, 64); err != nil {
				weight = 0
			}
		}
		if coding != "" {
			weights[coding] = weight
		}
	}
	identity, named := weights["identity"]
	if all, any := weights["*"]; any && !named {
		identity, named = all, true
	}
	if named && identity == 0 {
		return weights["gzip"] > 0, weights["gzip"] > 0
	}
	plain := r.Header.Get("Range") == "" && r.Header.Get("If-Range") == "" && r.Header.Get("If-None-Match") == "" && r.Header.Get("If-Modified-Since") == ""
	return plain && weights["gzip"] > 0 && len(weights) == 1, true
}

// upload writes the files of a request.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	err := c.checkFileUser(r)
	var metadata map[string]string
	if err == nil {
		metadata, err = metadataOf(r.Header)
	}
	var body io.Reader
	if err == nil {
		body, err = decoded(r)
	}
	var list []fileInfo
	if err == nil {
		list, err = c.writeFiles(r, body, metadata)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	httplog.WriteJSON(w, http.StatusOK, list)
}

// decoded returns the body of a request without its encoding.
func decoded(r *http.Request) (io.Reader, error) {
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, fmt.Errorf("%w: the body is not gzip: %w", fault.InvalidArgument, err)
		}
		return z, nil
	default:
		return nil, fmt.Errorf("content encoding %.100q: %w: it is gzip or identity", encoding, fault.InvalidArgument)
	}
}

// writeFiles writes the files of a body.
func (c *sandboxCall) writeFiles(r *http.Request, body io.Reader, metadata map[string]string) ([]fileInfo, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	p := r.URL.Query().Get("path")
	switch {
	case err == nil && kind == "application/octet-stream":
		if p == "" {
			return nil, fmt.Errorf("%w: the query has no path", fault.InvalidArgument)
		}
		info, err := c.writeFile(r.Context(), p, body, metadata)
		return []fileInfo{info}, err
	case err != nil || kind != "multipart/form-data" || params["boundary"] == "":
		return nil, fmt.Errorf("content type %.100q: %w: it is multipart/form-data or application/octet-stream", r.Header.Get("Content-Type"), fault.InvalidArgument)
	}
	list := []fileInfo{}
	// The reader of a form reads 4 KiB at a time.
	for form := multipart.NewReader(bufio.NewReaderSize(body, formBuffer), params["boundary"]); ; {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) && len(list) > 0 {
			return list, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: the form has no part \"file\"", fault.InvalidArgument)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the form can't be read: %w", fault.InvalidArgument, err)
		}
		if part.FormName() != "file" {
			continue
		}
		to := p
		if to == "" {
			to = fileName(part)
		}
		if to == "" {
			return nil, fmt.Errorf("%w: neither the query has a path nor the part a file name", fault.InvalidArgument)
		}
		l, err := c.locate(to)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(f fileInfo) bool { return f.Path == l.abs }) {
			return nil, fmt.Errorf("%s: %w: the form has several files for this path; the first was written", l.abs, fault.InvalidArgument)
		}
		info, err := c.writeFile(r.Context(), to, filledReader{part}, metadata)
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
}

const formBuffer = 128 << 10

// A filledReader fills the buffer of each Read. A part of a form gives at most 4 KiB at a time, and
// a read of a body that the workspace writes costs a goroutine.
type filledReader struct{ io.Reader }

func (f filledReader) Read(p []byte) (int, error) {
	n, err := io.ReadFull(f.Reader, p)
	if n > 0 {
		return n, nil // a part gives its error again
	}
	return 0, err
}

// fileName returns the file name of a part with its directories, which multipart.Part
// leaves out.
func fileName(part *multipart.Part) string {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return params["filename"]
}

// A bodyReader remembers the error of a body: the client's, not the sandbox's.
type bodyReader struct {
	io.Reader
	err error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// writeFile creates or replaces a file, and its parent directories.
func (c *sandboxCall) writeFile(ctx context.Context, p string, body io.Reader, metadata map[string]string) (fileInfo, error) {
	l, err := c.locate(p)
	if err != nil {
		return fileInfo{}, err
	}
	b := &bodyReader{Reader: body}
	outside := l.outside
	if !outside {
		_, err = c.Workspace.Write(ctx, l.name, b, &workspace.WriteOptions{Parents: true})
		outside = leavesWorkspace(err)
	}
	if outside {
		if err = c.writeInside(ctx, l.abs, b); err == nil && len(metadata) > 0 {
			err = fmt.Errorf("%s: %w: files outside %s have no metadata", l.abs, fault.Unsupported, c.home())
		}
	} else if err == nil {
		err = c.setMetadata(ctx, l.name, metadata)
	}
	switch {
	case b.err != nil:
		return fileInfo{}, fmt.Errorf("%w: the body can't be read: %w", fault.InvalidArgument, b.err)
	case err != nil && fault.Of(err) == fault.WrongState, fault.Of(err) == fault.NotFound:
		return fileInfo{}, fmt.Errorf("%w: %w", fault.InvalidArgument, err) // a parent is no directory, or the path is one
	case err != nil:
		return fileInfo{}, adviseSpace(err)
	}
	return newFileInfo(l.abs, metadata), nil
}

// compose joins files into one and removes them.
func (s *Server) compose(w http.ResponseWriter, r *http.Request) {
	c, ctx := callOf(r.Context()), r.Context()
	var req struct {
		Sources     []string `json:"source_paths"`
		Destination string   `json:"destination"`
		Username    string   `json:"username"`
	}
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	info, err := c.composeFiles(ctx, req.Sources, req.Destination, req.Username)
	if err != nil {
		writeError(w, err)
		return
	}
	httplog.WriteJSON(w, http.StatusOK, info)
}

func (c *sandboxCall) composeFiles(ctx context.Context, sources []string, destination, user string) (fileInfo, error) {
	if err := c.checkUserName(ctx, user); err != nil {
		return fileInfo{}, err
	}
	const most = 10_000
	if len(sources) == 0 || len(sources) > most || destination == "" {
		return fileInfo{}, fmt.Errorf("%w: source_paths has 1 to %d paths, and destination is not empty", fault.InvalidArgument, most)
	}
	to, err := c.locate(destination)
	if err != nil {
		return fileInfo{}, err
	}
	var from []location
	for _, source := range sources {
		l, err := c.locate(source)
		if err != nil {
			return fileInfo{}, err
		}
		if l.abs == to.abs {
			return fileInfo{}, fmt.Errorf("%s: %w: a source is not the destination", l.abs, fault.InvalidArgument)
		}
		e, err := c.stat(ctx, l, true)
		if err == nil && e.Type != driver.TypeFile {
			err = fmt.Errorf("%s: %w: it is not a regular file", l.abs, fault.InvalidArgument)
		}
		if err != nil {
			return fileInfo{}, err
		}
		from = append(from, l)
	}
	reader, writer := io.Pipe()
	joined := make(chan error, 1)
	go func() { // ends when reader is closed, which is waited for
		var err error
		for _, l := range from {
			if err = c.copyAny(ctx, l, writer); err != nil {
				break
			}
		}
		joined <- err
		writer.CloseWithError(err)
	}()
	info, err := c.writeFile(ctx, destination, reader, nil)
	reader.Close() //nolint:errcheck // it always answers nil
	if copied := <-joined; copied != nil && !errors.Is(copied, io.ErrClosedPipe) {
		return fileInfo{}, copied
	}
	if err != nil {
		return fileInfo{}, err
	}
	for _, l := range from {
		if err := c.remove(ctx, l); err != nil {
			return fileInfo{}, err
		}
	}
	return info, nil
}

// copyAny copies a file of the workspace or of the sandbox.
func (c *sandboxCall) copyAny(ctx context.Context, l location, w io.Writer) error {
	if !l.outside {
		if err := c.copyFile(ctx, l, w); !leavesWorkspace(err) {
			return err
		}
	}
	return c.readInside(ctx, l.abs, w)
}

// readJSON decodes the body of a request.
func readJSON(r *http.Request, v any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, maxMessage)).Decode(v); err != nil {
		return fmt.Errorf("%w: the body is not the JSON that is expected: %w", fault.InvalidArgument, err)
	}
	return nil
}

// envs answers with the environment of every process.
func (s *Server) envs(w http.ResponseWriter, r *http.Request) {
	env := callOf(r.Context()).Env
	if env == nil {
		env = map[string]string{}
	}
	httplog.WriteJSON(w, http.StatusOK, env)
}

// Metadata of files.
const (
	metadataHeader = "X-Metadata-"
	metadataXattr  = "e2b." // after "user."
	maxMetadataKey = 246    // 255 without "user.e2b."
	maxMetadata    = 4096
)

// metadataOf returns the metadata in headers. Its keys are in lower case, because names of
// headers have no case.
func metadataOf(h http.Header) (map[string]string, error) {
	metadata, size := map[string]string{}, 0
	for name, values := range h {
		key, ok := strings.CutPrefix(name, metadataHeader)
		if !ok || len(values) == 0 {
			continue
		}
		key = strings.ToLower(key)
		value := values[len(values)-1]
		size += len(key) + len(value)
		switch {
		case key == "" || len(key) > maxMetadataKey:
			return nil, fmt.Errorf("metadata key of %d bytes: %w: 1 to %d are allowed", len(key), fault.InvalidArgument, maxMetadataKey)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return nil, fmt.Errorf("metadata %q: %w: a value is printable ASCII", key, fault.InvalidArgument)
		case size > maxMetadata:
			return nil, fmt.Errorf("metadata: %w: at most %d bytes are allowed", fault.InvalidArgument, maxMetadata)
		}
		metadata[key] = value
	}
	return metadata, nil
}

// setMetadata replaces the metadata of a file.
func (c *sandboxCall) setMetadata(ctx context.Context, name string, metadata map[string]string) error {
	err := c.Workspace.SetXattrs(ctx, name, metadataXattr, metadata)
	if fault.Of(err) == fault.Unsupported && len(metadata) == 0 {
		return nil
	}
	return err
}

// addMetadata adds the metadata of files of the workspace to entries.
func (c *sandboxCall) addMetadata(ctx context.Context, list []entry) error {
	var names []string
	var at []int // in list
	for i, e := range list {
		if l, err := c.locate(e.abs); err == nil && !l.outside && !e.outside && e.Type == driver.TypeFile {
			names, at = append(names, l.name), append(at, i)
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := c.Workspace.Xattrs(ctx, ".", names, metadataXattr)
	if err != nil {
		return nil //nolint:nilerr // a file system without extended attributes has no metadata
	}
	for i, attrs := range found {
		for key, value := range attrs { // programs inside may set any bytes
			if !utf8.ValidString(key) || !utf8.ValidString(value) {
				delete(attrs, key)
			}
		}
		if len(attrs) > 0 {
			list[at[i]].metadata = attrs
		}
	}
	return nil
}
