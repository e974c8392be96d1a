package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// maxRead bounds the size of a file that a suite can read.
const maxRead = 64 << 20

// fileModule is the backend of node:fs: host directories, each a files.Root that is
// opened at its first use, and the workspace of the execution. It prevents access to other
// paths, also through symlinks. It belongs to the goroutine of its engine.
type fileModule struct {
	dirs  []string
	roots map[string]*files.Root
}

func newFiles(dirs []string) *fileModule {
	f := &fileModule{roots: map[string]*files.Root{}}
	for _, dir := range dirs {
		if dir != "" {
			f.dirs = append(f.dirs, filepath.Clean(dir))
		}
	}
	return f
}

func (f *fileModule) close() error {
	var errs []error
	for _, root := range f.roots {
		errs = append(errs, root.Close())
	}
	return errors.Join(errs...)
}

// A fileError is an error in Node's wording: ENOENT: no such file or directory, open
// '/x'.
type fileError struct {
	errno, op, path string
	code            fault.Code
	text            string
}

func (e *fileError) Error() string {
	if e.errno == "" {
		return fmt.Sprintf("%s: %s, %s '%s'", e.code.Wire(), e.text, e.op, e.path)
	}
	return fmt.Sprintf("%s: %s, %s '%s'", e.errno, e.text, e.op, e.path)
}

func (e *fileError) Unwrap() error { return e.code }

// nodeErrors are the errno and Node's message of each code.
var nodeErrors = map[fault.Code][2]string{
	fault.NotFound:          {"ENOENT", "no such file or directory"},
	fault.AlreadyExists:     {"EEXIST", "file already exists"},
	fault.PermissionDenied:  {"EACCES", "permission denied"},
	fault.InvalidArgument:   {"EINVAL", "invalid argument"},
	fault.ResourceExhausted: {"ENOSPC", "no space left on device"},
}

func newFileError(op, path string, err error) error {
	code := fault.Of(err)
	e := &fileError{op: op, path: path, code: code}
	switch named, ok := nodeErrors[code]; {
	case ok:
		e.errno, e.text = named[0], named[1]
		if code == fault.InvalidArgument && strings.Contains(err.Error(), "directory") {
			e.errno, e.text = "EISDIR", "illegal operation on a directory"
		}
	case code == fault.SandboxViolation:
		e.text = "a suite may use only files below its directory, its configuration's and its run's"
	default:
		e.text = err.Error()
	}
	return e
}

// findRoot returns the root that contains a path, and the name inside it.
func (f *fileModule) findRoot(path string, info *EnvInfo) (Files, string, error) {
	if !filepath.IsAbs(path) {
		cwd, err := os.Getwd()
		if err != nil {
			return nil, "", err
		}
		path = filepath.Join(cwd, path)
	}
	path = filepath.Clean(path)
	best, name := "", ""
	for _, dir := range slices.Concat([]string{info.Workspace, info.Root, info.OutputDir, info.ArtifactDir}, f.dirs) {
		rel, err := filepath.Rel(filepath.Clean(dir), path)
		if dir == "" || err != nil || rel == ".." || strings.HasPrefix(rel, "../") || len(dir) < len(best) {
			continue
		}
		best, name = filepath.Clean(dir), filepath.ToSlash(rel)
	}
	if best == "" {
		return nil, "", fault.SandboxViolation
	}
	if info.Files != nil && (best == info.Workspace || best == info.Root) {
		return info.Files, name, nil
	}
	root, ok := f.roots[best]
	if !ok {
		var err error
		if root, err = files.Open(best, nil); err != nil {
			return nil, "", err
		}
		f.roots[best] = root
	}
	return root, name, nil
}

// fileCall runs one operation of node:fs.
func (v *vm) fileCall(op, path string, arg, opts goja.Value) goja.Value {
	ex := v.current
	if ex == nil || ex.ctx == nil {
		panic(v.toJSError(fmt.Errorf("suite: use a file: %w: no execution is under way", fault.WrongState)))
	}
	root, name, err := v.files.findRoot(path, &ex.info)
	if err == nil {
		var out goja.Value
		c := fileOp{v: v, ctx: ex.ctx, root: root, name: name, arg: arg, opts: opts}
		if op == "rename" {
			out, err = c.rename(v.files.findRoot(arg.String(), &ex.info))
		} else {
			out, err = c.runOp(op)
		}
		if err == nil {
			return out
		}
	}
	panic(v.toJSError(newFileError(op, path, err)))
}

// A fileOp is one operation on one path.
type fileOp struct {
	v         *vm
	ctx       context.Context
	root      Files
	name      string
	arg, opts goja.Value
}

func (c *fileOp) getOption(name string) goja.Value {
	if o, ok := c.opts.(*goja.Object); ok {
		if value := o.Get(name); value != nil {
			return value
		}
	}
	return goja.Undefined()
}

func (c *fileOp) runOp(op string) (goja.Value, error) {
	switch op {
	case "open":
		return c.read()
	case "write":
		return goja.Undefined(), c.write()
	case "stat", "lstat", "access":
		info, err := c.root.Stat(c.ctx, c.name, &driver.StatOptions{NoFollow: op == "lstat"})
		if err != nil {
			return nil, err
		}
		return c.v.rt.ToValue(statObject(info)), nil
	case "mkdir":
		err := c.root.Mkdir(c.ctx, c.name, &driver.MkdirOptions{Parents: c.getOption("recursive").ToBoolean()})
		return goja.Undefined(), err
	case "scandir":
		return c.list()
	case "rm":
		err := c.root.Remove(c.ctx, c.name, &driver.RemoveOptions{Recursive: c.getOption("recursive").ToBoolean()})
		if errors.Is(err, fault.NotFound) && c.getOption("force").ToBoolean() {
			err = nil
		}
		return goja.Undefined(), err
	}
	return nil, fmt.Errorf("%w: %s is not known", fault.Unsupported, op)
}

// rename renames a file or directory; false if the new name has another root.
func (c *fileOp) rename(root Files, name string, err error) (goja.Value, error) {
	if err != nil || root != c.root {
		return c.v.rt.ToValue(false), err
	}
	return c.v.rt.ToValue(true), c.root.Rename(c.ctx, c.name, name, nil)
}

// statObject is the data of Node's Stats.
func statObject(info driver.Info) map[string]any {
	return map[string]any{"kind": string(info.Type), "size": info.Size, "mode": uint32(info.Mode.Perm()), "mtimeMs": float64(info.ModTime.UnixNano()) / float64(time.Millisecond)}
}

func (c *fileOp) read() (goja.Value, error) {
	r, _, err := c.root.Read(c.ctx, c.name, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxRead+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxRead {
		return nil, fmt.Errorf("%w: the file is larger than %d bytes", fault.ResourceExhausted, maxRead)
	}
	if c.getOption("text").ToBoolean() {
		return c.v.rt.ToValue(strings.ToValidUTF8(string(data), "\uFFFD")), nil
	}
	return c.v.rt.ToValue(c.v.rt.NewArrayBuffer(data)), nil
}

func (c *fileOp) write() error {
	data, err := bytesOf(c.arg)
	if err != nil {
		return err
	}
	if c.getOption("append").ToBoolean() {
		old, err := c.read()
		switch {
		case err == nil:
			before, _ := bytesOf(old)
			data = append(bytes.Clone(before), data...)
		case !errors.Is(err, fault.NotFound):
			return err
		}
	}
	_, err = c.root.Write(c.ctx, c.name, bytes.NewReader(data), &driver.WriteOptions{
		CreateOnly: c.getOption("exclusive").ToBoolean(),
		Mode:       fs.FileMode(c.getOption("mode").ToInteger()) & 0o777 &^ 0o022, // of a new file
	})
	return err
}

// bytesOf returns a text, or the bytes of a buffer.
func bytesOf(v goja.Value) ([]byte, error) {
	switch x := v.Export().(type) {
	case string:
		return []byte(x), nil
	case []byte:
		return x, nil
	case goja.ArrayBuffer:
		return x.Bytes(), nil
	}
	return nil, fmt.Errorf("%w: the data must be a string or a buffer", fault.InvalidArgument)
}

func (c *fileOp) list() (goja.Value, error) {
	entries, err := c.root.ReadDir(c.ctx, c.name)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(entries))
	for i, e := range entries {
		s := statObject(e)
		s["name"] = filepath.Base(e.Path)
		out[i] = s
	}
	return c.v.rt.ToValue(out), nil
}
