package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
)

var (
	errPresent = errors.New("the entry is there")
	errAbsent  = errors.New("the entry is not there")
)

// A Change is a change of a configuration that was not made yet.
type Change struct {
	File   string // without symlinks
	Before []byte // nil if there is no file
	After  []byte // nil removes the file

	backup string // with an undo: the file that Before came from; "" without a backup
	undo   bool
}

// maxConfig bounds the size of a configuration: that of Claude Code has the history of
// projects.
const maxConfig = 64 << 20

// Add returns the change that adds Croft's MCP server; nil if the server is there.
func (a Agent) Add() (*Change, error) {
	c, err := a.read()
	if err != nil {
		return nil, err
	}
	c.After, err = a.edit.add(c.Before)
	if errors.Is(err, errPresent) {
		return nil, nil
	}
	return c, a.wrap(err)
}

// Remove returns the change that removes Croft's MCP server; nil if the server is not there.
// If nothing else has changed since the server was added, the file becomes that of before.
func (a Agent) Remove() (*Change, error) {
	c, err := a.read()
	if err != nil || c.Before == nil {
		return nil, err
	}
	c.undo = true
	for n := 1; ; n++ {
		name := backupName(c.File, n)
		data, err := os.ReadFile(name)
		if err != nil {
			break
		}
		if added, err := a.edit.add(data); err == nil && bytes.Equal(added, c.Before) {
			c.After, c.backup = data, name
		}
	}
	if c.backup != "" {
		return c, nil
	}
	if added, err := a.edit.add(nil); err == nil && bytes.Equal(added, c.Before) {
		return c, nil // it was made for the entry
	}
	c.After, err = a.edit.remove(c.Before)
	if errors.Is(err, errAbsent) {
		return nil, nil
	}
	if err == nil && !a.isOwn(c) {
		err = fmt.Errorf("%w: its server %q is not as croft setup writes it: it was there before, or has changed since; remove it by hand if you do not need it",
			fault.WrongState, ServerName)
	}
	return c, a.wrap(err)
}

// isOwn reports whether the entry in a file is Add's: a backup lacks it, or it is as Add writes it
// now. Add leaves an entry of the user as it is.
func (a Agent) isOwn(c *Change) bool {
	for n := 1; ; n++ {
		data, err := os.ReadFile(backupName(c.File, n))
		if err != nil {
			break
		}
		if _, err := a.edit.add(data); err == nil {
			return true
		}
	}
	own, err := a.edit.add(nil)
	if err != nil {
		return false
	}
	entry := bytes.Join(bytes.Fields(own), nil)
	if at := bytes.Index(entry, []byte(strconv.Quote(ServerName)+":")); at >= 0 { // in JSON, without the objects around it
		entry = entry[at : len(entry)-bytes.Count(entry[:at], []byte("{"))]
	}
	return bytes.Contains(bytes.Join(bytes.Fields(c.Before), nil), entry)
}

func (a Agent) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("setup: %s: %s: %w; it was not changed", a.Name, a.File, err)
}

// read reads the configuration. A symlink, as managers of dotfiles make them, is followed.
func (a Agent) read() (*Change, error) {
	c := &Change{File: a.File}
	if real, err := filepath.EvalSymlinks(a.File); err == nil {
		c.File = real
	} else if _, lerr := os.Lstat(a.File); lerr == nil {
		return nil, a.wrap(fmt.Errorf("%w: it is a symlink to nothing", fault.InvalidArgument))
	}
	info, err := os.Stat(c.File)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfig) {
		err = fmt.Errorf("%w: it is not a file of at most %d bytes", fault.InvalidArgument, maxConfig)
	}
	if err == nil {
		c.Before, err = os.ReadFile(c.File)
	}
	if err != nil && !errors.Is(err, fault.InvalidArgument) {
		err = fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	return c, a.wrap(err)
}

func backupName(file string, n int) string {
	if n == 1 {
		return file + ".croft-backup"
	}
	return fmt.Sprintf("%s.croft-backup-%d", file, n)
}

// Make makes the change. backup is the file with the content of before, "" if there was
// none or it is an undo.
func (c *Change) Make() (backup string, err error) {
	now, err := os.ReadFile(c.File)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("setup: %w: %w", fault.Of(err), err)
	}
	if !bytes.Equal(now, c.Before) {
		return "", fmt.Errorf("setup: %s: %w: it has changed meanwhile; try again", c.File, fault.Conflict)
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(c.File); err == nil {
		mode = info.Mode().Perm()
	}
	if !c.undo && c.Before != nil {
		if backup, err = writeBackup(c.File, c.Before, mode); err != nil {
			return "", err
		}
	}
	if c.After == nil {
		err = os.Remove(c.File)
	} else if err = os.MkdirAll(filepath.Dir(c.File), 0o700); err == nil {
		err = atomicfile.Write(c.File, c.After, atomicfile.Options{Mode: mode})
	}
	if err == nil && c.backup != "" {
		err = os.Remove(c.backup)
	}
	if err != nil {
		return "", fmt.Errorf("setup: %s: %w: %w", c.File, fault.Of(err), err)
	}
	return backup, nil
}

// writeBackup writes data to a new file beside file.
func writeBackup(file string, data []byte, mode os.FileMode) (string, error) {
	for n := 1; ; n++ {
		name := backupName(file, n)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return "", fmt.Errorf("setup: back up %s: %w: %w", file, fault.Of(err), err)
		}
		return name, nil
	}
}
