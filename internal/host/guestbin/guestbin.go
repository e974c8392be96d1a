// Package guestbin finds the program croft-guest: embedded by "make build" and in releases,
// beside the running program, or on PATH.
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
	"github.com/croft-run/croft/internal/version"
	"github.com/klauspost/compress/zstd"
)

// Name is the name of the program.
const Name = "croft-guest"

//go:embed bin
var embedded embed.FS

// embeddedName returns the name of the zstd-compressed program for a GOARCH.
func embeddedName(arch string) string { return "bin/linux-" + arch + ".zst" }

// Embedded reports whether this program embeds croft-guest for a GOARCH.
func Embedded(arch string) bool {
	_, err := fs.Stat(embedded, embeddedName(arch))
	return err == nil
}

// fromEmbedded is Binary.From of the embedded program.
const fromEmbedded = "embedded"

// A Binary is a croft-guest that can be started on this host.
type Binary struct {
	Path    string
	Version string // identifies the content
	From    string // where it was found, for messages
}

// Find returns the program: at path, if that is not empty; or else the embedded one, the
// one beside the running program, or the one on PATH. Its error names all of these.
func Find(path string) (*Binary, error) {
	if path != "" {
		return openBinary(path, "the configuration")
	}
	if b, err := unpackEmbedded(); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if self, err := os.Executable(); err == nil {
		if b, err := openBinary(filepath.Join(filepath.Dir(self), Name), "beside this program"); err == nil {
			return b, nil
		}
	}
	if onPath, err := exec.LookPath(Name); err == nil {
		return openBinary(onPath, "PATH")
	}
	return nil, fmt.Errorf("%s: %w: this program was built without it, and it is neither configured, nor beside this program, nor on PATH; %s",
		Name, fault.Unsupported, remedy(version.Get()))
}

// FindFor is Find for a machine with the given GOARCH. path is a program for this host's own
// architecture; of others only the embedded program is known.
func FindFor(arch, path string) (*Binary, error) {
	if arch == runtime.GOARCH {
		return Find(path)
	}
	b, err := unpackFor(arch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s for %s: %w: this program was built without it; %s", Name, arch, fault.Unsupported, remedy(version.Get()))
	}
	return b, err
}

// remedy says how to get the program for a build without it. A module proxy has the source
// of what "go install" and "go get" built; a clone of the repository has the Makefile.
func remedy(build version.Info) string {
	if build.Version == version.Devel || build.Commit != "" {
		return "run \"make guests\" in the repository of Croft and build this program again"
	}
	return fmt.Sprintf("install it on PATH: go install %s/cmd/%s@%s", version.Module, Name, build.Version)
}

func openBinary(path, from string) (*Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.Of(err), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("%s of %s: %s: %w: it is not an executable file", Name, from, path, fault.InvalidArgument)
	}
	version, err := contentVersion(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.Of(err), err)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w: %w", Name, from, fault.InvalidArgument, err)
	}
	return &Binary{Path: path, Version: version, From: from}, nil
}

// contentVersion returns a digest that identifies the content of a program: of the build ID
// of Go's linker, which contains such a digest and is read quickly, or of the whole file if
// it has no build ID.
func contentVersion(r io.ReaderAt, size int64) (string, error) {
	sum := sha256.New()
	if id := buildID(r); id != "" {
		io.WriteString(sum, "Go build ID "+id) //nolint:errcheck // never fails
	} else if _, err := io.Copy(sum, io.NewSectionReader(r, 0, size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

// buildID returns the Go build ID of a program: four digests, the last one of its content.
// It is "" for programs that Go did not build or that were built without it.
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

// unpackEmbedded is unpackFor this architecture, once per process.
var unpackEmbedded = sync.OnceValues(func() (*Binary, error) { return unpackFor(runtime.GOARCH) })

// unpackFor decompresses an embedded program into a sealed memfd, which can be executed and
// not changed by any process.
func unpackFor(arch string) (*Binary, error) {
	f, err := embedded.Open(embeddedName(arch))
	if err != nil || runtime.GOOS != "linux" {
		return nil, fs.ErrNotExist
	}
	defer f.Close() //nolint:errcheck // it is in memory
	b, err := unpack(f)
	if err != nil {
		return nil, fmt.Errorf("%s: unpack the embedded program: %w: %w", Name, fault.Failed, err)
	}
	return b, nil
}

func unpack(compressed io.Reader) (*Binary, error) {
	r, err := zstd.NewReader(compressed)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	path, err := writeMemfd(r)
	if err != nil {
		return nil, err
	}
	return openBinary(path, fromEmbedded)
}
