package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
)

// hashedDir is the directory of assets whose names have a hash of their content.
const hashedDir = "/assets/"

// An asset is a file of the page.
type asset struct {
	path string
	load func() (*loaded, error) // once
}

// A loaded asset is in memory, plain and compressed.
type loaded struct {
	plain, packed []byte // packed is nil where it would not be smaller
	tag           string
}

// findAssets returns the files of the page by path. They are read when they are first asked for.
func findAssets(files fs.FS) (map[string]*asset, error) {
	out := map[string]*asset{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		at := "/" + name
		if name == "index.html" {
			at = "/"
		}
		out[at] = &asset{path: "/" + name, load: sync.OnceValues(func() (*loaded, error) { return loadAsset(files, name) })}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("assets: %w: %w", fault.Internal, err)
	}
	if out["/"] == nil {
		return nil, fmt.Errorf("assets: %w: they have no index.html; go generate ./internal/web builds them", fault.InvalidArgument)
	}
	return out, nil
}

func loadAsset(files fs.FS, name string) (*loaded, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("asset %s: %w: %w", name, fault.Internal, err)
	}
	sum := sha256.Sum256(data)
	a := &loaded{plain: data, tag: hex.EncodeToString(sum[:12])}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w: %w", name, fault.Internal, err)
	}
	if packed.Len() < len(data) {
		a.packed = packed.Bytes()
	}
	return a, nil
}

// contentTypes are the types of the page's files, whatever the host's tables say.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".json": "application/json", ".map": "application/json", ".txt": "text/plain; charset=utf-8", ".woff2": "font/woff2", ".png": "image/png",
	".ico": "image/x-icon", ".webmanifest": "application/manifest+json", ".wasm": "application/wasm",
}

func contentType(name string) string {
	ext := path.Ext(name)
	if t := contentTypes[ext]; t != "" {
		return t
	}
	if t := mime.TypeByExtension(ext); t != "" {
		return t
	}
	return "application/octet-stream"
}

func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request, a *asset) {
	if err := s.cfg.Guard.CheckHost(r.Host); err != nil {
		s.writeError(w, err)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeJSON(w, http.StatusMethodNotAllowed, map[string]fault.Wire{"error": fault.Encode(
			fmt.Errorf("%.20s %s: %w: the route takes GET", r.Method, r.URL.Path, fault.InvalidArgument))})
		return
	}
	file, err := a.load()
	if err != nil {
		s.writeError(w, err)
		return
	}
	data, tag := file.plain, file.tag
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	if file.packed != nil && acceptsGzip(r) {
		data, tag = file.packed, file.tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	tag = `"` + tag + `"`
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache") // ask whether it changed
	if strings.HasPrefix(a.path, hashedDir) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == tag {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", contentType(a.path))
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		w.Write(data) //nolint:errcheck // the client is gone
	}
}

// acceptsGzip reports whether a client takes gzip.
func acceptsGzip(r *http.Request) bool {
	for _, item := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(item), ";")
		if name == "gzip" {
			q, given := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			weight, err := strconv.ParseFloat(q, 64)
			return !given || err == nil && weight > 0
		}
	}
	return false
}
