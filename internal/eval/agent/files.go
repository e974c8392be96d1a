package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
)

// maxFile bounds the size of a file of an agent that is read.
const maxFile = 256 << 20

// An agentDir is a directory that the agent can write to at the same time. os.Root keeps
// every path inside the directory, also through symlinks, and O_NONBLOCK prevents that a
// FIFO blocks the reader.
type agentDir struct {
	root *os.Root
	name string
	user userFiles // what openHome copied
}

// userFiles are copies of files of the user in an agent's home.
type userFiles struct {
	names   []string       // below the directory of the home
	secrets []secret.Value // in them
}

// openDir makes a directory, if it does not exist, and opens it.
func openDir(name string) (*agentDir, error) {
	if !filepath.IsAbs(name) {
		return nil, fmt.Errorf("agent: open %q: %w: the path is not absolute", name, fault.InvalidArgument)
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("agent: make %s: %w", name, err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("agent: open %s: %w", name, err)
	}
	return &agentDir{root: root, name: name}, nil
}

func (d *agentDir) Close() error { return d.root.Close() }

func (d *agentDir) path(name string) string { return filepath.Join(d.name, name) }

// openHome opens the directory of an agent's home, and makes the given homes in it. Files of
// the user are copied from the directory from, below the user's home, to the first one; Run
// removes them after the session. The caller closes it.
func (in Input) openHome(from string, files []string, homes ...string) (*agentDir, error) {
	d, err := openDir(in.homeDir())
	if err != nil {
		return nil, err
	}
	if err = d.makeDirs(homes...); err == nil && in.UserHome != "" {
		err = d.copyFiles(filepath.Join(in.UserHome, from), homes[0], files...)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// read returns a regular file.
func (d *agentDir) read(name string) ([]byte, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("agent: read %s: %w", d.path(name), err)
	}
	defer f.Close()
	return readRegular(f, d.path(name))
}

func readRegular(f fs.File, name string) ([]byte, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("agent: read %s: %w: it is no regular file", name, fault.InvalidArgument)
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	}
	if err != nil {
		return nil, fmt.Errorf("agent: read %s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("agent: read %s: %w: it has more than %d bytes", name, fault.ResourceExhausted, maxFile)
	}
	return data, nil
}

// write writes a file, replaces an entry of the same name, and makes parent directories.
func (d *agentDir) write(name string, data []byte, mode fs.FileMode) error {
	f, err := d.createFile(name, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("agent: write %s: %w", d.path(name), err)
	}
	return nil
}

// linkLog makes a hard link to the log of the standard output. It reports whether the
// link leads to the log: the agent may have replaced the log.
func (d *agentDir) linkLog(log fs.FileInfo, name string) bool {
	if log == nil || d.root.RemoveAll(name) != nil || d.root.Link(stdoutName, name) != nil {
		return false
	}
	info, err := d.root.Lstat(name)
	return err == nil && os.SameFile(info, log)
}

// stdoutName is the log of the standard output.
const stdoutName = "stdout.log"

// createFile creates a file, after removing an entry of the same name.
func (d *agentDir) createFile(name string, mode fs.FileMode) (*os.File, error) {
	if f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode); err == nil {
		return f, nil // the common case: only the directory exists
	}
	if err := d.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("agent: make the directory of %s: %w", d.path(name), err)
	}
	if err := d.root.RemoveAll(name); err != nil {
		return nil, fmt.Errorf("agent: replace %s: %w", d.path(name), err)
	}
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, fmt.Errorf("agent: write %s: %w", d.path(name), err)
	}
	return f, nil
}

// makeDirs makes directories with their parents.
func (d *agentDir) makeDirs(names ...string) error {
	for _, name := range names {
		if err := d.root.MkdirAll(name, 0o700); err != nil {
			return fmt.Errorf("agent: make %s: %w", d.path(name), err)
		}
	}
	return nil
}

// copyFiles copies files of the user into the directory, those that exist.
func (d *agentDir) copyFiles(from, to string, names ...string) error {
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(from, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("agent: read %s: %w", name, err)
		}
		data, err := readRegular(f, filepath.Join(from, name))
		f.Close()
		if err != nil {
			return err
		}
		if err := d.write(filepath.Join(to, name), data, 0o600); err != nil {
			return err
		}
		d.user.names = append(d.user.names, filepath.Join(to, name))
		d.user.secrets = append(d.user.secrets, secret.FileValues("credential", data)...)
	}
	return nil
}

// removeUserFiles removes what openHome copied: the home is one of the artifacts, which
// people keep and pass on.
func (in Input) removeUserFiles(u userFiles) error {
	if len(u.names) == 0 {
		return nil
	}
	d, err := openDir(in.homeDir())
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	for _, name := range u.names {
		if rerr := d.root.RemoveAll(name); rerr != nil {
			err = errors.Join(err, fmt.Errorf("agent: remove %s: %w", d.path(name), rerr))
		}
	}
	return err
}

// createLog makes a log of at most limit bytes.
func (d *agentDir) createLog(name string, limit int64) (*logFile, error) {
	f, err := d.createFile(name, 0o600)
	if err != nil {
		return nil, err
	}
	return &logFile{File: f, left: limit}, nil
}

// A logFile keeps the first bytes that are written to it and counts the rest without an
// error, so that a program that writes too much goes on.
type logFile struct {
	*os.File
	left    int64
	dropped int64
	buf     bytes.Buffer
}

func (l *logFile) Write(p []byte) (int, error) {
	keep := p[:min(int64(len(p)), l.left)]
	l.left -= int64(len(keep))
	l.dropped += int64(len(p) - len(keep))
	l.buf.Write(keep)
	if _, err := l.File.Write(keep); err != nil {
		return 0, fmt.Errorf("agent: write %s: %w", l.Name(), err)
	}
	return len(p), nil
}

func (l *logFile) text() []byte { return l.buf.Bytes() }
