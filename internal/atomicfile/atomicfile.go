// Package atomicfile replaces files atomically: it writes a temporary file in the
// same directory and renames it over the target. A reader, and a process that
// starts after a crash, sees the old content or the new one, never a part.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Options say how a file is replaced. The zero value is mode 0600, not durable.
type Options struct {
	Mode fs.FileMode // of the file, whatever the umask; 0 is 0600

	// Durable calls fsync on the file before the rename and on the directory after
	// it: the new content survives a power loss once the call returns.
	Durable bool

	// Temp is the path of the temporary file, in the directory of the target. Set it
	// where only one process writes at a time (it holds a lock): what a crash leaves
	// is then overwritten by the next call. Empty is ".NAME.tmp-RANDOM".
	Temp string
}

// Write replaces the content of the file at path.
func Write(path string, data []byte, opts Options) error {
	return WriteTo(path, opts, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	})
}

// WriteTo is Write for content that fill writes. Where fill fails, the old content
// stays and no temporary file is left.
func WriteTo(path string, opts Options, fill func(io.Writer) error) error {
	if opts.Mode == 0 {
		opts.Mode = 0o600
	}
	f, err := create(path, opts)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Chmod(opts.Mode)
	}
	if err == nil && opts.Durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if opts.Durable {
		return SyncDir(filepath.Dir(path))
	}
	return nil
}

func create(path string, opts Options) (*os.File, error) {
	if opts.Temp != "" {
		if filepath.Dir(opts.Temp) != filepath.Dir(path) {
			return nil, fmt.Errorf("atomicfile: temporary file %s is not in the directory of %s", opts.Temp, path)
		}
		return os.OpenFile(opts.Temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, opts.Mode)
	}
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
}

// SyncDir calls fsync on a directory, so that names created, renamed and removed in
// it survive a power loss. Windows has no such call.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
