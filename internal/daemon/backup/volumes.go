package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
)

// Names of volumes in a backup: the list of their entries, and the directory of the contents of
// files, which have numbers.
const (
	volumesDir  = "volumes"
	volumesList = "entries.json"
	volumesTemp = "volumes.tmp" // of a restore
)

// A volumeEntry is a file, a directory or a symlink of a volume. Names are bytes: in JSON they
// would otherwise have to be UTF-8.
type volumeEntry struct {
	Path    []byte      `json:"path"`
	Mode    fs.FileMode `json:"mode"` // with the type
	Target  []byte      `json:"target,omitempty"`
	Time    time.Time   `json:"time"`
	Content string      `json:"content,omitempty"` // number of the file in the backup
}

// addVolumes adds the files of volumes to a backup. A file that is written meanwhile is in it as
// it was read.
func (s *Source) addVolumes(ctx context.Context, out *writer, c *Contents) error {
	root, err := os.OpenRoot(filepath.Join(s.Dir, volumesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only read
	list, leftOut := []volumeEntry{}, 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if name == "." && err == nil {
			return nil
		}
		var e volumeEntry
		if err == nil {
			e, err = addVolumeEntry(out, root, name, len(list))
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, errLeftOut), errors.Is(err, fs.ErrPermission):
			leftOut++
			return nil
		case err != nil:
			return err
		}
		list = append(list, e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("backup: back up the volumes: %w", err)
	}
	if leftOut > 0 {
		c.LeftOut = append(c.LeftOut, LeftOut{ID: volumesDir, Reason: fmt.Sprintf("%d entries of volumes can't be read, or are neither files, directories nor symlinks", leftOut)})
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return out.Add(path.Join(volumesDir, volumesList), int64(len(data)), bytes.NewReader(data))
}

// errLeftOut is an entry that can't be backed up.
var errLeftOut = errors.New("left out")

// addVolumeEntry adds an entry, and the content of a file under a number. Programs in sandboxes
// may replace the entry at any time; root keeps symlinks inside.
func addVolumeEntry(out *writer, root *os.Root, name string, number int) (volumeEntry, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return volumeEntry{}, err
	}
	e := volumeEntry{Path: []byte(name), Mode: info.Mode(), Time: info.ModTime()}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return e, nil
	case fs.ModeSymlink:
		target, err := root.Readlink(name)
		e.Target = []byte(target)
		return e, err
	case 0:
	default:
		return e, errLeftOut
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a FIFO by now
	if err != nil {
		return e, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return e, errors.Join(err, errLeftOut)
	}
	e.Mode, e.Content = info.Mode(), strconv.Itoa(number)
	return e, out.Add(path.Join(volumesDir, e.Content), info.Size(), io.MultiReader(f, zeros{})) // it may shrink meanwhile
}

// zeros is an endless stream of NUL bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// restoreVolumes gives the files of volumes their names.
func (x *restore) restoreVolumes() error {
	root, err := os.OpenRoot(x.temp)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	data, err := root.ReadFile(path.Join(volumesDir, volumesList))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list []volumeEntry
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err == nil {
		err = root.Rename(volumesDir, volumesTemp)
	}
	if err == nil {
		err = root.Mkdir(volumesDir, 0o755)
	}
	for _, e := range list {
		if err == nil {
			err = e.restore(root)
		}
	}
	// Directories last: writing into one needs the permission, and changes its time.
	for _, e := range slices.Backward(list) {
		if err == nil && e.Mode.Type() != fs.ModeSymlink {
			name := path.Join(volumesDir, string(e.Path))
			err = errors.Join(root.Chmod(name, e.Mode.Perm()), root.Chtimes(name, e.Time, e.Time))
		}
	}
	if err != nil {
		return fmt.Errorf("backup: restore the volumes: %w", err)
	}
	return os.RemoveAll(filepath.Join(x.temp, volumesTemp))
}

func (e volumeEntry) restore(root *os.Root) error {
	name := string(e.Path)
	if !filepath.IsLocal(name) || path.Clean(name) != name || e.Content != "" && !filepath.IsLocal(e.Content) {
		return fmt.Errorf("%w: entry %.200q is not a file of a volume", fault.InvalidArgument, name)
	}
	name = path.Join(volumesDir, name)
	switch e.Mode.Type() {
	case fs.ModeDir:
		return root.Mkdir(name, 0o700)
	case fs.ModeSymlink:
		return root.Symlink(string(e.Target), name)
	}
	return root.Rename(path.Join(volumesTemp, e.Content), name)
}
