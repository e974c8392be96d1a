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

// fs builds the module. What the server makes up for where its provider lacks it
// is always there; the rest only where the provider has it.
func (c *Client) fs(ws Workspace) *driver.FS {
	f := &files{module{c, ws.ID}}
	out := &driver.FS{
		Files: f,
		List:  f.list, Edit: f.edit, Rename: f.rename, Copy: f.copy, Glob: f.glob, Grep: f.grep, Digest: f.digest, Import: f.importDir,
	}
	if slices.Contains(ws.Functions, "chmod") {
		out.Chmod = f.chmod
	}
	if slices.Contains(ws.Functions, "symlink") {
		out.Symlink = f.symlink
	}
	if slices.Contains(ws.Functions, "watch") {
		out.Watch = f.watch
	}
	return out
}

// params is a query of a route: only what differs from its zero is sent.
type params struct{ url.Values }

func query(path string) params { return params{url.Values{"path": {path}}} }

func (p params) text(key, value string) params {
	set(p.Values, key, value)
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
	return ask[driver.Info](ctx, f.module, http.MethodGet, "/stat", query(name).flag("nofollow", opts.NoFollow).flag("digest", opts.Digest).flag("mark", opts.Mark))
}

func (f *files) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	return askField[[]driver.Info](ctx, f.module, "/readdir", "entries", query(name))
}

func (f *files) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	return f.open(ctx, "/files", name, query(name).number("offset", opts.Offset).number("limit", opts.Limit))
}

// content is the body of an answer; where it breaks, the error has a code.
type content struct {
	io.ReadCloser
	ctx context.Context // of the call that opened it, as the body is
	c   *Client
}

func (b *content) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.c.unreachable(b.ctx, err)
	}
	return n, err
}

func (f *files) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	p := query(name).mode(opts.Mode).flag("setmode", opts.SetMode).flag("parents", opts.Parents).
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
	out, err := get[driver.WriteResult](ctx, f.c, request{method: http.MethodPut, path: at(f.id, "/files"), query: p.Values, header: h, body: up})
	if cause := up.stop(ctx); cause != nil && err != nil {
		return driver.WriteResult{}, cause // the transport only says that the body failed
	}
	return out, evicted(err)
}

func (f *files) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return f.do(ctx, http.MethodPost, "/mkdir", query(name).flag("parents", opts.Parents).mode(opts.Mode))
}

func (f *files) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return f.do(ctx, http.MethodDelete, "/files", query(name).flag("recursive", opts.Recursive))
}

func (f *files) list(ctx context.Context, name string, opts *driver.ListOptions) (driver.Listing, error) {
	return ask[driver.Listing](ctx, f.module, http.MethodGet, "/list",
		query(name).number("depth", int64(opts.Depth)).number("limit", int64(opts.Limit)).text("after", opts.After).flag("mark", opts.Mark))
}

func (f *files) edit(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (driver.EditResult, error) {
	body := map[string]any{"edits": edits, "ifMatch": opts.IfMatch, "sync": opts.Sync}
	return post[driver.EditResult](ctx, f.module, "/edit", query(name), body)
}

func (f *files) rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	p := params{url.Values{"from": {from}, "to": {to}}}
	return f.do(ctx, http.MethodPost, "/rename", p.flag("createonly", opts.CreateOnly).flag("parents", opts.Parents))
}

func (f *files) copy(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
	p := params{url.Values{"from": {from}, "to": {to}}}
	return f.do(ctx, http.MethodPost, "/copy",
		p.flag("recursive", opts.Recursive).flag("createonly", opts.CreateOnly).flag("parents", opts.Parents))
}

func (f *files) chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return f.do(ctx, http.MethodPost, "/chmod", query(name).text("mode", strconv.FormatUint(uint64(mode), 8)))
}

func (f *files) symlink(ctx context.Context, target, name string) error {
	return f.do(ctx, http.MethodPost, "/symlink", query(name).text("to", target))
}

func (f *files) digest(ctx context.Context, name string) (string, error) {
	return askField[string](ctx, f.module, "/digest", "digest", query(name))
}

func (f *files) glob(ctx context.Context, pattern string, opts *driver.GlobOptions) (driver.GlobResult, error) {
	return ask[driver.GlobResult](ctx, f.module, http.MethodGet, "/glob", query(opts.Path).text("pattern", pattern).
		flag("gitignore", opts.GitIgnore).flag("hidden", opts.Hidden).flag("dirs", opts.Dirs).flag("stat", opts.Stat).
		number("limit", int64(opts.Limit)))
}

func (f *files) grep(ctx context.Context, pattern string, opts *driver.GrepOptions) (driver.GrepResult, error) {
	p := query(opts.Path).text("pattern", pattern).flag("literal", opts.Literal).flag("ignorecase", opts.IgnoreCase).
		flag("multiline", opts.Multiline).flag("gitignore", opts.GitIgnore).flag("hidden", opts.Hidden).
		number("before", int64(opts.Before)).number("after", int64(opts.After)).
		number("maxperfile", int64(opts.MaxPerFile)).number("maxmatches", int64(opts.MaxMatches)).
		number("maxfilesize", opts.MaxFileSize)
	if opts.MaxTime != 0 {
		p.Set("maxtime", opts.MaxTime.String())
	}
	p.Values["include"], p.Values["exclude"] = opts.Include, opts.Exclude
	return ask[driver.GrepResult](ctx, f.module, http.MethodGet, "/grep", p)
}
