package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
)

// writeJSON writes a document by atomic rename. The rename replaces a symlink that an
// agent created at the path, and does not follow it.
func writeJSON(path string, v any) error {
	data, err := encodeDocument(v)
	if err != nil {
		return fmt.Errorf("eval: write %s: %w: %w", path, fault.Internal, err)
	}
	return writeAtomic(path, data)
}

// encodeDocument encodes an indented document, as skillgym does.
func encodeDocument(v any) ([]byte, error) { return encodeJSON(v, "  ") }

// encodeJSON encodes a value as JSON without escaping <, > and &, with a newline at the
// end.
func encodeJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// reportFileOptions are the options of files that people read. They may hold output of
// agents, so other users can't read them.
var reportFileOptions = atomicfile.Options{Mode: 0o600}

func writeAtomic(path string, data []byte) error {
	if err := atomicfile.Write(path, data, reportFileOptions); err != nil {
		return fmt.Errorf("eval: write %s: %w: %w", path, fault.Of(err), err)
	}
	return nil
}

// A boundedFile keeps the first bytes that are written to it and counts the rest without
// an error.
type boundedFile struct {
	*os.File
	left    int64
	dropped int64
}

const maxLog = 64 << 20

// newLog makes a log and replaces an entry of the same name.
func newLog(path string) (*boundedFile, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("eval: replace %s: %w: %w", path, fault.Of(err), err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("eval: write %s: %w: %w", path, fault.Of(err), err)
	}
	return &boundedFile{File: f, left: maxLog}, nil
}

func (b *boundedFile) Write(p []byte) (int, error) {
	keep := p[:min(int64(len(p)), b.left)]
	b.left -= int64(len(keep))
	b.dropped += int64(len(p) - len(keep))
	if _, err := b.File.Write(keep); err != nil {
		return 0, err
	}
	return len(p), nil
}
