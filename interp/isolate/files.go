package isolate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// fileRequest has the arguments of a file operation of a script.
type fileRequest struct {
	Path       string      `json:"path"`
	To         string      `json:"to"`
	Mode       fs.FileMode `json:"mode"`
	Recursive  bool        `json:"recursive"`
	NoFollow   bool        `json:"noFollow"`
	CreateOnly bool        `json:"createOnly"`
}

// fileCall runs one file operation. It returns bytes, or JSON: {"ok": ...} or {"error":
// {"kind", "message"}}.
func (r *scriptRun) fileCall(ctx context.Context, op, args string, body argument) any {
	var q fileRequest
	v, err := any(nil), json.Unmarshal([]byte(args), &q)
	if err != nil {
		err = fmt.Errorf("fs %s: %w: %w", op, fault.InvalidArgument, err)
	} else {
		v, err = r.fileOperation(ctx, op, q, body)
	}
	if data, ok := v.([]byte); ok && err == nil {
		r.touched = true
		return data
	}
	answer := map[string]any{"ok": v}
	if err == nil {
		r.touched = true
	} else {
		if fault.Of(err) == fault.Evicted && !r.touched {
			// The script had no effect yet, so the whole run may be repeated.
			r.evicted = err
			panic(err)
		}
		answer = map[string]any{"error": map[string]string{"kind": fault.Of(err).Kind(), "message": err.Error()}}
	}
	text, _ := json.Marshal(answer) // strings, numbers and lists of them
	return string(text)
}

func (r *scriptRun) fileOperation(ctx context.Context, op string, q fileRequest, body argument) (any, error) {
	if op == "glob" {
		return r.globFiles(ctx, q.Path)
	}
	name, err := r.cleanName(q.Path, r.dir)
	if err != nil {
		return nil, err
	}
	switch op {
	case "read":
		return r.readFile(ctx, name)
	case "write":
		data := body.data
		if !body.bytes {
			data = []byte(body.text)
		}
		_, err := r.files.Write(ctx, name, bytes.NewReader(data), &driver.WriteOptions{Mode: q.Mode, CreateOnly: q.CreateOnly, Parents: true})
		return nil, err
	case "stat":
		info, err := r.files.Stat(ctx, name, &driver.StatOptions{NoFollow: q.NoFollow})
		return infoFields(info), err
	case "list":
		infos, err := r.files.ReadDir(ctx, name)
		list := make([]map[string]any, 0, len(infos))
		for _, i := range infos {
			list = append(list, infoFields(i))
		}
		return list, err
	case "mkdir":
		return nil, r.files.Mkdir(ctx, name, &driver.MkdirOptions{Parents: q.Recursive})
	case "remove":
		return nil, r.files.Remove(ctx, name, &driver.RemoveOptions{Recursive: q.Recursive})
	case "rename":
		return nil, r.renameFile(ctx, name, q.To)
	}
	return nil, fmt.Errorf("fs %s: %w", op, fault.Unsupported)
}

func infoFields(i driver.Info) map[string]any {
	return map[string]any{"path": i.Path, "name": i.Name(), "type": i.Type, "size": i.Size, "mode": i.Mode.Perm(), "mtimeMs": i.ModTime.UnixMilli()}
}

// cleanName converts a path of a script, relative to dir, to a name of the driver
// contract.
func (r *scriptRun) cleanName(p, dir string) (string, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", fmt.Errorf("path %q: %w: a path has no NUL byte", p, fault.InvalidArgument)
	}
	rel := path.Join(dir, p)
	if strings.HasPrefix(p, "/") {
		clean := path.Clean(p)
		root := path.Clean("/" + r.opts.Root)
		rest, ok := strings.CutPrefix(clean, root)
		if !ok || root != "/" && rest != "" && rest[0] != '/' {
			return "", fmt.Errorf("path %q is outside the workspace: %w", p, fault.SandboxViolation)
		}
		rel = path.Clean(strings.TrimLeft(rest, "/"))
	}
	if !driver.ValidName(rel) {
		return "", fmt.Errorf("path %q is outside the workspace: %w", p, fault.SandboxViolation)
	}
	return rel, nil
}

// readFile reads a file if it fits into an isolate.
func (r *scriptRun) readFile(ctx context.Context, name string) ([]byte, error) {
	limit := r.opts.Memory / 4
	body, info, err := r.files.Read(ctx, name, &driver.ReadOptions{Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("read %s: %w: the file has %d bytes; a script can read at most %d", name, fault.ResourceExhausted, info.Size, limit)
	}
	return data, err
}

func (r *scriptRun) renameFile(ctx context.Context, from, to string) error {
	to, err := r.cleanName(to, r.dir)
	if err != nil {
		return err
	}
	if r.files.Rename != nil {
		return r.files.Rename(ctx, from, to, &driver.RenameOptions{Parents: true})
	}
	data, err := r.readFile(ctx, from)
	if err != nil {
		return err
	}
	if _, err := r.files.Write(ctx, to, bytes.NewReader(data), &driver.WriteOptions{Parents: true}); err != nil {
		return err
	}
	return r.files.Remove(ctx, from, &driver.RemoveOptions{})
}

// maxGlob bounds the matches of one glob of a script.
const maxGlob = 10_000

func (r *scriptRun) globFiles(ctx context.Context, pattern string) (any, error) {
	opts := &driver.GlobOptions{Limit: maxGlob}
	if r.dir != "." {
		opts.Path = r.dir
	}
	find := r.files.Glob
	if find == nil {
		find = func(ctx context.Context, pattern string, opts *driver.GlobOptions) (driver.GlobResult, error) {
			return search.GlobFiles(ctx, r.files.Files, pattern, opts)
		}
	}
	res, err := find(ctx, pattern, opts)
	names := make([]string, 0, len(res.Entries))
	for _, i := range res.Entries {
		names = append(names, strings.TrimPrefix(i.Path, opts.Path+"/"))
	}
	return names, err
}
