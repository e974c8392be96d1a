// Package backup backs a data directory up while it is used ([Source.Write]), and restores it
// ([Restore]). A backup is a tar archive, compressed with zstd, of the files of the directory, with a
// header before them and a list of their digests after them.
package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sparse"
)

// format is the version of the format.
const format = 1

// A Header begins a backup.
type Header struct {
	Format  int       `json:"format"`
	Layout  int       `json:"layout"` // version of the data directory
	Croft   string    `json:"croft"`  // version of the program
	Created time.Time `json:"created"`
}

// Contents says what a backup has.
type Contents struct {
	Workspaces []Workspace `json:"workspaces"`
	LeftOut    []LeftOut   `json:"leftOut"`
	Snapshots  int         `json:"snapshots"` // those of the workspaces included
	Token      bool        `json:"token"`     // the token of the server is in the backup
}

// A Workspace is a workspace in a backup.
type Workspace struct {
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Kind     string `json:"kind"`
	Snapshot string `json:"snapshot,omitempty"` // with its files; "" if it was never opened
}

// LeftOut is something that is not in a backup, wholly or in part.
type LeftOut struct {
	ID     string `json:"id"` // of a workspace, a snapshot or a volume
	Name   string `json:"name,omitempty"`
	Reason string `json:"reason"`
}

// manifest ends a backup. A backup without it is truncated.
type manifest struct {
	Contents
	Files map[string]file `json:"files"` // by path
}

type file struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Names of entries in the archive, and the maximum size of those that are read as a whole.
const (
	headerName   = "croft-backup.json"
	manifestName = "manifest.json"
	filePrefix   = "data/"

	maxHeader   = 64 << 10
	maxManifest = 1 << 30
)

// A writer writes a backup.
type writer struct {
	zip   *zstd.Encoder
	tar   *tar.Writer
	when  time.Time
	files map[string]file
}

// newWriter begins a backup.
func newWriter(w io.Writer, head Header) (*writer, error) {
	zip, err := zstd.NewWriter(w)
	if err != nil {
		return nil, err
	}
	out := &writer{zip: zip, tar: tar.NewWriter(zip), when: head.Created, files: map[string]file{}}
	return out, out.addJSON(headerName, head)
}

func (w *writer) addJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := w.addEntry(name, int64(len(data))); err != nil {
		return err
	}
	_, err = w.tar.Write(data)
	return err
}

func (w *writer) addEntry(name string, size int64) error {
	return w.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: size, ModTime: w.when, Format: tar.FormatPAX})
}

// Add adds a file of the data directory, whose content has the given size.
func (w *writer) Add(name string, size int64, body io.Reader) error {
	if err := w.addEntry(filePrefix+name, size); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(w.tar, io.TeeReader(io.LimitReader(body, size), sum))
	if err == nil && n != size {
		err = fmt.Errorf("backup: %s: %w: it shrank while it was read", name, fault.Conflict)
	}
	w.files[name] = file{Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}
	return err
}

// AddFile adds a file of the host.
func (w *writer) AddFile(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.Add(name, info.Size(), f)
}

// Finish ends the backup.
func (w *writer) Finish(c Contents) error {
	if err := w.addJSON(manifestName, manifest{c, w.files}); err != nil {
		return err
	}
	return errors.Join(w.tar.Close(), w.zip.Close())
}

// extractFiles writes the files of a backup into a directory, and verifies them. check refuses
// a header, or a path that it does not know. After an error the directory may have some of
// the files.
func extractFiles(r io.Reader, to *os.Root, check func(Header) error, known func(name string) bool) (*Header, *Contents, error) {
	zip, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(64<<20), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, nil, damaged(err)
	}
	defer zip.Close()
	x := &extraction{in: tar.NewReader(zip), to: to, known: known, got: map[string]file{}}
	head, err := x.readHeader(check)
	if err != nil {
		return nil, nil, err
	}
	listed, err := x.readFiles()
	if err != nil {
		return nil, nil, err
	}
	return head, &listed.Contents, x.verify(listed)
}

func damaged(err error) error {
	err = fmt.Errorf("backup: %w: the file is damaged, truncated or no backup: %w", fault.InvalidArgument, err)
	return fault.Advise(err, "give a file that croft backup FILE wrote")
}

func refusef(format string, args ...any) error {
	return fmt.Errorf("backup: %w: %s", fault.InvalidArgument, fmt.Sprintf(format, args...))
}

type extraction struct {
	in    *tar.Reader
	to    *os.Root
	known func(string) bool
	got   map[string]file
}

func (x *extraction) readHeader(check func(Header) error) (*Header, error) {
	var head Header
	entry, err := x.in.Next()
	if err != nil {
		return nil, damaged(err)
	}
	if entry.Name != headerName {
		return nil, fault.Advise(refusef("it is no backup: it begins with %.100q", entry.Name), "give a file that croft backup FILE wrote")
	}
	if err := x.readJSON(entry, maxHeader, &head); err != nil {
		return nil, err
	}
	if head.Format != format {
		return nil, fmt.Errorf("backup: %w: it has format %d, of croft %.40q, and this croft reads format %d", fault.Unsupported, head.Format, head.Croft, format)
	}
	return &head, check(head)
}

func (x *extraction) readJSON(entry *tar.Header, most int64, v any) error {
	if entry.Typeflag != tar.TypeReg || entry.Size > most {
		return refusef("%s is no file of at most %d bytes", entry.Name, most)
	}
	data, err := io.ReadAll(x.in)
	if err != nil {
		return damaged(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return damaged(err)
	}
	return nil
}

// readFiles extracts the files up to the manifest, which must be last.
func (x *extraction) readFiles() (*manifest, error) {
	for {
		entry, err := x.in.Next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, damaged(err)
		}
		if entry.Name == manifestName {
			listed := &manifest{}
			if err := x.readJSON(entry, maxManifest, listed); err != nil {
				return nil, err
			}
			if _, err := x.in.Next(); !errors.Is(err, io.EOF) {
				return nil, refusef("something follows %s (%v)", manifestName, err)
			}
			return listed, nil
		}
		if err := x.extractFile(entry); err != nil {
			return nil, err
		}
	}
}

func (x *extraction) extractFile(entry *tar.Header) error {
	name, ok := strings.CutPrefix(entry.Name, filePrefix)
	if !ok || entry.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || path.Clean(name) != name || !x.known(name) {
		return refusef("entry %.200q is not a file of a data directory", entry.Name)
	}
	if _, twice := x.got[name]; twice {
		return refusef("entry %.200q is there twice", entry.Name)
	}
	if err := x.to.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := x.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := sparse.Copy(f, io.TeeReader(readErrors{x.in}, sum))
	if err == nil {
		err = f.Sync()
	}
	x.got[name] = file{Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}
	return errors.Join(err, f.Close())
}

// readErrors marks the errors of reading a backup, to tell them from errors of writing.
type readErrors struct{ r io.Reader }

func (r readErrors) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(err)
	}
	return n, err
}

func (x *extraction) verify(listed *manifest) error {
	for name, want := range listed.Files {
		switch got, ok := x.got[name]; {
		case !ok:
			return refusef("%.200q is missing", name)
		case got != want:
			return refusef("%.200q has %d bytes with digest %s, and %d bytes with digest %.64s were backed up", name, got.Size, got.SHA256, want.Size, want.SHA256)
		}
	}
	for name := range x.got {
		if _, ok := listed.Files[name]; !ok {
			return refusef("%.200q is not in its list", name)
		}
	}
	return nil
}
