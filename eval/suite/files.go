package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// maxRead bounds the size of a file that a suite can read.
const maxRead = 64 << 20

// fileModule is the backend of node:fs: host directories, each a files.Root that is
// opened at its first use, and the workspace of the execution. It prevents access to other
// paths, also through symlinks.
type fileModule struct {
	dirs []string

	mu    sync.Mutex
	roots map[string]*files.Root // guarded by mu
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
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, root := range f.roots {
		errs = append(errs, root.Close())
	}
	clear(f.roots)
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
	f.mu.Lock()
	defer f.mu.Unlock()
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

// A fileOp is one operation of node:fs on one path.
type fileOp struct {
	op, path string
	arg      fileData
	opts     struct {
		Recursive, Force, Text, Append, Exclusive bool
		Mode                                      fs.FileMode
	}

	ctx  context.Context
	root Files
	name string // of the path below root
}

// fileData is text, or bytes as {bytes: base64}.
type fileData struct {
	Bytes []byte `json:"bytes"`
}

// UnmarshalJSON reads either form.
func (d *fileData) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text != nil {
			d.Bytes = []byte(*text)
		}
		return nil
	}
	type plain fileData
	return json.Unmarshal(raw, (*plain)(d))
}

// run runs one operation for an execution.
func (f *fileModule) run(ex *execution, c *fileOp) (any, error) {
	var err error
	c.ctx = ex.ctx
	if c.root, c.name, err = f.findRoot(c.path, &ex.info); err == nil {
		var out any
		if c.op == "rename" {
			out, err = c.rename(f.findRoot(string(c.arg.Bytes), &ex.info))
		} else {
			out, err = c.run()
		}
		if err == nil {
			return out, nil
		}
	}
	return nil, newFileError(c.op, c.path, err)
}

func (c *fileOp) run() (any, error) {
	switch c.op {
	case "open":
		data, err := c.read()
		if err != nil || !c.opts.Text {
			return fileData{data}, err
		}
		return strings.ToValidUTF8(string(data), "\uFFFD"), nil
	case "write":
		return nil, c.write()
	case "stat", "lstat", "access":
		info, err := c.root.Stat(c.ctx, c.name, &driver.StatOptions{NoFollow: c.op == "lstat"})
		return newFileStat(info), err
	case "mkdir":
		return nil, c.root.Mkdir(c.ctx, c.name, &driver.MkdirOptions{Parents: c.opts.Recursive})
	case "scandir":
		return c.list()
	case "rm":
		err := c.root.Remove(c.ctx, c.name, &driver.RemoveOptions{Recursive: c.opts.Recursive})
		if errors.Is(err, fault.NotFound) && c.opts.Force {
			err = nil
		}
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s is not known", fault.Unsupported, c.op)
}

// rename renames a file or directory; false if the new name has another root.
func (c *fileOp) rename(root Files, name string, err error) (bool, error) {
	if err != nil || root != c.root {
		return false, err
	}
	return true, c.root.Rename(c.ctx, c.name, name, nil)
}

// A fileStat is the data of Node's Stats and Dirent.
type fileStat struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	Size    int64   `json:"size"`
	Mode    uint32  `json:"mode"`
	MtimeMs float64 `json:"mtimeMs"`
}

func newFileStat(info driver.Info) fileStat {
	return fileStat{filepath.Base(info.Path), string(info.Type), info.Size, uint32(info.Mode.Perm()),
		float64(info.ModTime.UnixNano()) / float64(time.Millisecond)}
}

func (c *fileOp) read() ([]byte, error) {
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
	return data, nil
}

func (c *fileOp) write() error {
	data := c.arg.Bytes
	if c.opts.Append {
		old, err := c.read()
		if err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
		data = append(old, data...)
	}
	_, err := c.root.Write(c.ctx, c.name, bytes.NewReader(data), &driver.WriteOptions{
		CreateOnly: c.opts.Exclusive,
		Mode:       c.opts.Mode & 0o777 &^ 0o022, // of a new file
	})
	return err
}

func (c *fileOp) list() (any, error) {
	entries, err := c.root.ReadDir(c.ctx, c.name)
	if err != nil {
		return nil, err
	}
	out := make([]fileStat, len(entries))
	for i, e := range entries {
		out[i] = newFileStat(e)
	}
	return out, nil
}
