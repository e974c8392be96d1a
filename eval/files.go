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

// writeJSON writes a document in place of the file that is there, whole or not
// at all. An agent may write where the file goes: a link there is not followed.
func writeJSON(path string, v any) error {
	data, err := encodeDocument(v)
	if err != nil {
		return fmt.Errorf("eval: write %s: %w: %w", path, fault.Internal, err)
	}
	return writeAtomic(path, data)
}

// encodeDocument is a value as an indented document, as skillgym writes one.
func encodeDocument(v any) ([]byte, error) { return encodeJSON(v, "  ") }

// encodeJSON is a value as JSON in which <, > and & are not escaped, and a newline.
func encodeJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// reportFileOptions is how files that people read are written.
var reportFileOptions = atomicfile.Options{Mode: 0o644}

func writeAtomic(path string, data []byte) error {
	if err := atomicfile.Write(path, data, reportFileOptions); err != nil {
		return fmt.Errorf("eval: write %s: %w: %w", path, fault.Of(err), err)
	}
	return nil
}

// A boundedFile keeps the beginning of what is written to it, and takes the rest
// without an error.
type boundedFile struct {
	*os.File
	left int64
}

const maxLog = 64 << 20

// newLog makes a log in the place of what has the name.
func newLog(path string) (*boundedFile, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("eval: replace %s: %w: %w", path, fault.Of(err), err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("eval: write %s: %w: %w", path, fault.Of(err), err)
	}
	return &boundedFile{f, maxLog}, nil
}

func (b *boundedFile) Write(p []byte) (int, error) {
	keep := p[:min(int64(len(p)), b.left)]
	b.left -= int64(len(keep))
	if _, err := b.File.Write(keep); err != nil {
		return 0, err
	}
	return len(p), nil
}
