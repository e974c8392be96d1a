package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// infoHeader carries the Info of a file that is read.
const infoHeader = "Croft-Info"

// files is the FS module of one workspace.
type files struct{ module }

// filesModule builds the module. Functions that the server implements for every provider
// are always set; the others only if the workspace's provider has them.
func (c *Client) filesModule(ws Workspace) *driver.FS {
	f := &files{module{c, ws.ID}}
	out := &driver.FS{
		Files: f,
		List:  f.listDir, Edit: f.editFile, Rename: f.renamePath, Copy: f.copyPath, Glob: f.globPaths, Grep: f.grepFiles, Digest: f.digestPath, Import: f.importDir,
	}
	if slices.Contains(ws.Functions, "chmod") {
		out.Chmod = f.setMode
	}
	if slices.Contains(ws.Functions, "symlink") {
		out.Symlink = f.makeSymlink
	}
	if slices.Contains(ws.Functions, "watch") {
		out.Watch = f.watch
	}
	return out
}

// params is the query of a route. Zero values are not sent.
type params struct{ url.Values }

func pathQuery(path string) params { return params{url.Values{"path": {path}}} }

func (p params) text(key, value string) params {
	setParam(p.Values, key, value)
	return p
}

func (p params) flag(key string, value bool) params {
	if value {
		p.Set(key, "true")
	}
	return p
}

func (p params) number(key string, value int64) params {
	if value != 0 {
		p.Set(key, strconv.FormatInt(value, 10))
	}
	return p
}

func (p params) mode(mode fs.FileMode) params {
	if mode != 0 {
		p.Set("mode", strconv.FormatUint(uint64(mode), 8))
	}
	return p
}

func (f *files) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	return callRoute[driver.Info](ctx, f.module, http.MethodGet, "/stat", pathQuery(name).flag("nofollow", opts.NoFollow).flag("digest", opts.Digest).flag("changeToken", opts.ChangeToken))
}

func (f *files) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	return callRouteField[[]driver.Info](ctx, f.module, "/readdir", "entries", pathQuery(name))
}

func (f *files) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	return f.open(ctx, "/files", name, pathQuery(name).number("offset", opts.Offset).number("limit", opts.Limit))
}

// content is the body of an answer. Its read errors have a fault code.
type content struct {
	io.ReadCloser
	ctx context.Context // of the call that opened the body
	c   *Client
}

func (b *content) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.c.transportError(b.ctx, err)
	}
	return n, err
}

func (f *files) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	p := pathQuery(name).mode(opts.Mode).flag("setmode", opts.SetMode).flag("parents", opts.Parents).
		flag("inplace", opts.InPlace).flag("sync", opts.Sync).number("max", opts.MaxSize)
	if !opts.ModTime.IsZero() {
		p.Set("mtime", opts.ModTime.Format(time.RFC3339Nano))
	}
	h := http.Header{"Content-Type": {"application/octet-stream"}}
	if opts.IfMatch != "" {
		h.Set("If-Match", `"`+opts.IfMatch+`"`)
	}
	if opts.CreateOnly {
		h.Set("If-None-Match", "*")
	}
	up := newUpload(ctx, name, body, opts.MaxSize)
	out, err := get[driver.WriteResult](ctx, f.c, request{method: http.MethodPut, path: workspacePath(f.id, "/files"), query: p.Values, header: h, body: up})
	if cause := up.stop(ctx); cause != nil && err != nil {
		return driver.WriteResult{}, cause // the error of the transport does not have the cause
	}
	return out, evictedError(err)
}

func (f *files) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return f.callNoAnswer(ctx, http.MethodPost, "/mkdir", pathQuery(name).flag("parents", opts.Parents).mode(opts.Mode))
}

func (f *files) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return f.callNoAnswer(ctx, http.MethodDelete, "/files", pathQuery(name).flag("recursive", opts.Recursive))
}

func (f *files) listDir(ctx context.Context, name string, opts *driver.ListOptions) (driver.Listing, error) {
	return callRoute[driver.Listing](ctx, f.module, http.MethodGet, "/list",
		pathQuery(name).number("depth", int64(opts.Depth)).number("limit", int64(opts.Limit)).text("after", opts.After).flag("changeToken", opts.ChangeToken))
}

func (f *files) editFile(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (driver.EditResult, error) {
	body := map[string]any{"edits": edits, "ifMatch": opts.IfMatch, "sync": opts.Sync}
	return postRoute[driver.EditResult](ctx, f.module, "/edit", pathQuery(name), body)
}

func (f *files) renamePath(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	p := params{url.Values{"from": {from}, "to": {to}}}
	return f.callNoAnswer(ctx, http.MethodPost, "/rename", p.flag("createonly", opts.CreateOnly).flag("parents", opts.Parents))
}

func (f *files) copyPath(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
	p := params{url.Values{"from": {from}, "to": {to}}}
	return f.callNoAnswer(ctx, http.MethodPost, "/copy",
		p.flag("recursive", opts.Recursive).flag("createonly", opts.CreateOnly).flag("parents", opts.Parents))
}

func (f *files) setMode(ctx context.Context, name string, mode fs.FileMode) error {
	return f.callNoAnswer(ctx, http.MethodPost, "/chmod", pathQuery(name).text("mode", strconv.FormatUint(uint64(mode), 8)))
}

func (f *files) makeSymlink(ctx context.Context, target, name string) error {
	return f.callNoAnswer(ctx, http.MethodPost, "/symlink", pathQuery(name).text("to", target))
}

func (f *files) digestPath(ctx context.Context, name string) (string, error) {
	return callRouteField[string](ctx, f.module, "/digest", "digest", pathQuery(name))
}

func (f *files) globPaths(ctx context.Context, pattern string, opts *driver.GlobOptions) (driver.GlobResult, error) {
	return callRoute[driver.GlobResult](ctx, f.module, http.MethodGet, "/glob", pathQuery(opts.Path).text("pattern", pattern).
		flag("gitignore", opts.GitIgnore).flag("hidden", opts.Hidden).flag("dirs", opts.Dirs).flag("stat", opts.Stat).
		number("limit", int64(opts.Limit)))
}

func (f *files) grepFiles(ctx context.Context, pattern string, opts *driver.GrepOptions) (driver.GrepResult, error) {
	p := pathQuery(opts.Path).text("pattern", pattern).flag("literal", opts.Literal).flag("ignorecase", opts.IgnoreCase).
		flag("multiline", opts.Multiline).flag("gitignore", opts.GitIgnore).flag("hidden", opts.Hidden).
		number("before", int64(opts.Before)).number("after", int64(opts.After)).
		number("maxperfile", int64(opts.MaxPerFile)).number("maxmatches", int64(opts.MaxMatches)).
		number("maxfilesize", opts.MaxFileSize)
	if opts.MaxTime != 0 {
		p.Set("maxtime", opts.MaxTime.String())
	}
	p.Values["include"], p.Values["exclude"] = opts.Include, opts.Exclude
	return callRoute[driver.GrepResult](ctx, f.module, http.MethodGet, "/grep", p)
}
