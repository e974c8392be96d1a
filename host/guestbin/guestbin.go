// Package guestbin finds the program croft-guest. A croft that was built with
// "make build" carries it inside; one that was built otherwise looks for it
// beside itself and on PATH.
//
// It is apart from package guest so that programs without embedded guests can use that one.
package guestbin

import (
	"crypto/sha256"
	"debug/elf"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/klauspost/compress/zstd"
)

// Name is the name of the program.
const Name = "croft-guest"

//go:embed bin
var embedded embed.FS

// embeddedName is the name of the program for an architecture, as GOARCH names it.
// It is compressed with zstd.
func embeddedName(arch string) string { return "bin/linux-" + arch + ".zst" }

// Embedded reports whether this program carries croft-guest for an architecture, as
// GOARCH names it.
func Embedded(arch string) bool {
	_, err := fs.Stat(embedded, embeddedName(arch))
	return err == nil
}

// A Binary is a croft-guest that can be started on this host.
type Binary struct {
	Path    string
	Version string // of its content: equal for equal programs alone
	From    string // where it was found, for people
}

// Find returns the program: at path, if that is not empty; else the embedded
// one; else the one beside the running program; else the one on PATH. It fails
// naming these.
func Find(path string) (*Binary, error) {
	if path != "" {
		return open(path, "the configuration")
	}
	if b, err := inside(); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if self, err := os.Executable(); err == nil {
		if b, err := open(filepath.Join(filepath.Dir(self), Name), "beside this program"); err == nil {
			return b, nil
		}
	}
	if onPath, err := exec.LookPath(Name); err == nil {
		return open(onPath, "PATH")
	}
	return nil, fmt.Errorf("%s: %w: it is not configured, not embedded in this program, not beside it and not on PATH; "+
		"get it with \"go install github.com/croft-run/croft/cmd/croft-guest\", or build croft with \"make build\"", Name, fault.Unsupported)
}

func open(path, from string) (*Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.Of(err), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("%s of %s: %s: %w: it is not a program", Name, from, path, fault.InvalidArgument)
	}
	version, err := identify(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.Of(err), err)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.InvalidArgument, err)
	}
	return &Binary{Path: path, Version: version, From: from}, nil
}

// identify returns the version of a program. Go's linker has put a digest of the
// content in it, the build ID, which is read in no time; what has none is read whole.
func identify(r io.ReaderAt, size int64) (string, error) {
	sum := sha256.New()
	if id := buildID(r); id != "" {
		io.WriteString(sum, "Go build ID "+id) //nolint:errcheck // a digest takes all
	} else if _, err := io.Copy(sum, io.NewSectionReader(r, 0, size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

// buildID returns the build ID of a program: four digests, the last one of its
// content. It is "" of what Go did not build, and where the builder left it out.
func buildID(r io.ReaderAt) string {
	f, err := elf.NewFile(r)
	if err != nil {
		return ""
	}
	s := f.Section(".note.go.buildid")
	const header, most = 16, 1 << 10 // sizes of name and text, the kind and the name "Go"
	if s == nil || s.Size < header || s.Size > most {
		return ""
	}
	note, err := s.Data()
	if err != nil || len(note) < header {
		return ""
	}
	n := f.ByteOrder.Uint32(note[4:])
	if uint64(n) > uint64(len(note)-header) {
		return ""
	}
	id := string(note[header:][:n])
	if strings.Count(id, "/") != 3 || strings.HasSuffix(id, "/") {
		return ""
	}
	return id
}

// inside decompresses the embedded program, once per process, into a sealed memfd:
// it can be started, and no process can change it.
var inside = sync.OnceValues(func() (*Binary, error) {
	f, err := embedded.Open(embeddedName(runtime.GOARCH))
	if err != nil || runtime.GOOS != "linux" {
		return nil, fs.ErrNotExist
	}
	defer f.Close() //nolint:errcheck // it is in memory
	b, err := unpack(f)
	if err != nil {
		return nil, fmt.Errorf("%s: unpack the embedded one: %w: %w", Name, fault.Failed, err)
	}
	return b, nil
})

func unpack(compressed io.Reader) (*Binary, error) {
	r, err := zstd.NewReader(compressed)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	path, err := place(r)
	if err != nil {
		return nil, err
	}
	return open(path, "embedded")
}
